"""Violations of the rules of programs that begin anew, planted into the logs of an honest run."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from .planting import FAR, Lines, NoPlace, Plant, accepted_once, queues_of, without


def middle(found: Lines) -> dict[str, Any]:
    if not found:
        raise NoPlace
    return found[len(found) // 2]


def twice(kind: str) -> Callable[[Lines], Lines]:
    """What was accepted comes again from another place, to the one who had it."""

    def sow(lines: Lines) -> Lines:
        one = middle(accepted_once(lines, kind))
        index = max(i for i, line in enumerate(lines) if line["client"] == one["client"] and line["op"] == "settle") + 1
        t = lines[index - 1]["t"]
        return [*lines[:index], one | {"id": FAR, "t": t, "since": t, "position": FAR}, *lines[index:]]

    return sow


def gone(kind: str) -> Callable[[Lines], Lines]:
    """What was complete never comes."""
    return lambda lines: without(lines, middle(accepted_once(lines, kind)))


def _told(had: Callable[[int], int]) -> Callable[[Lines], Lines]:
    """A broker says something else of a name that has been used before."""

    def sow(lines: Lines) -> Lines:
        middle([line for line in lines if line["op"] == "open" and line.get("had", 0) > 1]).update(had=FAR)
        for line in lines:
            if line.get("had") == FAR:
                line["had"] = had(FAR)
        return lines

    return sow


def _one_by_an_older_life(lines: Lines) -> Lines:
    """Two numbers of a name change places in their queue."""
    queues = queues_of(lines)
    named = [line for line in accepted_once(lines, "named") if queues[line["link"]].endswith("-named")]
    for one, other in pairwise(named):
        if one["producer"] == other["producer"] and one["number"] < other["number"]:
            one["position"], other["position"] = other["position"], one["position"]
            return lines
    raise NoPlace


def _never_a_duplicate(lines: Lines) -> Lines:
    """A broker has counted no duplicates."""
    for line in lines:
        if line["op"] == "tally" and line["counts"].get("duplicates"):
            line["counts"] = line["counts"] | {"duplicates": 0}
            return lines
    raise NoPlace


PLANTS: dict[str, Plant] = {
    "a number of a name comes in twice": Plant(twice("named"), "duplicate", "named"),
    "a number of a name is lost": Plant(gone("named"), "lost", "named"),
    "a name is forgotten": Plant(_told(lambda far: 0), "name", "named"),
    "a name has had what was not sent": Plant(_told(lambda far: far), "name", "named"),
    "numbers of a name change places": Plant(_one_by_an_older_life, "order", "named"),
    "an id comes in twice": Plant(twice("once"), "duplicate", "once"),
    "an id is taken for known": Plant(gone("once"), "lost", "once"),
    "duplicates are not counted": Plant(_never_a_duplicate, "tally", "once"),
}
