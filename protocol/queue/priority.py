"""Priorities: the highest level first, and in each level first in, first out.

A browser goes by position. What came back is in its old place of its level.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

from ..ranges import RangeSet
from ..wire.events import Enqueue, Event
from .applied import Applied
from .state import QueueState
from .traits import Trait, traits

FORGET = 1_000
"""Levels of messages that are gone are forgotten when there are as many more of them as there are messages."""


class Levels(RangeSet):
    """The available messages of a queue, and those of each level. The level of a message that has just come is told
    next, by `place`; that of one that comes back is known."""

    __slots__ = ("_level_of", "levels")

    def __init__(self) -> None:
        super().__init__()
        self._level_of: dict[int, int] = {}
        self.levels: list[RangeSet] = []

    def level_of(self, position: int) -> int:
        return self._level_of[position]

    def place(self, first: int, last: int, level: int) -> None:
        """These messages are of this level."""
        self._level_of.update(dict.fromkeys(range(first, last + 1), level))
        while level >= len(self.levels):
            self.levels.append(RangeSet())
        for part in self.within(first, last):
            self.levels[level].add(*part)

    def add(self, first: int, last: int) -> None:
        super().add(first, last)
        known = self._level_of
        for position in range(first, last + 1):
            if (level := known.get(position)) is not None:
                self.levels[level].add(position, position)

    def remove(self, first: int, last: int) -> None:
        for level in self.levels:
            if level.count:
                level.remove(first, last)
        super().remove(first, last)

    def forget(self, kept: dict[int, bytes]) -> None:
        """Only messages that are kept can come back."""
        if len(self._level_of) > 2 * len(kept) + FORGET:
            self._level_of = {position: self._level_of[position] for position in kept}

    def clear(self) -> None:
        """No level is known any more."""
        self._level_of, self.levels = {}, []


class ByPriority:
    """The order of a queue with levels, and part of its state. A consumer's place is a position for each level that it
    has taken from; a browser's is one position."""

    __slots__ = ("_available", "_state", "_trait")

    events: tuple[type[Event], ...] = (Enqueue,)
    one_by_one = False

    def __init__(self, state: QueueState, trait: Trait) -> None:
        self._state = state
        self._trait = trait
        self._available = state.available = Levels()

    def applied(self, event: Any, done: Applied, /) -> None:
        for first, last in done.positions:
            self._place(first, traits(event, last - first + 1, self._trait))
        self._available.forget(self._state.blobs)

    def _place(self, first: int, levels: list[int]) -> None:
        """Messages from `first` on have these levels."""
        begin, before = first, levels[0]
        for position, level in enumerate(levels, first):
            if level != before:
                self._available.place(begin, position - 1, before)
                begin, before = position, level
        self._available.place(begin, first + len(levels) - 1, before)

    def restored(self) -> None:
        self._available.clear()
        for position, blob in self._state.blobs.items():
            self._available.place(position, position, self._trait(blob))

    def lowest(self) -> Iterator[tuple[int, int]]:
        """All messages that are available or held, as ranges: of the lowest level first, there the oldest."""
        available = self._available
        held: dict[int, list[tuple[int, int]]] = {}
        for ranges in self._state.acquired.values():
            for first, last in ranges:
                for position in range(first, last + 1):
                    held.setdefault(available.level_of(position), []).append((position, position))
        for level, waiting in enumerate(available.levels):
            yield from heapq.merge(list(waiting), sorted(held.get(level, ())))

    # ---- the order

    def start(self, browse: bool, /) -> Any:
        return 1 if browse else {}

    def next(self, place: Any, /) -> tuple[int, int] | None:
        if isinstance(place, int):
            return self._available.at_or_after(place)
        levels = self._available.levels
        for level in range(len(levels) - 1, -1, -1):
            if levels[level].count and (found := levels[level].at_or_after(place.get(level, 1))) is not None:
                return found
        return None

    def behind(self, place: Any, last: int, /) -> Any:
        return last + 1 if isinstance(place, int) else {**place, self._available.level_of(last): last + 1}

    def back(self, place: Any, positions: list[tuple[int, int]], /) -> Any:
        first = positions[0][0]
        if isinstance(place, int):
            return min(place, first)
        return {level: min(position, first) for level, position in place.items()}
