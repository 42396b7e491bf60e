"""Dispatch to consumers with selectors: one look at each message, bounded runs, the lock, drains, kinds of queues."""

from __future__ import annotations

from itertools import count

import pytest
from mantamq.client import Message
from mantamq.protocol.limits import Limits
from mantamq.protocol.queue.credit import UNLIMITED
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.queue.subscription import Subscription
from mantamq.protocol.ranges import RangeSet, runs
from mantamq.protocol.wire.events import Acquire, Enqueue, Own, Release
from mantamq.protocol.wire.message import decode, encode


class Queue:
    """A queue whose lock b1 holds, dispatch there, and how often each of its consumers has looked at a message."""

    def __init__(self, settings: QueueSettings | None = None, looks: int = 1000) -> None:
        self.state = QueueState("q#1")
        policies = policies_of(self.state, settings or QueueSettings())
        for policy in policies.of_state:
            self.state.include(policy)
        self.dispatcher = Dispatcher(self.state, policies.order, policies.allocator, limits=Limits(run_looks=looks))
        self.acquisitions, self.ids = count(1), count(1)
        self.state.apply(Own("b1", 1))
        self.looked: list[str] = []

    def send(self, *words: str, priority: int | None = None) -> None:
        blobs = [encode(Message(word, properties={"tenant": word[:1]}, priority=priority)) for word in words]
        self.state.apply(Enqueue("", [], blobs))

    def consumer(
        self, begins: str | None, credit: int = 100, browse: bool = False, everything: bool = False
    ) -> Subscription:
        """One that wants what begins so; None: it has no selector."""

        def wanted(blob: bytes) -> bool:
            word = decode(blob, Message).body.decode()
            self.looked.append(word)
            return word.startswith(str(begins))

        subscription = self.dispatcher.subscribe(
            next(self.ids), browse, not browse, everything, None if begins is None else wanted
        )
        subscription.credit.grant(credit, UNLIMITED)
        return subscription

    def give(self, acquire: bool = True, order: bool = True) -> list[str]:
        """One run; with `order` its acquires are ordered."""
        delivered, self.more = self.dispatcher.run(acquire, self.acquisitions)
        found = []
        for one in delivered:
            found += [f"{one.subscription.id}:{decode(self.state.blobs[p], Message).body.decode()}" for a, b in one.parts for p in range(a, b + 1)]  # fmt: skip
            if one.acquisition and order:
                acquired = [n for a, b in one.parts for n in (one.acquisition, a, b)]
                self.state.apply(Acquire("b1", 1, 1, acquired))
                for _, first, last in runs(acquired):
                    self.dispatcher.taken.remove(first, last)
        return found

    def release(self, consumer: Subscription) -> None:
        held = [n for a, parts in consumer.held.items() for first, last in parts for n in (a, first, last)]
        consumer.held.clear()
        self.dispatcher.returned(self.state.apply(Release("b1", 1, held)).positions)

    def looks(self) -> list[str]:
        looked, self.looked = self.looked, []
        return looked


def test_each_gets_what_it_wants_and_looks_once():
    queue = Queue()
    queue.send("a1", "b1", "b2", "a2", "c1", "b3")
    queue.consumer("b")
    assert queue.give() == ["1:b1", "1:b2", "1:b3"] and not queue.more
    assert queue.looks() == ["a1", "b1", "b2", "a2", "c1", "b3"]
    assert queue.give() == [] and not queue.dispatcher.wants() and queue.looks() == []
    queue.send("c2", "b4")
    assert queue.dispatcher.wants() and queue.give() == ["1:b4"] and queue.looks() == ["c2", "b4"]
    queue.consumer("a")
    assert queue.give() == ["2:a1", "2:a2"]
    assert queue.looks() == ["a1", "a2", "c1", "c2"]
    queue.consumer(None)
    assert queue.give() == ["3:c1", "3:c2"] and queue.looks() == []


def test_what_came_back_is_looked_at_again_in_its_place():
    queue = Queue()
    queue.send("a1", "b1", "a2", "b2")
    consumer = queue.consumer("b", 1)
    assert queue.give() == ["1:b1"]
    consumer.credit.grant(1, UNLIMITED)
    assert queue.give() == ["1:b2"]
    queue.release(consumer)
    consumer.credit.grant(5, UNLIMITED)
    assert queue.give() == ["1:b1", "1:b2"]
    plain = queue.consumer(None)
    assert queue.give() == ["2:a1", "2:a2"]
    queue.release(plain)
    queue.looks()
    assert queue.give() == ["2:a1", "2:a2"]
    assert set(queue.looks()) <= {"a1", "a2"}, "nobody looks at what is out"


def test_what_was_passed_is_not_looked_at_again_where_something_came_back():
    queue = Queue()
    queue.send("b1", *(f"a{i}" for i in range(50)), "b2", *(f"c{i}" for i in range(50)), "b3")
    consumer = queue.consumer("b", 2)
    other = queue.consumer("b", 0)
    assert queue.give() == ["1:b1", "1:b2"]
    for _ in range(3):
        queue.looks()
        queue.release(consumer)
        consumer.credit.grant(2, UNLIMITED)
        assert queue.give() == ["1:b1", "1:b2"] and set(queue.looks()) <= {"b1", "b2", "c0"}
    queue.release(consumer)
    queue.looks()
    other.credit.grant(5, UNLIMITED)
    assert queue.give() == ["2:b1", "2:b2", "2:b3"] and len(queue.looks()) == 103
    consumer.credit.grant(1, UNLIMITED)
    assert queue.give() == []
    queue.release(other)
    queue.looks()
    other.credit.stop()
    consumer.credit.grant(5, UNLIMITED)
    assert queue.give() == ["1:b1", "1:b2", "1:b3"]
    assert queue.looks() == ["b1", "b2", "b3"]


