"""A queue that is deleted, and whose messages go to its alternate exchange: all that it holds is one batch, in order.

Every broker that knows of the deletion says so in the queue's stream, behind all that it has sent to the queue. With
the first such word all is set aside: what consumers hold too, whose settlements are lost from then on, and what is
delayed, which nobody would wait for. What other brokers have sent before their own word still comes in, and follows at
once. When all brokers have said it nothing can come any more, and when nothing is on its way the stream may end
(`broker/dissolutions.py`).
"""

from __future__ import annotations

from typing import Any

from ..ranges import RangeSet
from ..wire.deletion_events import Dissolve
from ..wire.events import Enqueue, Event, Moved
from .applied import Applied
from .batches import DELETED
from .level import in_order
from .state import QueueState
from .state_policy import Rule


class Dissolution:
    """The end of a queue: before all other policies, as `dead_lettering.py`."""

    events: tuple[type[Event], ...] = (Dissolve,)
    one_by_one = False

    def __init__(self, state: QueueState) -> None:
        self._state = state

    def around(self, rule: Rule) -> Rule:
        """In place of the rule by which it is nothing to a queue."""
        return self._dissolve

    def _dissolve(self, event: Dissolve) -> Applied:
        state = self._state
        if event.broker in state.batches.dissolved:
            return Applied(effective=False)
        state.batches.dissolved.append(event.broker)
        if len(state.batches.dissolved) > 1:
            return Applied()
        ranges = _whole(state)
        state.tallies.revoked += state.acquired.drop(ranges)
        return all_aside(state, ranges)

    def applied(self, event: Any, done: Applied, /) -> None:
        """It stands in the rule's place."""

    def restored(self) -> None:
        """What it knows is part of the state."""


class Late:
    """What comes into a deleted queue is set aside at once: behind all other policies, which see it come. So is what a
    move has had on its way, and no queue has taken."""

    events: tuple[type[Event], ...] = (Enqueue, Moved)
    one_by_one = False

    def __init__(self, state: QueueState) -> None:
        self._state = state

    def applied(self, event: Any, done: Applied, /) -> None:
        state = self._state
        if state.batches.dissolved and (state.available.count or state.delayed):
            done.aside += all_aside(state, _whole(state)).aside

    def restored(self) -> None:
        """What it knows is part of the state."""


def _whole(state: QueueState) -> list[tuple[int, int]]:
    """All that is in it, as few ranges."""
    found = RangeSet()
    for first, last in in_order(state):
        found.add(first, last)
    return list(found)


def all_aside(state: QueueState, ranges: list[tuple[int, int]]) -> Applied:
    """All that nobody holds any more goes; the other policies begin anew, with nothing."""
    if state.expiry:
        state.expiry.forget(ranges)
    done = state.set_aside(ranges, DELETED)
    for policy in state.policies:
        policy.restored()
    return done
