"""Capture alone: what a queue's and a broker's observers note, with no machine and no tap."""

from __future__ import annotations

import pytest
from made_up_status import broker
from mantamq.protocol.capture.capture import BrokerCapture, QueueCapture, ReplicaCapture
from mantamq.protocol.capture.event_table import OBSERVED_KINDS
from mantamq.protocol.machine import EVENTS, Flush, PeerDown, PeerUp, Received, Send, Tick
from mantamq.protocol.queue.credit import UNLIMITED
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.capture_frames import (
    EnqueueFact,
    EventFact,
    Facts,
    FactsOffered,
    FactsWanted,
    Observation,
    decode_fact,
)
from mantamq.protocol.wire.events import CLUSTER, AnyEvent, DeclareQueue, Enqueue, Entry, Own, Purge, encode_event
from mantamq.protocol.wire.queue_frames import Deliver
from mantamq.protocol.wiring.wiring import Wiring

BALLOT = (3, 7)


class Queue:
    """Queue ``q#1`` at replica b1.r0, incarnation 4, as its observer sees it."""

    def __init__(self) -> None:
        self.replica = ReplicaCapture("b1.r0", "b1", 4)
        self.state = QueueState("q#1", "lost")
        policies = policies_of(self.state, QueueSettings())
        self.dispatcher = Dispatcher(self.state, policies.order, policies.allocator)
        observer = self.replica.hosted(self.state, self.dispatcher)
        assert isinstance(observer, QueueCapture)
        self.observer = observer
        self.index = 0
        self.at(1000)

    def at(self, now_us: int) -> None:
        assert self.replica.companion.step(Tick(now_us // 1000, now_us)) == []

    def apply(self, event: AnyEvent, own: bool = False) -> None:
        self.index += 1
        origin, inc = ("b1.r0", 4) if own else ("b2", 1)
        entry = Entry(BALLOT, 100 + self.index, origin, inc, 1, encode_event(event))
        self.observer.applied(self.index, entry, event, self.state.apply(event))

    def facts(self, stream: str = "q#1") -> list:
        buffer = self.replica.reporter.buffers.get(stream)
        return [decode_fact(fact) for fact in buffer.facts] if buffer is not None else []

    def observed(self) -> list[tuple]:
        return [(f.what, f.broker, f.queue, f.value) for f in self.facts("@b1.r0#4") if isinstance(f, Observation)]


def test_each_applied_event_is_a_fact_at_its_index():
    queue = Queue()
    queue.apply(Enqueue("c/1", [5, 6], [b"ab", b"c"]))
    queue.at(2500)
    queue.apply(Purge(0))
    enqueued, purged = queue.facts()
    assert enqueued == EnqueueFact(101, 3, 1000, "c/1", 5, 6, 1, 2, 3)
    assert isinstance(purged, EventFact) and (purged.seq, purged.time_us, purged.effective) == (102, 2500, True)
    assert queue.replica.reporter.buffers["q#1"].end == 2


def test_an_enqueue_that_was_there_before_is_told_without_its_bodies():
    queue = Queue()
    for _ in range(2):
        queue.apply(Enqueue("c/1", [5, 6], [b"ab", b"c"]))
    _, again = queue.facts()
    assert isinstance(again, EventFact) and not again.effective
    assert again.event == encode_event(Enqueue("c/1", [5, 6], []))


def test_behind_an_update_the_buffer_begins_anew_and_the_next_fact_has_the_size_of_its_own_messages():
    queue = Queue()
    queue.apply(Enqueue("c/1", [1, 1], [b"ab"]))
    queue.index = 9
    queue.apply(Enqueue("c/1", [2, 2], [b"abc"]))
    (fact,) = queue.facts()
    assert (fact.bytes, queue.replica.reporter.buffers["q#1"].base) == (3, 9)


def test_a_hand_over_is_observed_when_it_is_applied_with_how_long_it_took():
    queue = Queue()
    queue.apply(Own("b1", 1, ""))
    queue.at(5000)
    queue.observer.handing_over("b2")
    queue.at(9000)
    assert queue.observed() == []
    queue.apply(Own("b2", 2, "b1"), own=True)
    assert queue.observed() == [("hand_over", "b2", "q#1", 4000)]
    queue.observer.handing_over("")
    queue.apply(Own("", 3, "b2"), own=True)
    assert len(queue.observed()) == 1, "a lock that is given up to nobody is no hand-over"


def test_a_credit_stall_lasts_from_the_end_of_interest_while_messages_wait_until_it_is_back():
    queue = Queue()
    queue.dispatcher.subscribe(1, False, True, False)
    queue.observer.interest(True)
    queue.observer.interest(False)
    queue.at(2000)
    queue.observer.interest(True)
    assert queue.observed() == [], "nothing waited"
    queue.apply(Enqueue("c/1", [1, 1], [b"ab"]))
    queue.observer.interest(False)
    queue.at(7000)
    queue.observer.interest(True)
    queue.observer.interest(True)
    assert queue.observed() == [("credit_stall", "b1", "q#1", 5000)]


def test_redelivered_messages_are_observed_in_runs():
    queue = Queue()
    queue.observer.delivered(Deliver("q#1", 1, 1, [4, 7], [b""] * 4, []))
    assert queue.observed() == []
    queue.observer.delivered(Deliver("q#1", 1, 2, [4, 7], [b""] * 4, [0, 1, 1, 1, 3, 2]))
    runs = [(f.first, f.last, f.value) for f in queue.facts("@b1.r0#4")]
    assert runs == [(4, 5, 1), (7, 7, 2)]


def test_the_replica_with_consumers_says_so_in_its_offer():
    queue = Queue()
    queue.replica.companion.step(PeerUp(EVENTS))
    queue.dispatcher.subscribe(1, False, True, False)
    queue.dispatcher.subscriptions[1].credit.grant(1, UNLIMITED)
    queue.apply(Enqueue("c/1", [1, 1], [b"ab"]))
    offers = queue.replica.companion.step(Flush())
    assert offers == [
        Send(EVENTS, FactsOffered("q#1", 0, False)),
        Send(EVENTS, FactsOffered("q#1", 0, True)),
    ]


@pytest.mark.parametrize("kept", [True, False])
def test_the_facts_of_a_deleted_queue_stay_until_the_tap_has_them(kept):
    queue = Queue()
    queue.apply(Enqueue("c/1", [1, 1], [b"ab"]))
    if kept:
        queue.replica.reporter.buffers["q#1"].facts.clear()
    queue.observer.gone()
    assert ("q#1" in queue.replica.reporter.buffers) is not kept


def test_the_companion_tells_when_its_facts_are_due_and_forgets_the_tap_that_is_gone():
    queue = Queue()
    companion = queue.replica.companion
    companion.step(PeerUp(EVENTS))
    companion.step(Received(EVENTS, FactsWanted("q#1", 0)))
    queue.apply(Enqueue("c/1", [1, 1], [b"ab"]))
    companion.step(Received(EVENTS, FactsWanted("q#1", 0)))
    assert companion.step(Flush()) == [] and companion.due_ms == 1 + DEFAULT_TIMING.facts_gather_ms
    queue.at((1 + DEFAULT_TIMING.facts_gather_ms) * 1000)
    (sent,) = companion.step(Flush())
    assert isinstance(sent, Send) and isinstance(sent.frame, Facts) and companion.due_ms == 0
    queue.apply(Purge(0))
    assert companion.step(PeerDown(EVENTS)) == companion.step(Flush()) == [] and companion.due_ms == 0


def test_a_broker_notes_the_cluster_stream_and_what_its_clients_do():
    capture, wiring = BrokerCapture("b1", 7), Wiring()
    for index, now_us in ((1, 1000), (2, 3000)):
        capture.companion.step(Tick(now_us // 1000, now_us))
        event = DeclareQueue("q", {})
        entry = Entry(BALLOT, 40 + index, "b2", 1, index, encode_event(event))
        capture.applied(index, entry, event, wiring.apply(event, index))
    declared, again = (decode_fact(fact) for fact in capture.reporter.buffers[CLUSTER].facts)
    assert isinstance(declared, EventFact) and isinstance(again, EventFact)
    assert (declared.queue, declared.effective, again.effective) == ("q#1", True, False)

    capture.client_opened("c")
    capture.members_moved({"b1": "here:1"})
    capture.members_moved({"b1": "here:1", "b2": "there:1"})
    capture.reading_paused(True)
    capture.companion.step(Tick(9, 9000))
    capture.reading_paused(False)
    capture.client_ended("c", "in-use")
    capture.store_opened(5, False, 12, 30)
    capture.disk_pressed(True)
    capture.companion.step(Tick(12, 12_000))
    capture.disk_pressed(False)
    capture.store_happened("flush_slow", "", 1_500_000, "")
    capture.store_happened("store_dropped", "q#1", 0, "")
    capture.store_happened("a kind of a later version", "", 0, "")
    told = [decode_fact(fact) for fact in capture.reporter.buffers["@b1#7"].facts]
    assert [(f.what, f.client, f.detail, f.value) for f in told if isinstance(f, Observation)] == [
        ("connect", "c", "", 0),
        ("address", "", "here:1", 0),
        ("flow_on", "", "", 0),
        ("flow_off", "", "", 6000),
        ("disconnect", "c", "in-use", 0),
        ("store_opened", "", '{"before":5,"blank":false,"entries":12}', 30_000),
        ("disk_full", "", "", 0),
        ("disk_free", "", "", 3000),
        ("flush_slow", "", "", 1_500_000),
        ("store_dropped", "", "", 0),
    ]
    assert {f.what for f in told if isinstance(f, Observation)} <= set(OBSERVED_KINDS)
    assert {(f.seq, f.term) for f in told} == {(42, 3)}, "behind the last event that the broker knew"
    status = broker(["b1"])
    capture.report(status)
    assert (status.facts, status.facts_dropped) == (12, 0)
