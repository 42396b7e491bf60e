"""Violations of the rules of what is for later, planted into the logs of an honest run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import kinds
from .planting import Lines, NoPlace, Plant, queues_of
from .plants_programs import gone, twice

KIND = kinds.KINDS["later"]
AT_ONCE_S = 1e-6


def _too_soon(lines: Lines) -> Lines:
    """A message that is for later comes as soon as it is sent."""
    queues = queues_of(lines)
    sent = {
        (line["client"], queues[line["link"]], number): line["t"]
        for line in lines
        if line["op"] == "send" and line["outcome"] == "sent"
        for number in range(line["first"], line["last"] + 1)
    }
    for line in lines:
        if line["op"] == "deliver" and KIND.delay(line["number"]):
            t = sent.get((line["producer"], queues[line["link"]], line["number"]))
            if t is not None and not line["count"]:
                line["t"] = line["since"] = t + AT_ONCE_S
                return lines
    raise NoPlace


def _back(lines: Lines, kind: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """What gave a message back, and a delivery of it that was after that."""
    queues = queues_of(lines)
    taken = {(line["client"], line["id"]): line for line in lines if line["op"] == "deliver"}
    answered = {
        (line["client"], id)
        for line in lines
        if line["op"] == "settle" and line["kind"] == kind and line["outcome"] == "completed"
        for id in line["ids"]
    }
    for line in lines:
        if line["op"] != "settle" or line["kind"] != kind or line["outcome"] != "sent" or line.get("uncounted"):
            continue
        for one in (taken[line["client"], id] for id in line["ids"] if (line["client"], id) in answered):
            for other in taken.values():
                same = (other["producer"], other["number"]) == (one["producer"], one["number"])
                if same and queues[other["link"]] == queues[one["link"]] and other["count"] > one["count"]:
                    yield line, other


def _released_for_longer(lines: Lines) -> Lines:
    """What was released was to come only at some later time."""
    for asked, _ in _back(lines, "release"):
        asked["delay"] = 1e6
        return lines
    raise NoPlace


def _tried_again_at_once(lines: Lines) -> Lines:
    """What is back from a delivery that counts does not wait."""
    for asked, again in _back(lines, "modify"):
        again["t"] = again["since"] = asked["t"] + AT_ONCE_S
        return lines
    raise NoPlace


PLANTS: dict[str, Plant] = {
    "what is for later comes at once": Plant(_too_soon, "early", "later"),
    "what is released for later comes earlier": Plant(_released_for_longer, "early", "later"),
    "another try comes at once": Plant(_tried_again_at_once, "early", "later"),
    "what is for later never comes": Plant(gone("later"), "lost", "later"),
    "what is for later comes twice": Plant(twice("later"), "duplicate", "later"),
}
