"""Bugs of when messages came, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.client.books import receiver
from mantamq.protocol.broker import dead_letters
from mantamq.protocol.queue.enqueue_times import EnqueueTimes
from mantamq.protocol.queue.state import QueueState

from .planting import planted

Patch = pytest.MonkeyPatch


def all_of_a_delivery_came_with_its_first(patch: Patch) -> None:
    column = EnqueueTimes.column
    patch.setattr(EnqueueTimes, "column", lambda self, parts: column(self, parts)[:2])


def an_update_forgets_when_messages_came(patch: Patch) -> None:
    restore = QueueState.restore

    def restored(self: Any, snapshot: Any) -> None:
        restore(self, snapshot)
        self.times = EnqueueTimes()

    patch.setattr(QueueState, "restore", restored)


def messages_come_when_they_are_delivered_first(patch: Patch) -> None:
    """The time of the last enqueue is that of all that wait."""
    begin = EnqueueTimes._begin

    def beginning(self: Any, first: int, at_ms: int) -> None:
        begin(self, first, at_ms)
        self._firsts, self._times = self._firsts[:1], self._times[-1:]

    patch.setattr(EnqueueTimes, "_begin", beginning)


def a_dead_letter_has_no_time(patch: Patch) -> None:
    enqueue = dead_letters.Enqueue
    patch.setattr(dead_letters, "Enqueue", lambda *given, at_ms, **more: enqueue(*given, **more))


def a_browser_that_goes_on_reads_the_times_of_the_first_ones(patch: Patch) -> None:
    patch.setattr(receiver, "behind", lambda times, first: times)


ALL = planted(globals())
