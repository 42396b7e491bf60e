"""Fairness by a header: its values take turns, message by message, and of each value the oldest message goes first. So
a burst of one tenant does not keep the others waiting.

Whose turn it is each owner of the consume lock knows for itself, and begins with the one that waits longest. A value
of which nothing waits has no turn; when something comes, it is behind the values that wait. A browser goes by position.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..ranges import RangeSet
from ..wire.events import Enqueue, Event
from .parted import FORGET, PartedState


class ByTurns(PartedState):
    """The order of a queue that is fair, and part of its state. A consumer's place is a position for each value that it
    has taken from, a dictionary of its own; a browser's is one position."""

    __slots__ = ()

    events: tuple[type[Event], ...] = (Enqueue,)
    one_by_one = False

    def start(self, browse: bool, /) -> Any:
        return 1 if browse else {}

    def next(self, place: Any, /) -> tuple[int, int] | None:
        """Of the value whose turn it is one message. Values are in the order of their turns."""
        if isinstance(place, int):
            return self._available.at_or_after(place)
        for value, waiting in self._available.parts.items():
            if waiting.count and (found := waiting.at_or_after(place.get(value, 1))) is not None:
                return found[0], found[0]
        return None

    def behind(self, place: Any, last: int, given: bool = False, /) -> Any:
        if isinstance(place, int):
            return last + 1
        if given:
            return self.given(place, [(last, last)])
        place[self._available.part_of(last)] = last + 1
        return place

    def idle(self) -> None:
        pass

    def several(self, place: Any, most: int, taken: RangeSet, /) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        # Each value's messages in their order; who has had a turn is asked again when all others have had theirs.
        lines = (_line(waiting, place.get(value, 1), taken) for value, waiting in self._available.parts.items())
        while True:
            again: list[Iterator[int]] = []
            for line in lines:
                for position in line:
                    found.append((position, position))
                    if len(found) == most:
                        return found
                    again.append(line)
                    break
            if not again:
                return found
            lines = again

    def given(self, place: Any, parts: list[tuple[int, int]], /) -> Any:
        waiting, part_of = self._available.parts, self._available.part_of
        for _, last in parts:
            value = part_of(last)
            if value in waiting:
                waiting[value] = waiting.pop(value)  # its turn is over
            place[value] = last + 1
        if len(place) > 2 * len(waiting) + FORGET:
            for gone in [value for value in place if value not in waiting]:
                del place[gone]
        return place

    def back(self, place: Any, positions: list[tuple[int, int]], /) -> Any:
        if isinstance(place, int):
            return min(place, positions[0][0])
        for first, last in positions:
            for position in range(first, last + 1):
                value = self._available.part_of(position)
                if place.get(value, 0) > position:
                    place[value] = position
        return place


def _line(waiting: RangeSet, position: int, taken: RangeSet) -> Iterator[int]:
    """The messages of a value from `position` on that are not taken, one by one."""
    for first, last in waiting.since(position):
        for one in range(first, last + 1):
            if not taken.count or one not in taken:
                yield one
