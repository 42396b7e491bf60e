"""Bugs of delayed messages, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.queue import policies
from mantamq.protocol.queue.delayed import Delayed
from mantamq.protocol.queue.retries import backoff_of
from mantamq.protocol.replica.dues import Dues
from mantamq.protocol.wire.events import Due
from msgspec.structs import replace

from .planting import planted

Patch = pytest.MonkeyPatch


def what_is_due_soon_is_due_now(patch: Patch) -> None:
    """An owner gathers what is due in the next half second, as if it were that late."""
    due = Dues.due

    def sweep(self: Any) -> None:
        outbox = self._outbox
        ranges, again_ms = due(self, outbox.broker, outbox.now_ms + 500)
        if ranges:
            self._own.submit(Due(outbox.now_ms + 500, ranges), None)
        if again_ms:
            outbox.set_timer(self._state.id, max(outbox.now_ms + 1, again_ms - 500))

    patch.setattr(Dues, "sweep", sweep)


def an_update_forgets_what_is_delayed(patch: Patch) -> None:
    """Until when, that is: it is all due at once there."""
    begin = Delayed.__init__
    patch.setattr(Delayed, "__init__", lambda self, times=(): begin(self, [(position, 1) for position, _ in times]))


def who_has_passed_them_does_not_look_again(patch: Patch) -> None:
    """A consumer's place stays behind what has become due before it."""
    become_due = Delayed.become_due

    def unnoticed(self: Any, event: Due, available: Any) -> list[tuple[int, int]]:
        become_due(self, event, available)
        return []

    patch.setattr(Delayed, "become_due", unnoticed)


def the_next_owner_knows_of_none(patch: Patch) -> None:
    """Who does not own the queue forgets what will be due."""
    due = Dues.due

    def forgetful(self: Any, broker: str, now_ms: int) -> Any:
        if self._state.owner not in ("", broker):
            self._state.delayed.heap.clear()
        return due(self, broker, now_ms)

    patch.setattr(Dues, "due", forgetful)


def what_came_back_waits_as_long_each_time(patch: Patch) -> None:
    """By the least of a queue's delays, however often it came back."""
    patch.setattr(policies, "backoff_of", lambda settings: lambda count: backoff_of(settings)(1))


def no_delay_is_long_enough(patch: Patch) -> None:
    """What waits longer each time does so for ever."""
    patch.setattr(policies, "backoff_of", lambda settings: backoff_of(replace(settings, retry_delay_max_ms=0)))


ALL = planted(globals())
