"""In which order a queue's available messages are offered to its consumers (Qpid: `Messages`): first in, first out.

A consumer has a *place* in the order, which only the order can read. Offers are made and taken elsewhere
(`dispatch.py`): the order answers which available messages come next for a consumer at that place.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from ..ranges import RangeSet
from .state import QueueState

Place = Any
"""A consumer's place in one order: a value that is replaced and not changed."""


class DeliveryOrder(Protocol):
    """An order that must know when messages come and go puts a `RangeSet` with `add`, `remove` and `take` of its own in
    `QueueState.available` before anything is applied; one that needs their bodies is a `StatePolicy` besides, which is
    told when they come."""

    def start(self, browse: bool, /) -> Place:
        """The place of a new consumer, before all messages; a browser may have another order than the rest."""
        ...

    def next(self, place: Place, /) -> tuple[int, int] | None:
        """The first available messages at or behind a place: a range of positions, which are offered one after the
        other. None: there are none."""
        ...

    def behind(self, place: Place, last: int, given: bool = False, /) -> Place:
        """The place of a consumer that was at `place` and has passed all that came next up to position `last`; or was
        `given` them."""
        ...

    def back(self, place: Place, positions: list[tuple[int, int]], /) -> Place:
        """Its place once messages have come back, ranges that rise: before all of them."""
        ...


@runtime_checkable
class InTurns(DeliveryOrder, Protocol):
    """An order in which neighbours seldom follow each other: it is asked for many messages at once."""

    def idle(self) -> None:
        """A run begins, and nothing that was given here is under way: it is applied, or never counts."""
        ...

    def several(self, place: Place, most: int, taken: RangeSet, /) -> list[tuple[int, int]]:
        """The next available messages at or behind a place that are not `taken`, at most `most`: ranges in the order
        in which they are offered. The place is not a browser's."""
        ...

    def given(self, place: Place, parts: list[tuple[int, int]], /) -> Place:
        """The place of a consumer that was at `place` and was given these, the first of what `several` has found."""
        ...


class Fifo:
    """By position. A place is the least position that is of interest."""

    __slots__ = ("next",)

    def __init__(self, available: RangeSet) -> None:
        self.next = available.at_or_after

    def start(self, browse: bool, /) -> int:
        return 1

    def behind(self, place: int, last: int, given: bool = False, /) -> int:
        return last + 1

    def back(self, place: int, positions: list[tuple[int, int]], /) -> int:
        first = positions[0][0]
        return first if first < place else place


class WithDelayed(Fifo):
    """By position, delayed messages as well: for browsers."""

    __slots__ = ()

    def __init__(self, state: QueueState) -> None:
        def next(place: Place, /) -> tuple[int, int] | None:
            both = state.available.at_or_after(place), state.delayed.ranges.at_or_after(place)
            return min((found for found in both if found is not None), default=None)

        self.next = next


class Everything(Fifo):
    """By position, acquired and rejected messages as well: for browsers that rescue."""

    __slots__ = ()

    def __init__(self, state: QueueState) -> None:
        self.next = lambda place: state.live().at_or_after(place)
