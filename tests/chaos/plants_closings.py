"""Violations of the rules of connections that an operator closes, planted into the logs of an honest run."""

from __future__ import annotations

from typing import Any

from .history_closings import HEARD_S, said
from .journal import CLOSED
from .planting import CLOSINGS, Lines, Plant, Unprovable


def _heard(lines: Lines) -> dict[str, Any]:
    """The end of a connection that has heard of an operator, who has heard that it is closed."""
    done = {line["connection"] for line in lines if line["op"] == "closing" and line["outcome"] == "completed"}
    for line in lines:
        if line["op"] == "ended" and CLOSED in line["why"] and line["connection"] in done:
            return line
    raise Unprovable


def _another(lines: Lines) -> Lines:
    """One that nobody has named hears that it is closed."""
    named = {line["connection"] for line in lines if line["op"] == "closing"}
    for line in lines:
        if line["op"] == "ended" and line["connection"] not in named:
            line["why"] = f"ConnectionLost: {said('repair 1')}"
            return lines
    raise Unprovable


def _other_words(lines: Lines) -> Lines:
    """Its end says what no operator has said of it."""
    line = _heard(lines)
    line["why"] = f"ConnectionLost: {said('repair 0')}"
    return lines


def _goes_on(lines: Lines) -> Lines:
    """It ends by itself, long after."""
    line = _heard(lines)
    asked = max(one["t"] for one in lines if one["op"] == "closing" and one["connection"] == line["connection"])
    line["why"], line["t"] = "", asked + 2 * HEARD_S
    return lines


def _not_found(lines: Lines) -> Lines:
    """Its broker says that it is not there, and it goes on."""
    line = _heard(lines)
    line["why"], line["interruptions"] = "", 0
    mine = [one for one in lines if one.get("connection") == line["connection"]]
    begun = next(one for one in mine if one["op"] == "connected")
    for one in mine:
        if one["op"] == "closing":
            one["broker"], one["t"] = begun["broker"], (begun["t"] + line["t"]) / 2
            if one["outcome"] == "completed":
                one["outcome"] = "failed"
    return lines


PLANTS: dict[str, Plant] = {
    "one that nobody has named is closed": Plant(_another, "closed", CLOSINGS),
    "who is closed hears other words": Plant(_other_words, "closed", CLOSINGS),
    "who is closed goes on": Plant(_goes_on, "closed", CLOSINGS),
    "who is to be closed is not found": Plant(_not_found, "closed", CLOSINGS),
}
