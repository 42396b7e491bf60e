"""What the observers of a queue are told, and when: one hosted queue alone, with two observers at once."""

from __future__ import annotations

from itertools import count

import pytest
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.machine import Flush, PeerDown, PeerUp, Received, Send, SetTimer, Tick
from mantamq.protocol.queue.credit import UNLIMITED
from mantamq.protocol.queue.observers import QueueObserver
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.replica.hosted_queue import HostedQueue
from mantamq.protocol.replica.machine import ReplicaMachine
from mantamq.protocol.replica.ownerships import Ownerships
from mantamq.protocol.replica.update import Pace
from mantamq.protocol.wire.events import ZERO, AnyEvent, Enqueue, Entry, Own, Purge, encode_event
from mantamq.protocol.wire.link_frames import Ping
from mantamq.protocol.wire.log_frames import Append
from mantamq.protocol.wire.queue_frames import Cancel, Consume, Contended, Credit, Host, Interest, Unhost

from tests.unit.replica_outbox import KeptOutbox
from tests.unit.toy_observers import ReplicaCounter, ReplicaRecorder, ReplicaTalker, Talker

ONE = (1, 7)


class Watched:
    """Queue ``q#1`` of broker b1, which keeps it under incarnation 2, with two observers."""

    def __init__(self, observed: bool = True) -> None:
        self.outbox = KeptOutbox()
        ownerships = self.ownerships = Ownerships(self.outbox)
        ownerships.up("ownership")
        keeper = Keeper("q#1", "b1", 2, False, ONE, ["b1"])
        self.counter, self.recorder = ReplicaCounter(), ReplicaRecorder()
        observers = (self.counter, self.recorder) if observed else ()
        self.queue = HostedQueue(
            "q#1", QueueSettings(), keeper, ownerships, Pace(10**6), count(1), self.outbox, observers=observers
        )

    def commit(self, *events: AnyEvent, own: bool = False) -> None:
        for event in events:
            end = self.queue.keeper.end
            origin, inc = (self.outbox.name, self.outbox.inc) if own else ("", 0)
            entry = Entry(ONE, end + 1, origin, inc, 1, encode_event(event))
            self.queue.append("sequencer", Append(ONE, "q#1", end, ONE if end else ZERO, end + 1, 0, [entry]))

    def settle(self) -> None:
        while self.queue.serve():
            pass

    def told(self) -> list[tuple]:
        book, self.recorder.book[:] = list(self.recorder.book), []
        assert {id for id, *_ in book} <= {"q#1"}
        return [tuple(words) for _, *words in book]


def play(watched: Watched) -> None:
    """The life of an owner: messages, a consumer, the hand-over, the consumer's end."""
    watched.commit(Enqueue("c", [1, 2], [b"a", b"b"]))
    watched.queue.consumers.consume(Consume("q#1", 5, "consume", True))
    watched.queue.consumers.credit(Credit("q#1", 5, 10, UNLIMITED))
    watched.settle()
    watched.commit(Own("b1", 1, ""))
    watched.settle()
    watched.outbox.now_ms += 100
    watched.queue.grants.contended(Contended("q#1", 1, "b2", 20))
    watched.settle()
    watched.commit(*watched.outbox.events(), own=True)
    watched.queue.consumers.cancel(Cancel("q#1", 5, False))
    watched.settle()


def test_an_observer_is_told_at_each_named_moment_in_order():
    watched = Watched()
    play(watched)
    assert watched.told() == [
        ("applied", 1, "Enqueue", True),
        ("came", 5),
        ("interest", True),
        ("applied", 2, "Own", True),
        ("delivered", 1, 2),
        ("to", "b2"),
        ("applied", 3, "Acquire", True),
        ("applied", 4, "Own", True),
        ("went", 5),
        ("interest", False),
    ]
    assert watched.counter.totals == {"queues": 1, "Enqueue": 1, "Own": 2, "delivered": 2, "Acquire": 1}


def test_a_queue_does_the_same_with_observers_and_without():
    alone, watched = Watched(observed=False), Watched()
    for one in (alone, watched):
        play(one)
    assert alone.outbox.sent == watched.outbox.sent and watched.outbox.sent
    assert alone.outbox.timers == watched.outbox.timers
    assert alone.queue.state.digest() == watched.queue.state.digest()


def test_an_event_without_effect_is_told_as_such():
    watched = Watched()
    watched.commit(Own("b1", 7, ""), Purge(0))
    assert watched.told() == [("applied", 1, "Own", False), ("applied", 2, "Purge", True)]


def test_an_observer_that_overrides_nothing_is_one_all_the_same():
    class Nothing(QueueObserver):
        pass

    class Idle(ReplicaCounter):
        def hosted(self, state, dispatcher):
            return Nothing()

    watched = Watched()
    watched.queue.observers = tuple(Idle().hosted(None, None) for _ in range(2))  # pyright: ignore[reportArgumentType]
    watched.commit(Enqueue("c", [1, 1], [b"a"]))
    assert watched.queue.applied == 1


@pytest.mark.parametrize("linked", [True, False])
def test_the_end_of_a_queue_is_told_whether_or_not_an_ownership_hears_it(linked):
    recorder, counter = ReplicaRecorder(), ReplicaCounter()
    replica = ReplicaMachine("b1.r0", "b1", 1, observers=(recorder, counter))
    if linked:
        replica.step(PeerUp("ownership"))
    for frame in (Host("q#1", "", {}), Host("r#2", "", {}), Unhost("q#1")):
        replica.step(Received("b1", frame))
    assert recorder.book == [("q#1", "gone")] and counter.totals["queues"] == 2


def test_interest_is_told_as_often_as_an_ownership_hears_of_it():
    watched = Watched()
    watched.ownerships.down("ownership")
    watched.queue.consumers.consume(Consume("q#1", 5, "consume", True))
    watched.queue.consumers.credit(Credit("q#1", 5, 10, UNLIMITED))
    watched.settle()
    assert watched.told() == [("came", 5)] and not watched.outbox.take(Interest)
    for peer in ("ownership", "ownership2"):
        watched.ownerships.up(peer)
        watched.queue.grants.introduce(peer)
    assert len(watched.outbox.take(Interest)) == 2
    assert watched.told() == [("interest", True)] * 2


def test_a_companion_has_its_peer_for_itself_and_the_timer_with_the_queues():
    talker = Talker("backup", due_ms=1020)
    replica = ReplicaMachine("b1.r0", "b1", 1, observers=[ReplicaTalker(talker)])
    inputs = [Tick(1000, 1_000_000), PeerUp("backup"), Received("backup", Ping()), Flush()]
    assert [replica.step(input) for input in inputs] == [[], [], [Send("backup", Ping())], [SetTimer(1020)]]
    assert talker.given == inputs and not replica.fellows
    replica.step(PeerUp("b2.r0"))
    assert replica.step(Received("b2.r0", Ping())) == [] and replica.fellows == {"b2.r0"}
    replica.step(PeerDown("backup"))
    assert talker.given == [*inputs, PeerDown("backup")]
