"""A queue's own time to live: each of its messages expires so long after it came (RabbitMQ: x-message-ttl).

When a message came its enqueue says, so when it expires is the same on every replica, and from there on it is as if its
sender had said so (`expiry_times.py`). What comes again from elsewhere, as dead letters do, comes anew; what is moved
takes its sender's time along (`by_senders`), not the queue's.
"""

from __future__ import annotations

from ..ranges import pairs
from ..wire.events import Enqueue, Event
from .applied import Applied
from .state import QueueState


class TimeToLive:
    """Part of the state. Args: ttl_ms: from when a message came until it expires; its own ttl counts if it is less."""

    events: tuple[type[Event], ...] = (Enqueue,)
    one_by_one = False

    def __init__(self, state: QueueState, ttl_ms: int) -> None:
        self._state = state
        self.ttl_ms = ttl_ms

    def applied(self, event: Enqueue, done: Applied, /) -> None:
        if not event.at_ms:
            return  # no member that orders messages of such a queue leaves this out
        expiry, ends_ms = self._state.expiry, event.at_ms + self.ttl_ms
        for first, last in done.positions:
            came = range(first, last + 1)
            if event.expiry:
                expiry.update({position: min(expiry.get(position, ends_ms), ends_ms) for position in came})
            else:
                expiry.update(dict.fromkeys(came, ends_ms))

    def restored(self) -> None:
        """It keeps nothing of its own."""


def by_senders(state: QueueState, positions: list[int]) -> dict[int, int]:
    """When these messages expire since their senders have said so: position -> Unix ms. Where the queue's own time is
    the earlier one, nothing else is known."""
    expiry = state.expiry
    if not expiry:
        return {}
    found = {position: expiry[position] for position in positions if position in expiry}
    ttl_ms = next((policy.ttl_ms for policy in state.policies if isinstance(policy, TimeToLive)), None)
    if ttl_ms is None or not found:
        return found
    came = dict(pairs(state.times.column([(position, position) for position in positions])))
    at_ms = 0
    for index, position in enumerate(positions):
        at_ms = came.get(index, at_ms)
        if found.get(position) == at_ms + ttl_ms:
            del found[position]
    return found
