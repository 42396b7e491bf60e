"""The messages of a queue that wait for their time, before which no consumer gets them.

A delayed message is in the queue like any other: it counts, it can be browsed and purged, it expires. Which of two is
due first is a matter of their times alone; once it is due it is available, in the place that its position gives it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from ..ranges import RangeSet, pairs
from ..wire.events import Due


class Delayed:
    """Part of a queue's replicated state.

    Args:
        times: (position, Unix ms) pairs: when each is due.

    Attributes:
        due: position -> when it is due, Unix ms.
        ranges: the same positions.
        heap: (when, position) of all of these, the first due first, and of some that are delayed no more: derived, so
            whoever submits their `Due` may take them out.
    """

    __slots__ = ("due", "heap", "ranges")

    def __init__(self, times: Iterable[tuple[int, int]] = ()) -> None:
        self.due = dict(times)
        self.heap = sorted((at_ms, position) for position, at_ms in self.due.items())
        self.ranges = RangeSet()
        self.ranges.update((position, position) for position in sorted(self.due))

    def __bool__(self) -> bool:
        return bool(self.due)

    def __contains__(self, position: int) -> bool:
        return position in self.due

    def put(self, position: int, due_ms: int) -> None:
        """That message waits until then."""
        self.due[position] = due_ms
        self.ranges.add(position, position)
        heapq.heappush(self.heap, (due_ms, position))

    def came(self, first: int, least: int, delays: list[int], available: RangeSet) -> None:
        """Messages have come, of which some are delayed, and available no more.

        Args:
            first: the position of the first one of its enqueue. least: of the first that was new.
            delays: as in an `Enqueue`.
        """
        for index, due_ms in pairs(delays):
            position = first + index
            if position >= least and position in available:
                available.remove(position, position)
                self.put(position, due_ms)

    def put_off(self, ranges: list[tuple[int, int]], due_ms: int, available: RangeSet) -> None:
        """Messages have come back, to be available then."""
        for first, last in ranges:
            for a, b in available.take(first, last):
                for position in range(a, b + 1):
                    self.put(position, due_ms)

    def drop(self, ranges: Iterable[tuple[int, int]]) -> None:
        """The messages in these ranges are delayed no more."""
        for first, last in ranges:
            for a, b in self.ranges.take(first, last):
                for position in range(a, b + 1):
                    del self.due[position]
        if len(self.heap) > 2 * len(self.due) + 1000:
            self.heap = sorted((at_ms, position) for position, at_ms in self.due.items())

    def become_due(self, event: Due, available: RangeSet) -> list[tuple[int, int]]:
        """What is delayed and due by that event is available from here on: those, as ranges."""
        found = RangeSet()
        for first, last in pairs(event.ranges):
            for a, b in self.ranges.within(first, last):
                for position in range(a, b + 1):
                    if self.due[position] <= event.now_ms:
                        found.add(position, position)
        ranges = list(found)
        self.drop(ranges)
        for first, last in ranges:
            available.add(first, last)
        return ranges
