"""How a violation is planted into the lines of an honest run: what is changed, and where it can be."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import kinds
from .journal import CLOSED, DEAD

Lines = list[dict[str, Any]]
FAR = 1 << 50
CLOSINGS = "closings"
"""What stands for the kind of queue where connections are concerned."""


@dataclass(frozen=True)
class Plant:
    """Attributes: sow: changes the lines of a run; rule: what the checker must say then; kind: where there are queues of
    this kind; "" everywhere."""

    sow: Callable[[Lines], Lines]
    rule: str
    kind: str = ""


class NoPlace(Exception):
    """There is nothing in this history that the plant could change."""


class Unprovable(Exception):
    """So much is unknown in this history that what would be planted might have been so."""


def queues_of(lines: Lines) -> dict[str, str]:
    """Link -> its queue."""
    return {line["link"]: line["queue"] for line in lines if line["op"] == "open"}


def by_kind(lines: Lines) -> dict[str, Lines]:
    """The lines of the queues of each kind, which are a history as well; "": those of the plain ones."""
    queues = queues_of(lines)
    found: dict[str, Lines] = {"": []}
    if any(line["op"] == "ended" and CLOSED in line["why"] for line in lines):
        found[CLOSINGS] = [line for line in lines if line["op"] in ("connected", "ended", "closing")]
    for line in lines:
        queue = line["queue"] if "queue" in line else queues.get(line.get("link", ""))
        if queue is not None:
            name = kinds.name(kinds.family(queue))
            found.setdefault(name if name in kinds.KINDS else "", []).append(line)
    for mine in found.values():
        clients = {line["client"] for line in mine}
        mine += [line for line in lines if line["op"] == "done" and line["client"] in clients]
    return found


def accepted_once(lines: Lines, kind: str = "") -> Lines:
    """The deliveries that came once and whose accept is complete, of queues of a kind; "": of plain ones."""
    times: dict[tuple[str, str, int], int] = defaultdict(int)
    queues = queues_of(lines)
    taken = [line for line in lines if line["op"] == "deliver"]
    for line in taken:
        times[queues[line["link"]], line["producer"], line["number"]] += 1
    accepted = {
        (line["client"], id)
        for line in lines
        if line["op"] == "settle" and line["kind"] == "accept" and line["outcome"] == "completed"
        for id in line["ids"]
    }
    return [
        line
        for line in taken
        if times[queues[line["link"]], line["producer"], line["number"]] == 1
        and (line["client"], line["id"]) in accepted
        and line["count"] == 0
        and not queues[line["link"]].endswith(DEAD)
        and (kinds.name(queues[line["link"]]) == kind if kind else kinds.of(queues[line["link"]]) is None)
    ]


def without(lines: Lines, gone: dict[str, Any]) -> Lines:
    """The lines without a delivery, and what was asked and said of it."""
    kept: Lines = []
    for line in lines:
        if line is gone:
            continue
        if line["op"] == "settle" and line["client"] == gone["client"] and gone["id"] in line["ids"]:
            line = line | {"ids": [id for id in line["ids"] if id != gone["id"]]}
        kept.append(line)
    return kept


def rejected(lines: Lines, one: dict[str, Any]) -> Lines:
    """The lines where this delivery, which was accepted, is called rejected."""
    told: Lines = []
    for line in lines:
        if line["op"] == "settle" and line["client"] == one["client"] and one["id"] in line["ids"]:
            told.append(line | {"ids": [id for id in line["ids"] if id != one["id"]]})
            told.append(line | {"ids": [one["id"]], "kind": "reject"})
        else:
            told.append(line)
    return told
