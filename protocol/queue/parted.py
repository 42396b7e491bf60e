"""The available messages of a queue whose order looks at what a message is: by position, and those of each part, which
is a level of priority or a value of a header."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from ..range_columns import positions_between
from ..ranges import RangeSet
from .applied import Applied
from .state import QueueState
from .traits import Trait, traits

FORGET = 1_000
"""Parts of messages that are gone are forgotten when there are as many more of them as there are messages."""


class Parted(RangeSet):
    """The part of a message that has just come is told next, by `place`; that of one that comes back is known.

    Attributes:
        parts: part -> its available messages, of those that have any: in the order in which they came to have some.
    """

    __slots__ = ("_newest", "_part_of", "parts")

    def __init__(self) -> None:
        super().__init__()
        self._newest = 0  # none behind this position is of a part that is known
        self._part_of: dict[int, Any] = {}
        self.parts: dict[Any, RangeSet] = {}

    def part_of(self, position: int) -> Any:
        return self._part_of[position]

    def parts_of(self, positions: Iterable[int]) -> list[Any]:
        """The part of each; None where it is not known."""
        return [*map(self._part_of.get, positions)]

    def place(self, first: int, parts: list[Any]) -> None:
        """Messages from `first` on, all of them available, are of these parts."""
        end = first + len(parts)
        self._part_of.update(zip(range(first, end), parts, strict=True))
        self._newest = max(self._newest, end - 1)
        if parts.count(parts[0]) == len(parts):
            self._of(parts[0]).add(first, end - 1)
            return
        waiting_of = self.parts
        for position, part in enumerate(parts, first):  # of each part it is the last: nothing is looked for
            waiting = waiting_of.get(part)
            if waiting is None:
                waiting = waiting_of[part] = RangeSet()
            lasts = waiting._lasts
            if lasts and lasts[-1] == position - 1:
                lasts[-1] = position
            else:
                lasts.append(position)
                waiting._firsts.append(position)
            waiting.count += 1

    def _of(self, part: Any) -> RangeSet:
        found = self.parts.get(part)
        if found is None:
            found = self.parts[part] = RangeSet()
        return found

    def add(self, first: int, last: int) -> None:
        super().add(first, last)
        if first > self._newest:
            return
        known = self._part_of
        for position in range(first, last + 1):
            if (part := known.get(position)) is not None:
                self._of(part).add(position, position)

    def remove(self, first: int, last: int) -> None:
        self.take(first, last)

    def take(self, first: int, last: int) -> list[tuple[int, int]]:
        found = super().take(first, last)
        parts, part_of = self.parts, self._part_of
        for a, b in found:
            if a == b:
                gone = (part_of.get(a),)
            elif b - a < len(parts):
                gone = set(map(part_of.get, range(a, b + 1)))
            else:
                gone = list(parts)
            for part in gone:
                if (waiting := parts.get(part)) is None:
                    continue
                if a <= waiting._firsts[0] and waiting._lasts[-1] <= b:
                    del parts[part]
                else:
                    waiting.remove(a, b)
        return found

    def take_all(self, gone_firsts: list[int], gone_lasts: list[int]) -> bool:
        if not super().take_all(gone_firsts, gone_lasts):
            return False
        positions = [*positions_between(gone_firsts, gone_lasts)]
        gone = defaultdict[Any, list[int]](list)
        of = self.parts_of(positions)
        if of.count(of[0]) == len(of):
            gone[of[0]] = positions
        else:
            for part, position in zip(of, positions, strict=True):
                gone[part].append(position)
        for part, of_it in gone.items():
            if (waiting := self.parts.get(part)) is not None:
                waiting.take_each(of_it, of_it)
                if not waiting.count:
                    del self.parts[part]
        return True

    def leave_out(self, delayed: list[tuple[int, int]]) -> None:
        """Some that were just placed are not available yet."""
        for first, last in delayed:
            self.add(first, last)
            self.remove(first, last)

    def forget(self, kept: dict[int, bytes]) -> None:
        """Only messages that are kept can come back."""
        if len(self._part_of) > 2 * len(kept) + FORGET:
            self._part_of = {position: self._part_of[position] for position in kept}

    def restored(self, part_of: dict[int, Any]) -> None:
        """These messages there are, available and others, and these are their parts."""
        self._newest, self._part_of, self.parts = max(part_of, default=0), part_of, {}
        for first, last in self:
            for position in range(first, last + 1):
                self._of(part_of[position]).add(position, position)


class PartedState:
    """What an order by parts has of a queue's state: its available messages, parted."""

    __slots__ = ("_available", "_state", "_trait")

    def __init__(self, state: QueueState, trait: Trait) -> None:
        self._state = state
        self._trait = trait
        self._available = state.available = Parted()

    def applied(self, event: Any, done: Applied, /) -> None:
        for first, last in done.positions:
            self._available.place(first, traits(event, last - first + 1, self._trait))
            if event.delays:
                self._available.leave_out(self._state.delayed.ranges.within(first, last))
        self._available.forget(self._state.blobs)

    def restored(self) -> None:
        self._available.restored({position: self._trait(blob) for position, blob in self._state.blobs.items()})
