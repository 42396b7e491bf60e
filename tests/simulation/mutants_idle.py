"""Bugs of queues that go when nobody uses them, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.wiring.idle_queues import IdleQueues
from mantamq.protocol.wiring.wiring import Wiring

from .planting import planted

Patch = pytest.MonkeyPatch


def an_unused_queue_goes_at_once(patch: Patch) -> None:
    waits = IdleQueues.waits
    patch.setattr(IdleQueues, "waits", lambda self: dict.fromkeys(waits(self), 0))


def who_declares_it_again_does_not_use_it(patch: Patch) -> None:
    used = IdleQueues.used

    def once(self: Any, queue: Any, index: int) -> None:
        if queue.id not in self.since:
            used(self, queue, index)

    patch.setattr(IdleQueues, "used", once)


def one_that_nobody_has_used_stays(patch: Patch) -> None:
    """As one that goes with its last consumer would."""
    used = IdleQueues.used

    def later(self: Any, queue: Any, index: int) -> None:
        if queue.id in self.since:
            used(self, queue, index)

    patch.setattr(IdleQueues, "used", later)


def an_update_forgets_what_is_idle(patch: Patch) -> None:
    snapshot = Wiring.snapshot
    patch.setattr(Wiring, "snapshot", lambda self: snapshot(self)[:10])


ALL = planted(globals())
