"""A consumer that comes from another broker gets what it held there first, in order (`Consume.before`).

Its old broker may have given the consume lock up long before it is evicted, and what it held for the consumer is back
only then, or when it notices that the consumer has left. Until then this broker gives that consumer nothing. Whoever
holds the lock has applied all that earlier holders acquired, so with the lock in hand it is certain what is still held.
There is an end to the wait: an old broker that lives, and does not notice, must not stall anybody for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..ranges import RangeSet, runs
from ..sequencer.failure_detector import EVICT_MS, SUSPECT_MS
from .state import Holder

HELD_MS = EVICT_MS + SUSPECT_MS + 2000
"""What it knows it held is waited for as long as an eviction takes, behind a takeover."""
UNSEEN_MS = EVICT_MS + 1000
"""What may have been on its way to it, and may as well be others', is waited for as long as an eviction takes."""

Before = list[tuple[str, int, list[int]]]
"""(broker, acquisition, runs): see `queue_frames.Consume`."""


class Resumption(NamedTuple):
    """One subscription's. Attributes: before, since_ms (when it came here)."""

    before: Before
    since_ms: int

    @property
    def until_ms(self) -> int:
        """When the wait is over at the latest."""
        unseen = all(last >= 0 for _, last, _ in self.before)
        return self.since_ms + (UNSEEN_MS if unseen else HELD_MS)

    def awaits(self, acquired: dict[Holder, RangeSet], others: Callable[[Holder], bool]) -> bool:
        """Whether anything that it held, or may have been given, is held still. `others`: whether an acquisition is
        known to be another consumer's."""
        for holder, held in acquired.items():
            for broker, last, known in self.before:
                if holder[0] != broker or others(holder):
                    continue
                if 0 <= last < holder[2]:
                    return True
                if any(a == holder[2] and held.within(first, final) for a, first, final in runs(known)):
                    return True
        return False
