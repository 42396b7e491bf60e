"""Bugs of what is counted of a queue, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.queue import statistics
from mantamq.protocol.queue.acquisitions import Acquisitions
from mantamq.protocol.queue.snapshot import Tallies
from mantamq.protocol.queue.state import QueueState

from .planting import planted

Patch = pytest.MonkeyPatch


def counts_are_not_in_an_update(patch: Patch) -> None:
    restore = QueueState.restore

    def restored(self: Any, snapshot: Any) -> None:
        restore(self, snapshot)
        self.tallies = Tallies()

    patch.setattr(QueueState, "restore", restored)


def what_a_dead_broker_held_is_not_counted_as_released(patch: Patch) -> None:
    returned = QueueState._return

    def quiet(self: Any, positions: Any, redelivered: bool) -> None:
        before = self.tallies.releases
        returned(self, positions, redelivered)
        if self._evicting:
            self.tallies.releases = before

    evict = QueueState._evict

    def evicting(self: Any, event: Any) -> Any:
        self._evicting = True
        done = evict(self, event)
        self._evicting = False
        return done

    patch.setattr(QueueState, "_evicting", False, raising=False)
    patch.setattr(QueueState, "_return", quiet)
    patch.setattr(QueueState, "_evict", evicting)


def what_a_full_ring_takes_from_a_consumer_was_never_acquired(patch: Patch) -> None:
    drop = Acquisitions.drop
    patch.setattr(Acquisitions, "drop", lambda self, ranges: drop(self, ranges) * 0)


def a_refused_message_counts_as_rejected(patch: Patch) -> None:
    figures = statistics.figures

    def told(state: Any) -> Any:
        found = figures(state)
        return found._replace(subscriber=found.subscriber + state.refused)

    from . import counts

    patch.setattr(counts, "figures", told)


ALL = planted(globals())
