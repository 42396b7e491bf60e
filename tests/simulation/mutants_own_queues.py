"""Bugs of queues that one client has for itself, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker.exclusive_queues import ExclusiveQueues
from mantamq.protocol.wiring.exclusives import Exclusives
from mantamq.protocol.wiring.wiring import Wiring
from msgspec.structs import replace

from .planting import planted

Patch = pytest.MonkeyPatch


def others_are_let_in(patch: Patch) -> None:
    patch.setattr(ExclusiveQueues, "permit", lambda self, session, queue: None)


def a_broker_that_has_not_heard_of_it_refuses_nobody(patch: Patch) -> None:
    patch.setattr(Wiring, "_check_asker", lambda self, queue, client: None)


def a_client_that_has_gone_is_not_missed(patch: Patch) -> None:
    patch.setattr(ExclusiveQueues, "ended", lambda self, session: None)
    patch.setattr(ExclusiveQueues, "applied", lambda self, event, outcome: None)


def an_earlier_connection_that_ends_ends_the_later_one(patch: Patch) -> None:
    order = Exclusives.order

    def any_end(self: Any, event: Any, index: int, is_out: Any) -> None:
        had = self.present.get(event.queue)
        if had is not None and not event.on:
            event = replace(event, broker=had.broker, inc=had.inc)
        order(self, event, index, is_out)

    patch.setattr(Exclusives, "order", any_end)


def an_update_forgets_which_clients_are_there(patch: Patch) -> None:
    snapshot = Wiring.snapshot
    patch.setattr(Wiring, "snapshot", lambda self: snapshot(self)[:9])


ALL = planted(globals())
