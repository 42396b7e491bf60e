"""Bugs of what a sequencer fetches, of queues that are lost, and of what needs many faults to be seen, planted on purpose, as
in `mutants.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from mantamq.protocol.limits import INCARNATIONS_PER_BROKER
from mantamq.protocol.log import keeper
from mantamq.protocol.log.numbers import drop_numbers
from mantamq.protocol.queue.groups import MessageGroups
from mantamq.protocol.sequencer import stream
from mantamq.protocol.sequencer.recovery import Recovery
from mantamq.protocol.sequencer.stream import Stream
from mantamq.protocol.wire.events import Rejoin

Patch = pytest.MonkeyPatch


def first_piece_is_taken_for_all(patch: Patch) -> None:
    """A log that comes in pieces is adopted when the first has come."""
    adopted = Recovery.adopted
    fetched = Recovery.fetched

    def hasty(self: Any, peer: str, frame: Any) -> None:
        stream = self._order.streams.get(frame.stream)
        if stream is None or stream.ready or stream.asked != peer or frame.ballot != self._order.ballot:
            return
        after = frame.first + len(frame.entries)
        if after > stream.asked_for:
            fetched(self, peer, frame)
            return
        stream.asked = ""
        _, best = next(voice for voice in stream.reports.values() if voice[0] == peer)
        adopted(self, stream, best, frame)

    patch.setattr(Recovery, "fetched", hasty)


# ---- request numbers of processes that are over


def repeats_of_the_dead_are_done_again(patch: Patch) -> None:
    """The numbers of processes that are over are dropped, and their requests are taken all the same."""
    patch.setattr(Stream, "refuses", lambda self, origin, inc: False)


def a_queue_that_returns_ends_its_broker(patch: Patch) -> None:
    """The number under which a queue comes back is taken for its broker's: the one that lives is over as well."""

    def drop(table: Any, over: Any, event: Any) -> None:
        if type(event) is Rejoin:
            event = Rejoin(event.voter, event.inc + INCARNATIONS_PER_BROKER - 1)
        drop_numbers(table, over, event)

    patch.setattr(keeper, "drop_numbers", drop)
    patch.setattr(stream, "drop_numbers", drop)


def what_goes_to_the_alternate_holds_its_group(patch: Patch) -> None:
    """What a consumer was given before it was pushed out stays its own, and so does the group."""
    applied = MessageGroups.applied
    patch.setattr(MessageGroups, "applied", lambda self, event, done: applied(self, event, replace(done, aside=[])))


ALL: dict[str, Callable[[Patch], None]] = {
    name: function
    for name, function in list(globals().items())
    if callable(function) and getattr(function, "__module__", "") == __name__ and not name.startswith("_")
}