def test_a_run_is_bounded_and_the_next_goes_on():
    queue = Queue(looks=10)
    queue.send(*(f"a{i}" for i in range(25)), "b1", *(f"a{i}" for i in range(25, 40)), "b2")
    queue.consumer("b")
    given, looked = [], []
    for _ in range(10):
        given.append(queue.give())
        looked.append(len(queue.looks()))
        if not queue.more:
            break
    assert given == [[], [], ["1:b1"], [], ["1:b2"]] and looked == [10, 10, 10, 10, 2]
    assert not queue.dispatcher.looks.short


def test_looks_are_shared_and_all_have_their_turn():
    queue = Queue(looks=10)
    queue.send(*(f"a{i}" for i in range(40)), "b", "c")
    queue.consumer("b")
    queue.consumer("c")
    given = []
    while True:
        given += queue.give()
        assert len(queue.looks()) <= 10
        if not queue.more:
            break
    assert sorted(given) == ["1:b", "2:c"]


def test_interest_is_in_what_is_wanted_or_in_nothing():
    queue = Queue(looks=10)
    queue.consumer("b")
    assert queue.dispatcher.wants(), "nothing waits"
    queue.send(*(f"a{i}" for i in range(25)))
    assert queue.give(acquire=False) == []
    assert not queue.dispatcher.wants() and queue.dispatcher.looks.short, "it does not know yet: another run"
    queue.send("b")
    seen = []
    while not queue.dispatcher.wants():
        seen.append(queue.dispatcher.looks.short)
        queue.give(acquire=False)
    assert seen == [True, True] and queue.give() == ["1:b"]
    queue.give(acquire=False)
    assert not queue.dispatcher.wants() and not queue.dispatcher.looks.short
    plain = queue.consumer(None)
    assert queue.dispatcher.wants()
    plain.credit.stop()
    assert not queue.dispatcher.wants()


def test_a_consumer_without_one_wants_as_ever_beside_one_that_has():
    queue = Queue()
    queue.send("a", "b")
    queue.consumer("b")
    queue.consumer(None)
    assert sorted(queue.give(order=False)) == ["1:b", "2:a"]
    assert queue.dispatcher.wants(), "what is taken may come back"


@pytest.mark.parametrize("acquire", [True, False])
def test_a_drain_is_answered_when_nothing_is_left_that_is_wanted(acquire):
    queue = Queue(looks=10)
    queue.send(*(f"a{i}" for i in range(25)))
    consumer = queue.consumer("b")
    consumer.drain(False)
    for answered in ([], [], [consumer]):
        queue.give(acquire)
        assert queue.dispatcher.drained(acquire) == (answered, [])
    assert consumer.credit.messages == 0


def test_a_drain_waits_for_what_is_wanted():
    queue = Queue()
    queue.send("a", "b")
    consumer = queue.consumer("b")
    consumer.drain(False)
    queue.give(acquire=False)
    assert queue.dispatcher.drained(False) == ([], []), "the lock is elsewhere, and what is wanted is here"
    assert queue.give(order=False) == ["1:b"]
    assert queue.dispatcher.drained(False) == ([], []), "it may come back"
    queue.dispatcher.taken = RangeSet()
    queue.state.apply(Acquire("b1", 1, 1, [1, 2, 2]))
    assert queue.dispatcher.drained(False) == ([consumer], [])


def test_without_the_lock_a_plain_consumer_is_drained_as_ever():
    queue = Queue()
    queue.send("a", "b")
    queue.consumer("b").credit.stop()
    consumer = queue.consumer(None)
    assert queue.give(order=False) == ["2:a", "2:b"]
    consumer.drain(False)
    assert queue.dispatcher.drained(False) == ([], [])


@pytest.mark.parametrize("everything", [False, True])
def test_browsers(everything):
    queue = Queue()
    queue.send("a1", "b1", "b2")
    queue.consumer("b", 1)
    assert queue.give() == ["1:b1"]
    queue.consumer("b", browse=True, everything=everything)
    assert queue.give() == (["2:b1", "2:b2"] if everything else ["2:b2"])


def test_priorities_and_turns_hold_among_what_is_wanted():
    queue = Queue(QueueSettings(priorities=10))
    queue.send("b1", "a1", priority=1)
    queue.send("a9", "b9", "b8", priority=9)
    consumer = queue.consumer("b")
    assert queue.give() == ["1:b9", "1:b8", "1:b1"] and len(queue.looks()) == 5
    queue.send("a5", "b5", priority=5)
    assert queue.give() == ["1:b5"] and queue.looks() == ["a5", "b5"]
    queue.release(consumer)
    assert queue.give() == ["1:b9", "1:b8", "1:b5", "1:b1"]
    queue = Queue(QueueSettings(fair_key="tenant"))
    queue.send("a1", "a2", "xa", "b1", "a3")
    queue.consumer("a")
    queue.consumer("b")
    assert sorted(queue.give()) == ["1:a1", "1:a2", "1:a3", "2:b1"]


def test_credit_in_bytes_counts_for_what_is_wanted():
    queue = Queue()
    queue.send("a" * 100, "b1", "b2")
    consumer = queue.consumer("b", 0)
    consumer.credit.grant(10, len(queue.state.blobs[2]))
    assert queue.dispatcher.wants() and queue.give() == ["1:b1"]
    assert not queue.dispatcher.wants()
