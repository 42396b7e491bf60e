"""Bugs of kinds of queues, planted on purpose, as in `mutants.py`."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.queue import ring
from mantamq.protocol.queue.acquisitions import Acquisitions
from mantamq.protocol.queue.ring import Ring
from mantamq.protocol.ranges import runs
from mantamq.protocol.replica import consumers
from mantamq.protocol.wiring import arguments

from .planting import planted

Patch = pytest.MonkeyPatch


def what_is_held_stays_in_a_ring(patch: Patch) -> None:
    """The oldest that is available goes."""
    patch.setattr(ring, "heapq", type("", (), {"merge": staticmethod(lambda available, *held: available)}))


def the_newest_goes_from_a_ring(patch: Patch) -> None:
    oldest = Ring._oldest

    def newest(self: Any, over_count: int, over_size: int) -> list[tuple[int, int]]:
        last = self._state.available.last
        return [(last, last)] if over_size <= 0 and over_count == 1 else oldest(self, over_count, over_size)

    patch.setattr(Ring, "_oldest", newest)


def a_dropped_message_stays_with_its_holder(patch: Patch) -> None:
    patch.setattr(Acquisitions, "drop", lambda self, ranges: None)


def a_ring_counts_what_is_rejected(patch: Patch) -> None:
    """A rejected message on its way takes the place of one that waits."""

    def applied(self: Any, event: Any, done: Any) -> None:
        state = self._state
        over_count = len(state.blobs) - self._max_count if self._max_count else 0
        if over_count > 0:
            oldest = self._oldest(over_count, 0)
            done.dropped = [(first, last, False) for first, last in oldest]
            state.discard(oldest)

    patch.setattr(Ring, "applied", applied)


def a_ring_holds_twice_its_bytes(patch: Patch) -> None:
    begins = Ring.__init__

    def wide(self: Any, state: Any, settings: Any) -> None:
        begins(self, state, settings)
        self._max_size *= 2

    patch.setattr(Ring, "__init__", wide)


def all_of_an_acquisition_is_lost_to_each(patch: Patch) -> None:
    """Two settlements of one delivery go as one event, and what is lost of it is told to both."""

    def common(some: list[int], others: list[int]) -> list[int]:
        acquisitions = {acquisition for acquisition, _, _ in runs(some)}
        return [n for run in runs(others) if run[0] in acquisitions for n in run]

    patch.setattr(consumers, "common", common)


def each_maker_has_a_queue_of_its_own(patch: Patch) -> None:
    """What is spelled in other words is another definition."""
    patch.setattr(arguments, "plain", lambda settings, given: given)


ALL = planted(globals())
