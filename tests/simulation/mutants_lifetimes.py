"""Bugs of queues that say how long their messages live, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.queue.time_to_live import TimeToLive
from mantamq.protocol.replica.expiry import Expiries, QueueTtl

from .planting import planted

Patch = pytest.MonkeyPatch


def a_message_with_a_time_of_its_own_has_that_alone(patch: Patch) -> None:
    applied = TimeToLive.applied
    patch.setattr(TimeToLive, "applied", lambda self, event, done: None if event.expiry else applied(self, event, done))


def nobody_looks_for_what_its_queue_lets_expire(patch: Patch) -> None:
    patch.setattr(QueueTtl, "applied", lambda self, index, entry, event, done: None)


def only_what_is_first_expires(patch: Patch) -> None:
    """As where only the head of a queue is looked at."""
    due = Expiries.due

    def of_the_head(self: Any, broker: str, now_ms: int) -> Any:
        ranges, again_ms = due(self, broker, now_ms)
        first = next(iter(self._state.available), (0, 0))[0]
        return (ranges if ranges and ranges[0] == first else []), again_ms

    patch.setattr(Expiries, "due", of_the_head)


def messages_live_a_little_longer(patch: Patch) -> None:
    begin = TimeToLive.__init__

    def longer(self: Any, state: Any, ttl_ms: int) -> None:
        begin(self, state, ttl_ms + 1)

    patch.setattr(TimeToLive, "__init__", longer)


def what_was_acquired_before_it_could_expire_is_forgotten(patch: Patch) -> None:
    patch.setattr(Expiries, "_look_again", lambda self, first, last: None)


ALL = planted(globals())
