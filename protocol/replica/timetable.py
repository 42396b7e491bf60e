"""Which positions are due at which time, the first first.

Many are due at the same millisecond, for they came together: each costs an append and a pop, whatever else is noted.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Container, Iterable, Iterator


class Timetable:
    """Args: items: (time in ms, position). Its length is how many are noted; of one time they are in the order in which
    they were."""

    __slots__ = ("_at", "_count", "_heap")

    def __init__(self, items: Iterable[tuple[int, int]] = ()) -> None:
        self._at: dict[int, deque[int]] = {}
        self._heap: list[int] = []  # the times in that
        self._count = 0
        for at_ms, position in items:
            self.add(at_ms, position)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[tuple[int, int]]:
        for at_ms in sorted(self._heap):
            for position in self._at[at_ms]:
                yield at_ms, position

    def add(self, at_ms: int, position: int) -> None:
        due = self._at.get(at_ms)
        if due is None:
            due = self._at[at_ms] = deque()
            heapq.heappush(self._heap, at_ms)
        due.append(position)
        self._count += 1

    @property
    def first_ms(self) -> int:
        """When the first one is due; only if there is one."""
        return self._heap[0]

    def pop(self) -> int:
        """The position that is due first, which is noted no more."""
        first = self._at[self._heap[0]]
        position = first.popleft()
        self._count -= 1
        if not first:
            del self._at[heapq.heappop(self._heap)]
        return position

    def drop_gone(self, there: Container[int], looks: int) -> int:
        """Those at the front that are not among `there` are noted no more; so many are looked at, at most.

        Returns:
            how many of these looks are left.
        """
        heap = self._heap
        while heap and looks:
            first = self._at[heap[0]]
            while first and looks and first[0] not in there:
                first.popleft()
                self._count -= 1
                looks -= 1
            if first:
                break
            del self._at[heapq.heappop(heap)]
        return looks

    def kept(self, there: Container[int]) -> Timetable:
        """Another one, of those among `there` alone."""
        return Timetable((at_ms, position) for at_ms, position in self if position in there)
