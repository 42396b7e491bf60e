"""The seam of a queue's policies, alone: the plain ones, and toys of another kind that plug in (`toy_policies.py`)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest
from mantamq.protocol.queue.allocator import AnyConsumer
from mantamq.protocol.queue.credit import UNLIMITED
from mantamq.protocol.queue.delivery_order import Everything, Fifo
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.policies import Policies, policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.queue.subscription import Subscription
from mantamq.protocol.ranges import RangeSet, runs
from mantamq.protocol.wire.events import Accept, Acquire, Enqueue, Own, Purge, Release

from tests.unit import toy_policies

Kind = Callable[[QueueState, QueueSettings], Policies]


class Queue:
    """A queue whose lock b1 holds, and the dispatch of its messages there."""

    def __init__(self, kind: Kind = policies_of) -> None:
        self.state = QueueState("q#1")
        policies = kind(self.state, QueueSettings())
        for policy in policies.of_state:
            self.state.include(policy)
        self.dispatcher = Dispatcher(self.state, policies.order, policies.allocator)
        self.acquisitions = count(1)
        self.state.apply(Own("b1", 1))

    def send(self, *blobs: bytes) -> None:
        self.state.apply(Enqueue("", [], list(blobs)))

    def consumer(self, id: int = 1, credit: int = 100, browse: bool = False, everything: bool = False) -> Subscription:
        subscription = self.dispatcher.subscribe(id, browse, not browse, everything)
        subscription.credit.grant(credit, UNLIMITED)
        return subscription

    def run(self) -> list[tuple[int, bytes]]:
        """Deliver and order the acquires: (consumer, message)."""
        delivered, _ = self.dispatcher.run(True, self.acquisitions)
        found = []
        for one in delivered:
            found += [(one.subscription.id, self.state.blobs[p]) for a, b in one.parts for p in range(a, b + 1)]
            if one.acquisition:
                acquired = [n for a, b in one.parts for n in (one.acquisition, a, b)]
                self.state.apply(Acquire("b1", 1, 1, acquired))
                for _, first, last in runs(acquired):
                    self.dispatcher.taken.remove(first, last)
        return found

    def held(self, consumer: Subscription) -> list[int]:
        held = [n for a, parts in consumer.held.items() for first, last in parts for n in (a, first, last)]
        consumer.held.clear()
        return held

    def accept(self, consumer: Subscription) -> None:
        self.state.apply(Accept("b1", 1, self.held(consumer)))

    def release(self, consumer: Subscription) -> None:
        self.dispatcher.returned(self.state.apply(Release("b1", 1, self.held(consumer))).positions)

    def copy(self, kind: Kind) -> Queue:
        """Another replica, brought up to date."""
        other = Queue(kind)
        other.state.restore(self.state.snapshot())
        other.state.fill(dict(self.state.blobs))
        return other


def bodies(found: list[tuple[int, bytes]]) -> list[bytes]:
    return [blob for _, blob in found]


# ---- the plain ones


def test_a_plain_queue_is_first_in_first_out_for_any_consumer():
    policies = policies_of(QueueState("q#1"), QueueSettings())
    assert (type(policies.order), type(policies.allocator), policies.of_state) == (Fifo, AnyConsumer, ())


def test_first_in_first_out():
    available = RangeSet([3, 5, 8, 8])
    order = Fifo(available)
    place = order.start(False)
    assert order.next(place) == (3, 5)
    place = order.behind(place, 4)
    assert order.next(place) == (5, 5)
    place = order.behind(place, 8)
    assert order.next(place) is None
    assert order.next(order.back(place, [(5, 5), (7, 7)])) == (5, 5) and order.back(2, [(5, 5)]) == 2


def test_a_rescue_sees_what_others_hold():
    queue = Queue()
    queue.send(b"1", b"2")
    queue.consumer()
    assert bodies(queue.run()) == [b"1", b"2"]
    queue.consumer(2, browse=True)
    queue.consumer(3, browse=True, everything=True)
    assert queue.run() == [(3, b"1"), (3, b"2")]
    assert Everything(queue.state).next(2) == (2, 2)


def test_any_consumer_may_take_any_message():
    assert AnyConsumer().allowed(Queue().consumer(), 2, 5) == (2, 5)


# ---- an order


def test_another_order_plugs_in():
    queue = Queue(toy_policies.priority)
    queue.send(b"1a", b"9b", b"5c", b"9d")
    consumer = queue.consumer(credit=3)
    assert bodies(queue.run()) == [b"9b", b"9d", b"5c"]
    queue.send(b"7e")
    consumer.credit.grant(1, UNLIMITED)
    assert bodies(queue.run()) == [b"7e"], "it is before what was offered already"
    queue.release(consumer)
    consumer.credit.grant(9, UNLIMITED)
    assert bodies(queue.run()) == [b"9b", b"9d", b"7e", b"5c", b"1a"]
    queue.accept(consumer)
    assert not queue.state.blobs and queue.run() == []


def test_an_order_may_show_browsers_another():
    queue = Queue(toy_policies.priority)
    queue.send(b"1a", b"9b")
    queue.consumer(browse=True)
    assert bodies(queue.run()) == [b"1a", b"9b"]


def test_an_order_survives_an_update():
    queue = Queue(toy_policies.priority)
    queue.send(b"1a", b"9b", b"5c")
    other = queue.copy(toy_policies.priority)
    other.consumer()
    assert bodies(other.run()) == [b"9b", b"5c", b"1a"]


def test_two_consumers_share_by_the_order():
    queue = Queue(toy_policies.priority)
    queue.send(b"1a", b"9b", b"5c", b"8d")
    queue.consumer(1), queue.consumer(2)
    assert queue.run() == [(1, b"9b"), (1, b"8d"), (2, b"5c"), (2, b"1a")]


# ---- an allocator


def test_an_allocator_keeps_a_group_with_one_consumer():
    queue = Queue(toy_policies.groups)
    one, two = queue.consumer(1, credit=2), queue.consumer(2)
    queue.send(b"a1", b"b1", b"a2", b"c1")
    assert queue.run() == [(1, b"a1"), (1, b"b1"), (2, b"c1")]
    one.credit.grant(1, UNLIMITED)
    assert queue.run() == [(1, b"a2")]
    queue.send(b"b2", b"c2")
    assert queue.run() == [(2, b"c2")], "b is with the first, which has no credit"
    queue.accept(one)
    assert queue.run() == [(2, b"b2")], "it was refused before, and is offered again"
    queue.release(two)
    assert sorted(bodies(queue.run())) == [b"b2", b"c1", b"c2"]


def test_an_allocator_is_asked_when_a_consumer_drains():
    queue = Queue(toy_policies.groups)
    queue.consumer(1, credit=1)
    queue.send(b"a1", b"a2")
    assert queue.run() == [(1, b"a1")]
    two = queue.consumer(2)
    two.drain(sure=False)
    assert queue.dispatcher.drained(acquire=True) == ([two], []), "there is nothing for it"


# ---- policies that are part of the state

OBSERVED = {
    "ring": (toy_policies.ring, [b"b2", b"c1"]),
    "last value": (toy_policies.last_value, [b"a2", b"b2", b"c1"]),
    "priority and ring": (toy_policies.priority_ring, [b"b2", b"c1"]),
}


@pytest.mark.parametrize("kind", OBSERVED)
def test_new_messages_displace_others_alike_on_every_replica(kind):
    policies, left = OBSERVED[kind]
    queue = Queue(policies)
    queue.send(b"a1", b"b1", b"a2")
    other = queue.copy(policies)
    for replica in (queue, other):
        replica.send(b"b2", b"c1")
    assert [queue.state.blobs[p] for a, b in queue.state.available for p in range(a, b + 1)] == left
    assert queue.state.bytes == sum(map(len, left)) and queue.state.discarded == 5 - len(left)
    assert queue.state.digest() == other.state.digest()


def test_a_message_displaced_under_its_delivery_is_not_acquired():
    queue = Queue(toy_policies.ring)
    queue.send(b"1", b"2")
    consumer = queue.consumer(credit=1)
    delivered, _ = queue.dispatcher.run(True, queue.acquisitions)
    queue.send(b"3", b"4")
    done = queue.state.apply(Acquire("b1", 1, 1, [delivered[0].acquisition, 1, 1]))
    assert done.positions == [] and queue.state.apply(Accept("b1", 1, queue.held(consumer))).lost == [1, 1, 1]


def test_a_policy_of_the_state_is_told_of_its_kinds_only():
    class Counting(toy_policies.Ring):
        events = (Enqueue, Purge)
        told: list[type] = []

        def applied(self, event, done, /):
            self.told.append(type(event))

    state = QueueState("q#1")
    state.include(Counting(state))
    for event in (Own("b1", 1), Enqueue("", [], [b"x"]), Acquire("b1", 1, 1, [1, 1, 1]), Purge(0)):
        state.apply(event)
    assert Counting.told == [Enqueue, Purge]
