"""Bugs of messages that go on from queue to queue, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker.moved import Landing
from mantamq.protocol.queue import moves
from mantamq.protocol.queue.batches import Batches
from mantamq.protocol.queue.ring import RingAgain
from mantamq.protocol.replica import dead_letters, targets
from mantamq.protocol.replica.moves import Moving
from msgspec.structs import replace

from .planting import planted

Patch = pytest.MonkeyPatch


def what_a_full_queue_refuses_is_gone(patch: Patch) -> None:
    """A queue at its limit takes none of it, and it has gone all the same."""
    patch.setattr(Landing, "said", lambda self, *said: super(Landing, self).said(*said))


def a_selector_is_not_looked_at(patch: Patch) -> None:
    chosen = Moving._chosen

    def any_of_them(self: Any, order: Any, stands: Any, most: int) -> Any:
        return chosen(self, replace(order, selector=""), stands, most)

    patch.setattr(Moving, "_chosen", any_of_them)


def moved_messages_do_not_expire_any_more(patch: Patch) -> None:
    to_target = targets.to_target
    patch.setattr(dead_letters, "to_target", lambda *piece: replace(to_target(*piece), expiry=[]))


def an_update_forgets_where_moved_messages_go(patch: Patch) -> None:
    """So they are dead letters: of a queue without an alternate they are gone."""
    of = Batches.of
    patch.setattr(Batches, "of", lambda snapshot: of(replace(snapshot, move_targets=[])))


def a_move_is_answered_before_its_messages_are_there(patch: Patch) -> None:
    patch.setattr(moves.QueueMoves, "under_way", lambda self, token: 0)


def none_is_said_of_a_move_while_another_broker_moves_some(patch: Patch) -> None:
    """Its user was cut off there, asks again here, where nothing is to be moved yet, and hears that it is over."""
    patch.setattr(moves.QueueMoves, "__contains__", lambda self, token: True)


def a_ring_takes_back_more_than_it_holds(patch: Patch) -> None:
    """Others have come while these were on their way."""
    patch.setattr(RingAgain, "applied", lambda self, event, done: None)


ALL = planted(globals())
