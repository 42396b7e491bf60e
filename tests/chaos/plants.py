"""Violations planted into the logs of an honest run: the checker must find every one, or the run has proved nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import history, kinds, plants_closings, plants_kinds, plants_later, plants_programs, plants_roaming
from .journal import DRAINER, History, take
from .planting import FAR, Lines, NoPlace, Plant, Unprovable, accepted_once, by_kind, queues_of, rejected, without


def escaped(lines: Lines) -> list[str]:
    """Names of the plants that the checker does not find in this history, or that find no place in it."""
    missed: list[str] = []
    of_kind = by_kind(lines)
    for name, plant in PLANTS.items():
        if plant.kind not in of_kind:
            continue
        found = History()
        try:
            take(found, plant.sow([dict(line) for line in of_kind[plant.kind]]))
        except Unprovable:
            continue
        except NoPlace:
            missed.append(name)
            continue
        if plant.rule not in history.check(found).rules:
            missed.append(name)
    return missed


def _deliveries(lines: Lines) -> Lines:
    return [line for line in lines if line["op"] == "deliver"]


def _accepted_at_once(lines: Lines) -> dict[str, Any]:
    """A delivery, from the middle of the run, that came once and whose accept is complete."""
    good = accepted_once(lines)
    if not good:
        raise NoPlace
    return good[len(good) // 2]


def _forget(lines: Lines) -> Lines:
    """A completed transfer is never delivered: one of which its sender has heard that, which many have not when all dies."""
    queues = queues_of(lines)
    complete = {
        (line["client"], queues[line["link"]], number)
        for line in lines
        if line["op"] == "send" and line["outcome"] == "completed"
        for number in range(line["first"], line["last"] + 1)
    }
    good = [
        line for line in accepted_once(lines) if (line["producer"], queues[line["link"]], line["number"]) in complete
    ]
    if not good:
        raise NoPlace
    return without(lines, good[len(good) // 2])


def _again(lines: Lines, **changed: Any) -> Lines:
    """An accepted message is delivered once more, to whoever is last."""
    one = _accepted_at_once(lines)
    client = one["client"]
    index = max(i for i, line in enumerate(lines) if line["client"] == client and line["op"] == "settle") + 1
    t = lines[index - 1]["t"]
    return [*lines[:index], one | {"id": FAR, "t": t, "since": t} | changed, *lines[index:]]


def _swapped(lines: Lines) -> Lines:
    """Two new messages of one producer change places on their way to one consumer."""
    before: dict[tuple[str, str], dict[str, Any]] = {}
    links = _sender_links(lines)
    queues = queues_of(lines)
    for line in _deliveries(lines):
        if line["count"] or kinds.of(queues[line["link"]]) is not None:
            continue
        key = (line["link"], line["producer"])
        other = before.get(key)
        names = [links.get((line["producer"], queues[line["link"]], one["number"])) for one in (other or line, line)]
        if other is not None and names[0] == names[1] is not None:
            mine, theirs = (line["number"], line["position"]), (other["number"], other["position"])
            (other["number"], other["position"]), (line["number"], line["position"]) = mine, theirs
            return lines
        before[key] = line
    raise NoPlace


def _sender_links(lines: Lines) -> dict[tuple[str, str, int], str]:
    queues = queues_of(lines)
    return {
        (line["client"], queues[line["link"]], number): line["link"]
        for line in lines
        if line["op"] == "send" and line["outcome"] == "sent"
        for number in range(line["first"], line["last"] + 1)
    }


def _bare(lines: Lines) -> Lines:
    """A redelivery loses its flag."""
    seen: set[tuple[str, str, int]] = set()
    queues = queues_of(lines)
    modified = {line["link"] for line in lines if line["op"] == "settle" and line.get("uncounted")}
    for line in _deliveries(lines):
        if kinds.of(queues[line["link"]]) is not None or line["link"] in modified:
            continue
        key = (line["link"], line["producer"], line["number"])
        if line["count"] and key in seen:
            line["count"] = 0
            return lines
        if not line["count"]:
            seen.add(key)
    # Nothing came again on one link: hand something out again, as new.
    return _again(lines, count=0)


def _vanish(lines: Lines) -> Lines:
    """An accept is called lost, and the message does not come again."""
    one = _accepted_at_once(lines)
    told: Lines = []
    for line in lines:
        mine = line["op"] == "settle" and line["client"] == one["client"] and one["id"] in line["ids"]
        if mine and line["outcome"] == "completed":
            told.append(line | {"ids": [id for id in line["ids"] if id != one["id"]]})
            told.append(line | {"ids": [one["id"]], "outcome": "lost"})
        else:
            told.append(line)
    return told


def _changed(**values: Any) -> Callable[[Lines], Lines]:
    def sow(lines: Lines) -> Lines:
        _accepted_at_once(lines).update(values)
        return lines

    return sow


def _rejected_instead(lines: Lines) -> Lines:
    """An accept is called a reject, and no dead letter comes of it."""
    return rejected(lines, _accepted_at_once(lines))


def _browsed(lines: Lines) -> tuple[dict[str, Any], list[int]]:
    """The last whole look at a queue that nobody takes from until it is drained; and where it has seen what was complete
    before."""
    opened = [line for line in lines if line["op"] == "open"]
    queues = {line["link"]: line["queue"] for line in opened}
    taken = {line["queue"] for line in opened if line["role"] == "receiver" and line["client"] != DRAINER}
    looks = [line for line in lines if line["op"] == "browse" and line["whole"] and queues[line["link"]] not in taken]
    for look in reversed(looks):
        known = {
            (line["client"], number)
            for line in lines
            if line["op"] == "send" and queues[line["link"]] == queues[look["link"]]
            if line["outcome"] == "completed" and line["t"] < look["began"]
            for number in range(line["first"], line["last"] + 1)
        }
        if found := [index for index, seen in enumerate(look["seen"]) if tuple(seen[1:]) in known]:
            return look, found
    raise NoPlace


def _overlooked(lines: Lines) -> Lines:
    """A browser does not see a message."""
    look, known = _browsed(lines)
    del look["seen"][known[len(known) // 2]]
    return lines


def _seen_twice(lines: Lines) -> Lines:
    """A browser sees a message again."""
    look, known = _browsed(lines)
    look["seen"].append(look["seen"][known[0]])
    return lines


PLANTS: dict[str, Plant] = {
    "a completed message is lost": Plant(_forget, "lost"),
    "an accepted message comes again": Plant(lambda lines: _again(lines, count=1), "accepted again"),
    "a message is enqueued twice": Plant(lambda lines: _again(lines, count=0, position=FAR), "duplicate"),
    "a redelivery is not flagged": Plant(_bare, "not flagged"),
    "two messages change places": Plant(_swapped, "order"),
    "a lost accept's message never comes again": Plant(_vanish, "vanished"),
    "a rejected message is no dead letter": Plant(_rejected_instead, "lost"),
    "a message nobody sent": Plant(_changed(number=FAR), "phantom"),
    "a damaged message": Plant(_changed(damaged=True), "damaged"),
    "a browser misses a message": Plant(_overlooked, "browse"),
    "a browser sees a message twice": Plant(_seen_twice, "browse"),
    "more than the window": Plant(_changed(over=True), "window"),
    "a message of another queue": Plant(_changed(of="elsewhere"), "misrouted"),
    **plants_kinds.PLANTS,
    **plants_programs.PLANTS,
    **plants_later.PLANTS,
    **plants_roaming.PLANTS,
    **plants_closings.PLANTS,
}
