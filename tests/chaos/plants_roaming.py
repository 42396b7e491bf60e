"""Violations of the rules of messages that go on from queue to queue, planted into the logs of an honest run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from . import kinds
from .planting import FAR, Lines, NoPlace, Plant, accepted_once, rejected, without

Line = dict[str, Any]


def _only_once(lines: Lines, kind: str) -> Line:
    """A delivery that was its message's only one, in whatever queue, and whose accept is complete."""
    times = Counter((line["producer"], line["number"]) for line in lines if line["op"] == "deliver")
    found = [line for line in accepted_once(lines, kind) if times[line["producer"], line["number"]] == 1]
    if not found:
        raise NoPlace
    return found[len(found) // 2]


def _lost(kind: str) -> Callable[[Lines], Lines]:
    """A message goes on, and comes nowhere."""
    return lambda lines: without(lines, _only_once(lines, kind))


def _in_two_queues(kind: str) -> Callable[[Lines], Lines]:
    """A message goes on, and stays as well: another one accepts it there."""

    def sow(lines: Lines) -> Lines:
        one = _only_once(lines, kind)
        mine = [line for line in lines if line["client"] == one["client"] and line["op"] == "settle"]
        index = lines.index(mine[-1]) + 1
        t = mine[-1]["t"]
        again = one | {"id": FAR, "t": t, "since": t, "position": FAR}
        asked = {name: again[name] for name in ("client", "link", "t")} | {
            "op": "settle",
            "ids": [FAR],
            "kind": "accept",
        }
        return [*lines[:index], again, asked | {"outcome": "sent"}, asked | {"outcome": "completed"}, *lines[index:]]

    return sow


def _vanished(kind: str) -> Callable[[Lines], Lines]:
    """What was accepted was given back, and never comes again."""

    def sow(lines: Lines) -> Lines:
        return rejected(lines, _only_once(lines, kind))

    return sow


def _died_otherwise(cause: str) -> Callable[[Lines], Lines]:
    """A dead letter says that it died by something which cannot have been."""

    def sow(lines: Lines) -> Lines:
        rejected: set[tuple[str, int]] = set()
        ids = {(line["client"], line["id"]): line for line in lines if line["op"] == "deliver"}
        for line in lines:
            for id in line["ids"] if line["op"] == "settle" and line["kind"] == "reject" else ():
                one = ids[line["client"], id]
                rejected.add((one["producer"], one["number"]))
        for line in lines:
            if line["op"] != "deliver" or not line.get("died"):
                continue
            may = {
                "rejected": (line["producer"], line["number"]) in rejected,
                "expired": kinds.KINDS["dying"].lives(line["number"]) > 0,
                "delivery_limit": False,
            }
            if line["died"][0] != cause and not may[cause]:
                line["died"] = [cause, 0, line["died"][2]]
                return lines
        raise NoPlace

    return sow


def _dead_of_nothing(lines: Lines) -> Lines:
    """A dead letter does not say why it died."""
    queues = {line["link"]: line["queue"] for line in lines if line["op"] == "open"}
    for line in lines:
        if line["op"] == "deliver" and line.get("died") and queues[line["link"]].endswith(kinds.DEAD):
            del line["died"]
            return lines
    raise NoPlace


def _too_often(lines: Lines) -> Lines:
    """A message comes back more often than it may."""
    queues = {line["link"]: line["queue"] for line in lines if line["op"] == "open"}
    for line in lines:
        if line["op"] == "deliver" and queues[line["link"]].endswith("-dying"):
            line["count"] = kinds.KINDS["dying"].attempts + 1
            return lines
    raise NoPlace


def _stayed(lines: Lines) -> Lines:
    """A move has left some behind."""
    for line in lines:
        if line["op"] == "roam":
            line["left"] = 1
            return lines
    raise NoPlace


PLANTS: dict[str, Plant] = {
    "what was moved is lost": Plant(_lost("moved"), "lost", "moved"),
    "what was moved stays as well": Plant(_in_two_queues("moved"), "accepted again", "moved"),
    "what was rejected vanishes from where it was moved": Plant(_vanished("moved"), "vanished", "moved"),
    "a move leaves some behind": Plant(_stayed, "left", "moved"),
    "what died is lost": Plant(_lost("dying"), "lost", "dying"),
    "what was redriven stays as well": Plant(_in_two_queues("dying"), "accepted again", "dying"),
    "what was rejected is no dead letter": Plant(_vanished("dying"), "vanished", "dying"),
    "a dead letter that nobody rejected": Plant(_died_otherwise("rejected"), "cause", "dying"),
    "what lives for ever expires": Plant(_died_otherwise("expired"), "cause", "dying"),
    "what did not come back so often is said to": Plant(_died_otherwise("delivery_limit"), "cause", "dying"),
    "a dead letter that says nothing": Plant(_dead_of_nothing, "cause", "dying"),
    "what comes back too often comes again": Plant(_too_often, "attempts", "dying"),
}
