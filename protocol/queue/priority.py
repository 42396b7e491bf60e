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
                most -= LevelLine(parts[level], position, taken).head(most, found)
            else:
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


class LevelLine:
    """The messages of a level from a position on that are not taken, from the first to the last."""

    __slots__ = ("_parts", "_rest")

    def __init__(self, waiting: RangeSet, position: int, taken: RangeSet) -> None:
        self._parts = _free(waiting, position, taken)
        self._rest: tuple[int, int] | None = None

    def head(self, most: int, found: list[tuple[int, int]]) -> int:
        """Append the next ones to `found`, at most `most`; returns how many. Fewer: there are no others."""
        count = 0
        while count < most and (part := self._rest or next(self._parts, None)) is not None:
            first, last = part
            end = min(last, first + most - count - 1)
            self._rest = (end + 1, last) if end < last else None
            found.append((first, end))
            count += end - first + 1
        return count


def _free(waiting: RangeSet, position: int, taken: RangeSet) -> Iterator[tuple[int, int]]:
    for first, last in waiting.since(position):
        yield from subtract(first, last, taken.within(first, last)) if taken.count else ((first, last),)
