"""The receivers and times of a keeper's acknowledgements: the part alone."""

from __future__ import annotations

import pytest
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.replica.acknowledgements import Acknowledgements
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.events import ZERO, Entry, Purge, encode_event
from mantamq.protocol.wire.log_frames import Ack, Append, Gap

from tests.unit.replica_outbox import KeptOutbox

ONE = (1, 7)
ENTRY = Entry(ONE, 1, "x", 1, 1, encode_event(Purge(0)))


@pytest.fixture
def outbox() -> KeptOutbox:
    return KeptOutbox()


@pytest.fixture
def acks(outbox: KeptOutbox) -> Acknowledgements:
    return Acknowledgements(Keeper("q#1", "b1", 4, False, ONE, ["b1", "b2", "b3"]), outbox)


def append(learner: str = "", commit: int = 0, previous: int = 0) -> Append:
    ballot = ONE if previous else ZERO
    return Append(ONE, "q#1", previous, ballot, commit, 0, [ENTRY], learner, 1)


def told(acks: Acknowledgements, outbox: KeptOutbox) -> list[Ack]:
    acks.acknowledge(0, False)
    return outbox.take(Ack)


@pytest.mark.parametrize("learner", ["", "b4.r0"])
def test_without_a_learner_the_sequencer_is_told_at_the_next_flush(acks, outbox, learner):
    assert acks.append("sequencer", append(learner)) == []
    assert acks.needed and outbox.dirty and not acks.learner, "a learner without a link is none"
    assert [ack.match for ack in told(acks, outbox)] == [1] and not acks.needed


def test_the_distinguished_learner_is_told_first_and_the_sequencer_later(acks, outbox):
    acks.append("sequencer", append("b2.r0"))
    assert acks.learner == "b2.r0" and outbox.dirty
    assert told(acks, outbox) == [] and outbox.timers == {"q#1": 1000 + DEFAULT_TIMING.acknowledge_ms}
    outbox.now_ms += DEFAULT_TIMING.acknowledge_ms
    assert [ack.match for ack in told(acks, outbox)] == [1]


def test_one_that_becomes_eager_says_so_at_once(acks, outbox):
    acks.append("sequencer", append("b2.r0"))
    acks.acknowledge(0, True)
    assert [ack.eager for ack in outbox.take(Ack)] == [True]


def test_the_learner_itself_waits_until_it_knows_the_commit(acks, outbox):
    acks.append("sequencer", append("b1.r0"))
    assert outbox.timers == {"q#1": 1000 + DEFAULT_TIMING.acknowledge_ms} and not outbox.dirty and not acks.learner


def test_what_is_committed_already_is_acknowledged_to_the_sequencer(acks, outbox):
    assert acks.append("sequencer", append("b2.r0", commit=1)) == [ENTRY]
    assert outbox.dirty and not acks.learner and acks.due_ms == 0


def test_a_gap_is_answered_and_nothing_is_acknowledged(acks, outbox):
    assert acks.append("sequencer", append(previous=3)) == []
    assert outbox.sent == [("sequencer", Gap(ONE, "q#1", "b1", 0))] and not acks.needed
