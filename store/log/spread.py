"""A group of records that does not fit where it begins goes on in the next container, cut where that one ends.

Most groups never come here: one that fits into a container of its own leaves an eighth of one unused rather than be
cut, since a cut costs a flush more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .layout import BATCH_HEAD, FIRST, LAST, MIDDLE, RECORD_HEAD, WHOLE, record_bytes

UNUSED = 8
"""This part of a container may stay unused at its end."""
_LEAST_PART = 1024


class Chunk(NamedTuple):
    """A record, or one part of it, in a batch: whose it is, by the record's place in the group."""

    record: int
    part: int
    payload: Sequence[bytes]


def spread(records: Sequence[tuple[bytes, Sequence[bytes]]], room: int, capacity: int) -> list[list[Chunk]]:
    """Lay out a group of records over batches.

    Args:
        records: packed name and payload of each.
        room: bytes that are left in the container, a multiple of 4 KiB.
        capacity: bytes that an empty container has.

    Returns:
        A batch for this container, empty if nothing is to be written here, and one for each container behind it.
    """
    total = BATCH_HEAD + sum(record_bytes(name, _length(payload)) for name, payload in records)
    if total <= capacity and room <= capacity // UNUSED:
        room = 0
    batches: list[list[Chunk]] = [[]]
    left = room - BATCH_HEAD
    for number, (name, payload) in enumerate(records):
        rest, part = payload, FIRST
        while record_bytes(name, _length(rest)) > left:
            fits = left - RECORD_HEAD - len(name)
            if fits >= _LEAST_PART:
                head, rest = _cut(rest, fits)
                batches[-1].append(Chunk(number, part, head))
                part = MIDDLE
            batches.append([])
            left = capacity - BATCH_HEAD
        batches[-1].append(Chunk(number, WHOLE if part == FIRST else LAST, rest))
        left -= record_bytes(name, _length(rest))
    return batches


def _length(payload: Sequence[bytes]) -> int:
    return sum(map(len, payload))


def _cut(payload: Sequence[bytes], count: int) -> tuple[list[bytes], list[bytes]]:
    """The first `count` bytes, and the rest. The one piece that is cut is copied."""
    head: list[bytes] = []
    for place, piece in enumerate(payload):
        if len(piece) > count:
            return [*head, piece[:count]], [piece[count:], *payload[place + 1 :]]
        head.append(piece)
        count -= len(piece)
    return head, []
