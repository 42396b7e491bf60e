"""What a broker is told of its enqueues, by a part that knows the state and an outbox, and no queue around it."""

from __future__ import annotations

from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica.verdicts import PRODUCES_MS, VerdictTeller
from mantamq.protocol.wire.events import AnyEvent, Enqueue, Entry, Purge, encode_event
from mantamq.protocol.wire.verdict_frames import Judge, Judged
from replica_outbox import KeptOutbox


class Queue:
    """At broker b1, whose process is number 4, as the replica's is."""

    def __init__(self, **settings: int) -> None:
        self.state = QueueState("q#1")
        for policy in policies_of(self.state, QueueSettings(overflow="reject", **settings)).of_state:
            self.state.include(policy)
        self.outbox = KeptOutbox()
        self.teller = VerdictTeller(self.state, self.outbox)

    def apply(self, event: AnyEvent, origin: str = "b1", number: int = 0) -> list[Judged]:
        entry = Entry((1, 1), 1, origin, 4, number, encode_event(event))
        done = self.state.apply(event)
        self.teller.applied(self.state.index, entry, event, done)
        return self.said()

    def said(self) -> list[Judged]:
        assert {peer for peer, _ in self.outbox.sent} <= {"b1"}
        return self.outbox.take()


def enqueue(first: int, last: int) -> Enqueue:
    return Enqueue("c/1", [first, last], [b"x"] * (last - first + 1))


def test_of_what_others_have_asked_for_nothing_is_said():
    queue = Queue(max_count=2, flow_stop_count=0)
    assert queue.apply(enqueue(1, 4), "b2", 1) == []


def test_each_request_is_told_with_what_is_refused_of_it():
    queue = Queue(max_count=3, flow_stop_count=0)
    assert queue.apply(enqueue(1, 2), number=4) == [Judged("q#1", 4, [4], [[]])]
    assert queue.apply(enqueue(3, 6), number=5) == [Judged("q#1", 4, [5], [[4, 6]])]
    assert queue.apply(enqueue(3, 6), number=9) == [Judged("q#1", 4, [9], [[4, 6]])], "a repeat by another broker"


def test_what_has_come_in_waits_until_the_queue_holds_nobody_back():
    queue = Queue(max_count=5, flow_stop_count=2, flow_resume_count=2)
    assert queue.apply(enqueue(1, 3), number=1) == [Judged("q#1", 4, stopped=True)]
    assert queue.apply(enqueue(4, 7), number=2) == [], "4 and 5 have come in"
    assert queue.apply(enqueue(8, 9), number=3) == [Judged("q#1", 4, [3], [[8, 9]], True)], "nothing has"
    assert queue.apply(Purge(1), "b2") == []
    assert queue.apply(Purge(0), "b2") == [Judged("q#1", 4, [1, 2], [[], [6, 7]])]


def test_a_broker_without_producers_hears_that_they_are_held_back_when_it_has_one():
    queue = Queue(flow_stop_count=2, flow_resume_count=2)
    assert queue.apply(enqueue(1, 3), "b2") == [] and queue.state.flow_stopped
    assert queue.apply(Purge(0), "b2") == [] and not queue.state.flow_stopped
    assert queue.apply(enqueue(4, 6), "b2") == []
    assert queue.apply(enqueue(7, 7), number=1) == [Judged("q#1", 4, stopped=True)]
    queue.outbox.now_ms += PRODUCES_MS
    assert not queue.teller.expected()
    assert queue.apply(Purge(0), "b2") == [Judged("q#1", 4, [1], [[]])], "who was told that is told when it is over"
    assert queue.apply(enqueue(8, 11), "b2") == []
    queue.apply(Purge(0), "b2")
    assert queue.apply(enqueue(12, 12), number=2) == [Judged("q#1", 4, [2], [[]])]
    assert queue.apply(enqueue(13, 15), "b2") == [Judged("q#1", 4, stopped=True)], "it has had one within a second"
    queue.outbox.now_ms += PRODUCES_MS
    assert queue.apply(Purge(0), "b2") == [Judged("q#1", 4)], "also where nothing of its own waits"


def test_a_broker_that_asks_is_answered_by_the_state_and_told_the_rest_later():
    queue = Queue(max_count=2, flow_stop_count=0)
    queue.apply(enqueue(1, 3), "b2", 1)
    queue.teller.judge(Judge("q#1", 4, [(1, "c/1", [2, 3]), (2, "c/1", [4, 4])]))
    assert queue.said() == [Judged("q#1", 4, [1], [[3, 3]]), Judged("q#1", 4)]
    assert queue.apply(enqueue(4, 4), number=2) == [Judged("q#1", 4, [2], [[4, 4]])]


def test_with_another_state_the_broker_is_asked_to_ask():
    queue = Queue(flow_stop_count=1)
    queue.apply(enqueue(1, 2), number=1)
    other = Queue(flow_stop_count=1)
    other.state.restore(queue.state.snapshot())
    other.teller.restored()
    assert other.said() == [Judged("q#1", 4, stopped=True, again=True)]
    other.teller.judge(Judge("q#1", 4, [(1, "c/1", [1, 2])]))
    assert other.said() == [Judged("q#1", 4, stopped=True)]
    other.state.fill({1: b"x", 2: b"x"})
    assert other.apply(Purge(0), "b2") == [Judged("q#1", 4, [1], [[]])]
