"""Bugs of queues that end consumers which hold a message for too long, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker.receivers import Receivers
from mantamq.protocol.replica.consumer_timeouts import TimedDispatcher
from mantamq.protocol.wire.queue_frames import Cancel, HeldTooLong

from .planting import planted

Patch = pytest.MonkeyPatch


def nobody_looks_how_long_a_message_is_held(patch: Patch) -> None:
    patch.setattr(TimedDispatcher, "_look", lambda self: None)


def who_has_settled_is_ended_all_the_same(patch: Patch) -> None:
    """Whether it still holds what it was given is not looked at."""

    def blind(self: Any) -> None:
        while self._given and self._given[0][0] <= self._outbox.now_ms:
            _, sub, _ = self._given.popleft()
            if sub in self.subscriptions and sub not in self._told:
                self._told.add(sub)
                self._outbox.send(self._outbox.broker, HeldTooLong(self.state.id, sub))

    patch.setattr(TimedDispatcher, "_look", blind)


def a_consumer_is_ended_too_early(patch: Patch) -> None:
    begin = TimedDispatcher.__init__
    patch.setattr(
        TimedDispatcher, "__init__", lambda self, outbox, timeout_ms, *rest: begin(self, outbox, timeout_ms // 2, *rest)
    )


def what_it_held_stays_with_who_was_ended(patch: Patch) -> None:
    """Its client hears of it, and its replica does not."""
    timed_out = Receivers.timed_out

    def deaf(self: Any, peer: str, frame: Any) -> None:
        send = self._outbox.send
        with pytest.MonkeyPatch.context() as quiet:
            quiet.setattr(
                self._outbox,
                "send",
                lambda to, what: None if isinstance(what, Cancel) else send(to, what),
                raising=False,
            )
            timed_out(self, peer, frame)

    patch.setattr(Receivers, "timed_out", deaf)


ALL = planted(globals())
