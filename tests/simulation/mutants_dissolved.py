"""Bugs of deleted queues whose messages go to their alternates, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker.dissolutions import Dissolutions
from mantamq.protocol.queue import dissolution
from mantamq.protocol.queue.batches import Batches
from msgspec.structs import replace

from .planting import planted

Patch = pytest.MonkeyPatch


def what_consumers_hold_stays_with_them(patch: Patch) -> None:
    patch.setattr(dissolution, "in_order", lambda state: list(state.available))


def a_deleted_queue_is_gone_before_its_letters_have_come(patch: Patch) -> None:
    seen = Dissolutions._seen

    def hasty(self: Any, id: str, report: dict[str, Any]) -> None:
        seen(self, id, report | {"messages": 0, "dead_lettering": 0})

    patch.setattr(Dissolutions, "_seen", hasty)


def only_who_was_asked_sees_to_the_end(patch: Patch) -> None:
    """Nobody does for queues that go by themselves."""
    look = Dissolutions._look

    def asked(self: Any, id: str) -> None:
        if id in self._waiting:
            look(self, id)

    patch.setattr(Dissolutions, "_look", asked)


def an_update_forgets_that_a_queue_is_deleted(patch: Patch) -> None:
    of = Batches.of
    patch.setattr(Batches, "of", lambda snapshot: of(replace(snapshot, dissolved=[])))


ALL = planted(globals())
