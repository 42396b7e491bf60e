"""Bugs of receivers that stop, and of what a drain's answer counts, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.client.books.receiver import ReceiverCore
from mantamq.protocol.replica.consumers import QueueConsumers

from .planting import planted

Patch = pytest.MonkeyPatch


def a_drain_counts_what_is_given_out(patch: Patch) -> None:
    patch.setattr(QueueConsumers, "_waits", lambda self: self._state.available.count)


def a_drain_takes_off_what_is_gone(patch: Patch) -> None:
    """What was given out here, and was purged before that was ordered, is taken off all the same."""

    def waits(self: Any) -> int:
        return max(0, self._state.available.count - self._dispatcher.taken.count)

    patch.setattr(QueueConsumers, "_waits", waits)


def who_stops_keeps_its_credit(patch: Patch) -> None:
    stop = ReceiverCore.stop

    def lax(self: Any) -> int:
        self._say_drain = lambda more, sure: None
        try:
            stop(self)
        finally:
            del self._say_drain
        return self.drained

    patch.setattr(ReceiverCore, "stop", lax)


def who_stops_keeps_what_it_has_not_fetched(patch: Patch) -> None:
    patch.setattr(ReceiverCore, "give_back", lambda self: None)


def who_is_stopped_asks_at_the_next_broker(patch: Patch) -> None:
    resume = ReceiverCore.resume

    def eager(self: Any) -> None:
        withheld = self.__dict__.pop("_grant", None), self.__dict__.pop("_room", None)
        try:
            resume(self)
        finally:
            if withheld[0] is not None:
                self._grant, self._room = withheld

    patch.setattr(ReceiverCore, "resume", eager)


ALL = planted(globals())
