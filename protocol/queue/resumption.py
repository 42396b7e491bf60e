"""A consumer that comes from another broker first gets the messages it held there, in order (`Consume.before`).

Its old broker may have given the consume lock up long before it is evicted; messages it held for the consumer are back
only at the eviction, or when it notices that the consumer has left. Until then the new broker gives that consumer
nothing. A broker that holds the lock has applied all acquires of earlier holders, so it is certain which messages are
still held. The wait has an end: an old broker that lives, and does not notice, must not stall a consumer for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..ranges import RangeSet, runs
from ..timing import Timing
from .acquisitions import Holder

Before = list[tuple[str, int, list[int]]]
"""(broker, acquisition, runs): see `queue_frames.Consume`."""
ANYBODY: tuple[str, int, list[int]] = ("", 0, [])
"""Of a `Before`: all that is acquired by whomever, at whichever broker."""


class Resumption(NamedTuple):
    """The wait of one subscription. Attributes: before, since_ms (when the consumer came to this broker), timing."""

    before: Before
    since_ms: int
    timing: Timing

    @property
    def until_ms(self) -> int:
        """The time when the wait is over at the latest."""
        unseen = not any(known for _, _, known in self.before)
        return self.since_ms + (self.timing.resume_unseen_ms if unseen else self.timing.resume_held_ms)

    def awaits(self, acquired: dict[Holder, RangeSet], others: Callable[[Holder], bool]) -> bool:
        """Whether a message that the consumer held, or may have been given, is still acquired. `others`: whether an
        acquisition is known to be another consumer's."""
        for holder, held in acquired.items():
            for broker, last, known in self.before:
                if (broker and holder[0] != broker) or others(holder):
                    continue
                if 0 <= last < holder[2]:
                    return True
                if any(a == holder[2] and held.within(first, final) for a, first, final in runs(known)):
                    return True
        return False
