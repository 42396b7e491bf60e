"""Which replica sees to a batch of dead letters that nobody has rejected."""

from __future__ import annotations

import pytest
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica.dead_letters import DeadLetters
from mantamq.protocol.replica.seeing_to import SeeingTo, seeing_to
from mantamq.protocol.wire.events import (
    Acquire,
    AnyEvent,
    DeadLetterDone,
    Enqueue,
    Entry,
    Evict,
    Expire,
    Own,
    Reject,
    Rejoin,
    encode_event,
)


class Queue:
    """At a broker; b1, b2 and b3 keep it. What is in it expires at 100."""

    def __init__(self, broker: str = "b1", voters: tuple[str, ...] = ("b1", "b2", "b3")) -> None:
        self.broker = broker
        settings = QueueSettings(alternate="lost", dead_letters="all")
        self.state = QueueState("q#1", "lost")
        for policy in policies_of(self.state, settings).of_state:
            self.state.include(policy)
        self.letters = DeadLetters(self.state)
        (self.sees,) = seeing_to(self.state, self.letters, broker, Keeper("q#1", broker, voters=list(voters)))
        self.apply(Enqueue("", [], [b"1", b"2", b"3"], [0, 100, 1, 100, 2, 100]))

    def apply(self, event: AnyEvent, origin: str = "b1.r0") -> list[int]:
        """Which batches are asked for then."""
        done = self.state.apply(event)
        entry = Entry((1, 1), 1, origin, 4, 1, encode_event(event))
        self.sees.applied(self.state.index, entry, event, done)
        return [frame.id for frame in self.letters.due()]


EXPIRE = Expire(100, [1, 1])


@pytest.mark.parametrize(("origin", "asked"), [("b1.r0", [2]), ("b1", [2]), ("b1.r7", [2]), ("b2.r0", [])])
def test_it_is_seen_to_by_whoever_asked_for_the_event(origin, asked):
    assert Queue().apply(EXPIRE, origin) == asked


@pytest.mark.parametrize("over", [Evict("b2", 1), Rejoin("b2", 2)])
def test_and_by_all_others_when_that_is_out(over):
    queue = Queue()
    assert queue.apply(EXPIRE, "b2.r0") == [] and queue.apply(Expire(100, [2, 2])) == [3]
    assert queue.apply(over, "sequencer1") == [2], "what is on its way is not asked for again"


def test_what_is_done_by_then_is_not():
    queue = Queue()
    queue.apply(EXPIRE, "b2.r0")
    queue.apply(DeadLetterDone(2), "b2.r0")
    assert queue.apply(Evict("b2", 1), "sequencer1") == []


@pytest.mark.parametrize("origin", ["b4", "sequencer1"])
def test_what_somebody_asked_for_who_does_not_keep_the_queue_is_seen_to_by_all(origin):
    assert Queue().apply(EXPIRE, origin) == [2] and Queue("b3").apply(EXPIRE, origin) == [2]


def test_what_a_broker_asked_for_that_is_out_is_seen_to_by_all():
    queue = Queue()
    queue.apply(Evict("b2", 1), "sequencer1")
    assert queue.apply(EXPIRE, "b2.r0") == [3]


def copied(queue: Queue, broker: str) -> list[int]:
    """Which batches a copy asks for that comes to a broker."""
    copy = Queue(broker)
    copy.state.restore(queue.state.snapshot())
    copy.state.fill(dict(queue.state.blobs))
    copy.letters.restored(broker)
    return [frame.id for frame in copy.letters.due()]


def test_a_copy_that_came_past_the_event_sees_to_it_too():
    queue = Queue()
    queue.apply(EXPIRE, "b2.r0")
    assert copied(queue, "b3") == [2]


def test_a_copy_sees_to_what_consumers_have_rejected_when_their_broker_is_out():
    """Whoever has applied that it is out may be gone before it has finished."""
    queue = Queue()
    queue.apply(Own("b2", 1), "b2.r0")
    queue.apply(Acquire("b2", 1, 1, [1, 1, 1]), "b2.r0")
    queue.apply(Reject("b2", 1, [1, 1, 1]), "b2.r0")
    assert queue.state.batches
    assert copied(queue, "b3") == [] and copied(queue, "b2") == [4]
    queue.apply(Evict("b2", 1), "sequencer1")
    assert copied(queue, "b3") == [4]


def test_a_queue_without_an_alternate_has_nobody_for_it():
    assert seeing_to(QueueState("q#1"), DeadLetters(QueueState("q#1")), "b1", Keeper("q#1", "b1")) == ()
    assert isinstance(Queue().sees, SeeingTo)
