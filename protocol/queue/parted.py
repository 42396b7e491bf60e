"""The available messages of a queue whose order looks at what a message is: by position, and those of each part, which
is a level of priority or a value of a header."""

from __future__ import annotations

from typing import Any

from ..ranges import RangeSet
from .applied import Applied
from .state import QueueState
from .traits import Trait, traits

FORGET = 1_000
"""Parts of messages that are gone are forgotten when there are as many more of them as there are messages."""
FEW = 16
"""With at most so many parts a range is taken out of each; with more, out of those that its messages are in."""


class Parted(RangeSet):
    """The part of a message that has just come is told next, by `place`; that of one that comes back is known.

    Attributes:
        parts: part -> its available messages.
    """

    __slots__ = ("_part_of", "parts")

    def __init__(self) -> None:
        super().__init__()
        self._part_of: dict[int, Any] = {}
        self.parts: dict[Any, RangeSet] = {}

    def part_of(self, position: int) -> Any:
        return self._part_of[position]

    def place(self, first: int, last: int, part: Any) -> None:
        """These messages are of this part."""
        self._part_of.update(dict.fromkeys(range(first, last + 1), part))
        for a, b in self.within(first, last):
            self._of(part).add(a, b)

    def _of(self, part: Any) -> RangeSet:
        found = self.parts.get(part)
        if found is None:
            found = self.parts[part] = RangeSet()
        return found

    def add(self, first: int, last: int) -> None:
        super().add(first, last)
        known = self._part_of
        for position in range(first, last + 1):
            if (part := known.get(position)) is not None:
                self._of(part).add(position, position)

    def remove(self, first: int, last: int) -> None:
        if len(self.parts) <= FEW:
            for part in self.parts.values():
                if part.count:
                    part.remove(first, last)
        else:
            for a, b in self.within(first, last):
                for position in range(a, b + 1):
                    if (part := self._part_of.get(position)) is not None:
                        self.parts[part].remove(position, position)
        super().remove(first, last)

    def forget(self, kept: dict[int, bytes]) -> None:
        """Only messages that are kept can come back."""
        if len(self._part_of) > 2 * len(kept) + FORGET:
            self._part_of = {position: self._part_of[position] for position in kept}
            self.parts = {part: waiting for part, waiting in self.parts.items() if waiting.count}

    def clear(self) -> None:
        """No part is known any more."""
        self._part_of, self.parts = {}, {}


class PartedState:
    """What an order by parts has of a queue's state: its available messages, parted."""

    __slots__ = ("_available", "_state", "_trait")

    def __init__(self, state: QueueState, trait: Trait) -> None:
        self._state = state
        self._trait = trait
        self._available = state.available = Parted()

    def applied(self, event: Any, done: Applied, /) -> None:
        for first, last in done.positions:
            self._place(first, traits(event, last - first + 1, self._trait))
        self._available.forget(self._state.blobs)

    def _place(self, first: int, parts: list[Any]) -> None:
        """Messages from `first` on are of these parts."""
        begin, before = first, parts[0]
        for position, part in enumerate(parts, first):
            if part != before:
                self._available.place(begin, position - 1, before)
                begin, before = position, part
        self._available.place(begin, first + len(parts) - 1, before)

    def restored(self) -> None:
        self._available.clear()
        for position, blob in self._state.blobs.items():
            self._available.place(position, position, self._trait(blob))
