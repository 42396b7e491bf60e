"""Bugs where options meet: moves, delays, deleted queues, ids that are known. Planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker import queue_traits
from mantamq.protocol.queue import dissolution, state
from mantamq.protocol.queue.move_rules import move
from mantamq.protocol.queue.traits import carried_of
from mantamq.protocol.ranges import pairs
from msgspec.structs import replace

from .planting import planted

Patch = pytest.MonkeyPatch


def what_goes_back_to_its_queue_is_taken_for_a_duplicate(patch: Patch) -> None:
    """That queue knows its id, since it was there before; so it is nowhere."""
    patch.setattr(queue_traits, "named_of", carried_of)


def a_move_takes_what_waits_for_its_time(patch: Patch) -> None:
    def impatient(state: Any, event: Any) -> Any:
        waiting = list(state.delayed.ranges.within(event.after + 1, event.upto))
        state.delayed.drop(waiting)
        for first, last in waiting:
            state.available.add(first, last)
        chosen = sorted([*pairs(event.ranges), *waiting])
        return move(state, replace(event, ranges=[edge for part in chosen for edge in part]))

    patch.setattr(state, "move", impatient)


def what_is_delayed_stays_in_a_deleted_queue(patch: Patch) -> None:
    in_order = dissolution.in_order

    def but_delayed(state: Any) -> Any:
        return ((n, n) for first, last in in_order(state) for n in range(first, last + 1) if n not in state.delayed)

    patch.setattr(dissolution, "in_order", but_delayed)


ALL = planted(globals())
