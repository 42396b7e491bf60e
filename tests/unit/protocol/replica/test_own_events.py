"""Own events of one queue, alone: which part of which request they are, and what an update has overtaken."""

from __future__ import annotations

from mantamq.protocol.replica.own_events import OwnEvents
from mantamq.protocol.wire.events import Purge

from tests.unit.replica_outbox import KeptOutbox


def own_events(*numbers: int) -> OwnEvents:
    outbox = KeptOutbox()
    own = OwnEvents("q#1", outbox)
    for tag, number in enumerate(numbers):
        outbox.number = number
        own.submit(Purge(0), "abcdefgh"[tag])
    assert outbox.submitted == [("q#1", Purge(0))] * len(numbers)
    return own


def test_each_is_numbered_within_its_request():
    assert [one[:] for one in own_events(1, 1, 2)] == [(1, 1, "a"), (1, 2, "b"), (2, 1, "c")]


def test_what_an_update_has_overtaken_is_answered():
    own = own_events(1, 1, 2, 2, 3)
    assert own.overtaken(None, 4) == own.overtaken((3, 9, 9), 4) == []
    assert own.overtaken((4, 2, 1), 4) == ["a", "b", "c"], "one part of request 2 is in the log"
    assert [event.tag for event in own] == ["d", "e"]
