"""Which messages a queue sends to its alternate exchange besides those that consumers reject: what expires, and what
comes back too often (RabbitMQ: dead lettering, delivery limit). What a limit pushes out is `ring.py`'s.

These are parts of the state, before all others: what follows an event sees a message that is set aside in its place,
but not available any more.
"""

from __future__ import annotations

from typing import Any

from ..wire.events import Event, Evict, Expire, Member, Modify, Rejoin, Release, Return
from .applied import Applied
from .batches import DELIVERY_LIMIT, EXPIRED
from .state import QueueState
from .state_policy import Rule


class Expired:
    """What expires goes to the alternate, where it does not expire again."""

    events: tuple[type[Event], ...] = (Expire,)
    one_by_one = False

    def __init__(self, state: QueueState) -> None:
        self._state = state

    def around(self, rule: Rule) -> Rule:
        """In place of the rule by which it is discarded."""
        return self._expire

    def _expire(self, event: Expire) -> Applied:
        state = self._state
        due = state.expiry.due(event, state.available, state.delayed.ranges)
        state.expiry.forget(due)
        return state.set_aside(due, EXPIRED)

    def applied(self, event: Any, done: Applied, /) -> None:
        """It stands in the rule's place."""

    def restored(self) -> None:
        """It keeps nothing of its own."""


class DeliveryLimit:
    """A message that comes back when it was delivered, in vain, more often than `limit` goes to the alternate; without
    one it is discarded."""

    events: tuple[type[Event], ...] = (Release, Modify, Evict, Rejoin, Return, Member)
    one_by_one = False

    def __init__(self, state: QueueState, limit: int) -> None:
        self._state = state
        self._limit = limit

    def applied(self, event: Any, done: Applied, /) -> None:
        state, limit = self._state, self._limit
        failed = state.deliveries.repeated
        if not failed:
            return
        over = [
            (position, position)
            for first, last in done.positions
            for position in range(first, last + 1)
            if failed.get(position, 0) > limit
        ]
        if not over:
            return
        if state.alternate:
            done.aside += state.set_aside(over, DELIVERY_LIMIT).aside
        else:
            state.tallies.too_often += state.discard(over)
            done.dropped += ((first, last, False) for first, last in over)

    def restored(self) -> None:
        """It keeps nothing of its own."""
