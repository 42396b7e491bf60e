"""Messages that leave a queue though no consumer has had them: what has expired, and what an operator takes away."""

from __future__ import annotations

from typing import Protocol

from ..ranges import RangeSet
from ..wire.events import Expire, Purge
from .applied import Applied
from .delayed import Delayed
from .expiry_times import ExpiryTimes
from .snapshot import Tallies


class Leaving(Protocol):
    """What these rules need of a queue's state: see there."""

    available: RangeSet
    delayed: Delayed
    expiry: ExpiryTimes
    expired: int
    tallies: Tallies

    def withdraw(self, ranges: list[tuple[int, int]]) -> None: ...
    def dequeue(self, positions: list[tuple[int, int]]) -> int: ...
    def discard(self, ranges: list[tuple[int, int]]) -> int: ...


def expire(state: Leaving, event: Expire) -> Applied:
    """What has expired is dequeued."""
    due = state.expiry.due(event, state.available, state.delayed.ranges)
    state.withdraw(due)
    state.expired += state.dequeue(due)
    return Applied(positions=due)


def purge(state: Leaving, event: Purge) -> Applied:
    """What waits goes, so much of it, or all, with what is delayed."""
    gone = state.available.head(event.count or state.available.count)
    if state.delayed and not event.count:
        gone = sorted([*gone, *state.delayed.ranges])
    state.tallies.purged += state.discard(gone)
    return Applied(positions=gone)
