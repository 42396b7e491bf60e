"""What each acquisition of a queue still holds, and how settlements take messages out of it (`sequencer.md` Q2).

An acquisition is a number that the acquiring broker's replica chose at the delivery, so a settlement that comes late
can never hit a later delivery of the same message: what is not held under that number is *lost* to it.
"""

from __future__ import annotations

from typing import TypeVar

from ..range_columns import by_acquisition
from ..ranges import RangeSet
from ..wire.events import Accept, Modify, Reject, Release

Key = TypeVar("Key")

Holder = tuple[str, int, int]
"""(broker, incarnation, acquisition)"""


class Acquisitions(dict[Holder, RangeSet]):
    """Holder -> positions that it holds; no holder of nothing is kept."""

    __slots__ = ()

    def settle(self, event: Accept | Release | Reject | Modify) -> tuple[list[tuple[int, int]], list[int]]:
        """Take the event's runs out: (ranges that were held, runs that were not)."""
        settled: list[tuple[int, int]] = []
        lost: list[int] = []
        for acquisition, firsts, lasts in by_acquisition(event.runs):
            found, missing = take_held(self, (event.broker, event.inc, acquisition), firsts, lasts)
            settled += found
            for first, last in missing:
                lost += (acquisition, first, last)
        return settled, lost

    def drop(self, ranges: list[tuple[int, int]]) -> int:
        """These messages are gone, as far as anybody holds them: returns how many that was."""
        dropped = 0
        for holder, held in list(self.items()):
            dropped += held.count
            for first, last in ranges:
                held.remove(first, last)
            dropped -= held.count
            if not held.count:
                del self[holder]
        return dropped

    def end(self, broker: str, inc: int) -> list[tuple[int, int]]:
        """A broker is out up to an incarnation, with all it acquired: returns what that held, by position."""
        held: list[tuple[int, int]] = []
        for holder in [one for one in self if one[0] == broker and one[1] <= inc]:
            held += self.pop(holder)
        return sorted(held)

    def messages(self) -> int:
        return sum(held.count for held in self.values())


def take_held(
    held: dict[Key, RangeSet], holder: Key, firsts: list[int], lasts: list[int]
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Take ranges out of what a holder holds, and the holder out of those that hold something, once it does not:
    (the ranges that it held, those that it did not)."""
    if (mine := held.get(holder)) is None:
        return [], [*zip(firsts, lasts, strict=True)]
    known = mine.take_known(firsts, lasts)
    if not mine.count:
        del held[holder]
    return known
