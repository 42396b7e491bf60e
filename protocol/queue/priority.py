"""Priorities: the highest level first, and in each level first in, first out.

A browser goes by position. What came back is in its old place of its level.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from ..range_columns import count_of
from ..ranges import RangeSet, subtract
from ..wire.events import Enqueue, Event
from .parted import PartedState


class ByPriority(PartedState):
    """The order of a queue with levels, and part of its state. A consumer's place is a position for each level that it
    has taken from; a browser's is one position."""

    __slots__ = ()

    events: tuple[type[Event], ...] = (Enqueue,)
    one_by_one = False

    def lowest(self) -> Iterator[tuple[int, int]]:
        """All messages that are available, delayed or held, as ranges: of the lowest level first, there the oldest."""
        available = self._available
        held: dict[int, list[tuple[int, int]]] = {}
        for ranges in (*self._state.acquired.values(), self._state.delayed.ranges):
            for first, last in ranges:
                for position in range(first, last + 1):
                    held.setdefault(available.part_of(position), []).append((position, position))
        for level in sorted({*available.parts, *held}):
            yield from heapq.merge(list(available.parts.get(level, ())), sorted(held.get(level, ())))

    # ---- the order

    def start(self, browse: bool, /) -> Any:
        return 1 if browse else {}

    def next(self, place: Any, /) -> tuple[int, int] | None:
        if isinstance(place, int):
            return self._available.at_or_after(place)
        parts = self._available.parts
        for level in sorted(parts, reverse=True):
            if parts[level].count and (found := parts[level].at_or_after(place.get(level, 1))) is not None:
                return found
        return None

    def behind(self, place: Any, last: int, given: bool = False, /) -> Any:
        return last + 1 if isinstance(place, int) else {**place, self._available.part_of(last): last + 1}

    def idle(self) -> None:
        pass

    def several(self, place: Any, most: int, taken: RangeSet, /) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        parts = self._available.parts
        for level in sorted(parts, reverse=True):
            position = place.get(level, 1)
            some = parts[level].some(position, most)
            if some and taken.count and taken.meets(some):
                some = _free(parts[level], position, most, taken)
            found += some
            most -= count_of(some)
            if not most:
                break
        return found

    def given(self, place: Any, parts: list[tuple[int, int]], /) -> Any:
        ends = [last for _, last in parts]
        return place | dict(zip(self._available.parts_of(ends), [last + 1 for last in ends], strict=True))

    def back(self, place: Any, positions: list[tuple[int, int]], /) -> Any:
        first = positions[0][0]
        if isinstance(place, int):
            return min(place, first)
        return {level: min(position, first) for level, position in place.items()}


def _free(waiting: RangeSet, position: int, most: int, taken: RangeSet) -> list[tuple[int, int]]:
    """The first messages of a level from a position on that are not taken, at most so many."""
    found: list[tuple[int, int]] = []
    for part in waiting.since(position):
        for first, last in subtract(*part, taken.within(*part)):
            if last - first >= most:
                last = first + most - 1
            found.append((first, last))
            most -= last - first + 1
            if not most:
                return found
    return found
