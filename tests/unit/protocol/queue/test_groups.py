"""Message groups alone, with dispatch: whose a group is, and what a message that waits for that costs."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from mantamq.client import Message
from mantamq.protocol.queue.credit import UNLIMITED
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.groups import MessageGroups
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.queue.subscription import Subscription
from mantamq.protocol.ranges import runs
from mantamq.protocol.wire.events import Accept, Acquire, AnyEvent, Enqueue, Evict, Expire, Own, Purge, Reject, Release
from mantamq.protocol.wire.message import encode


class Queue:
    """A queue by the groups of "g", at its owner b1."""

    def __init__(self, **settings: Any) -> None:
        self.state = QueueState("q#1", settings.get("alternate", ""))
        policies = policies_of(self.state, QueueSettings(group_key="g", **settings))
        for policy in policies.of_state:
            self.state.include(policy)
        assert isinstance(policies.allocator, MessageGroups)
        self.groups = policies.allocator
        self.dispatcher = Dispatcher(self.state, policies.order, policies.allocator)
        self._acquisitions = count(1)
        self._ids = count(1)
        self.state.apply(Own("b1", 1))

    def send(self, groups: str) -> None:
        """A message for each letter; "." is of no group."""
        blobs = [encode(Message(b"", properties={} if group == "." else {"g": group})) for group in groups]
        self.state.apply(Enqueue("", [], blobs))

    def consumer(self, credit: int = 100, accept: bool = True) -> Subscription:
        subscription = self.dispatcher.subscribe(next(self._ids), False, accept)
        subscription.credit.grant(credit, UNLIMITED)
        return subscription

    def run(self, ordered: bool = True) -> dict[int, list[int]]:
        """Deliver: consumer -> positions; and order the acquires."""
        found: dict[int, list[int]] = {}
        delivered, _ = self.dispatcher.run(True, self._acquisitions)
        for one in delivered:
            here = [p for first, last in one.parts for p in range(first, last + 1)]
            found.setdefault(one.subscription.id, []).extend(here)
            if ordered:
                self.acquire([n for a, b in one.parts for n in (one.acquisition, a, b)], not one.subscription.accept)
        return found

    def acquire(self, acquired: list[int], accepted: bool = False) -> None:
        self.state.apply(Acquire("b1", 1, 1, acquired, accepted))
        for _, first, last in runs(acquired):
            self.dispatcher.taken.remove(first, last)

    def settle(self, kind: Any, consumer: Subscription, *positions: int) -> None:
        settled = []
        for acquisition, held in list(consumer.held.items()):
            for position in positions:
                if position in held:
                    settled += (acquisition, position, position)
                    held.remove(position, position)
        self.event(kind("b1", 1, settled))

    def event(self, event: AnyEvent) -> None:
        done = self.state.apply(event)
        if isinstance(event, Release | Evict):
            self.dispatcher.returned(done.positions)


def test_a_group_is_of_one_consumer_until_it_has_settled_all_it_holds():
    queue = Queue()
    one, other = queue.consumer(2), queue.consumer(2)
    queue.send("ab")
    assert queue.run() == {1: [1], 2: [2]}
    queue.send("aabb")
    assert queue.run() == {1: [3], 2: [5]}
    one.credit.grant(10, UNLIMITED)
    assert queue.run() == {1: [4]}, "6 is of the other's group"
    queue.settle(Accept, other, 2)
    assert queue.run() == {}, "it holds 5 still"
    queue.settle(Accept, other, 5)
    assert queue.run() == {1: [6]}


def test_what_waits_blocks_its_own_group_only():
    queue = Queue()
    queue.consumer(1), queue.consumer()
    queue.send("aaaaabcab")
    assert queue.run() == {1: [1], 2: [6, 7, 9]}


def test_no_group_is_a_group():
    queue = Queue()
    queue.consumer(1), queue.consumer()
    queue.send("..a.")
    assert queue.run() == {1: [1], 2: [3]}


def test_a_group_goes_in_order_whoever_passed_over_it():
    queue = Queue()
    one, other = queue.consumer(1), queue.consumer(1)
    queue.send("abaaba")
    assert queue.run() == {1: [1], 2: [2]}
    other.credit.grant(1, UNLIMITED)
    assert queue.run() == {2: [5]}
    queue.settle(Accept, one, 1)
    other.credit.grant(10, UNLIMITED)
    assert queue.run() == {2: [3, 4, 6]}


def test_what_is_released_comes_before_what_is_behind_it():
    queue = Queue()
    one, other = queue.consumer(2), queue.consumer(0)
    queue.send("aaa")
    assert queue.run() == {1: [1, 2]}
    other.credit.grant(10, UNLIMITED)
    assert queue.run() == {}
    queue.settle(Release, one, 1)
    assert queue.run() == {}, "2 is held still"
    queue.settle(Release, one, 2)
    assert queue.run() == {2: [1, 2, 3]}


def test_its_own_release_comes_back_to_the_consumer_that_holds_the_rest():
    queue = Queue()
    one = queue.consumer()
    queue.consumer()
    queue.send("aaa")
    assert queue.run() == {1: [1, 2, 3]}
    queue.settle(Release, one, 2)
    assert queue.run() == {1: [2]}


def test_rejected_and_unsettled_messages_free_their_group():
    queue = Queue()
    one = queue.consumer(1)
    queue.send("aa")
    assert queue.run() == {1: [1]}
    queue.consumer(1, accept=False)
    assert queue.run() == {}
    queue.settle(Reject, one, 1)
    assert queue.run() == {2: [2]}
    queue.send("a")
    one.credit.grant(1, UNLIMITED)
    assert queue.run() == {1: [3]}


def test_until_its_acquire_is_ordered_a_group_is_taken_all_the_same():
    queue = Queue()
    queue.consumer(1), queue.consumer(1)
    queue.send("aa")
    assert queue.run(ordered=False) == {1: [1]}
    assert queue.run(ordered=False) == {}


def test_an_acquire_that_is_void_frees_the_group():
    queue = Queue()
    queue.consumer(1), queue.consumer(1)
    queue.send("aa")
    assert queue.run(ordered=False) == {1: [1]}
    queue.dispatcher.taken.remove(1, 1)
    queue.dispatcher.returned([(1, 1)])
    assert queue.run() == {2: [1]}


def test_a_void_acquire_of_what_is_gone_and_forgotten_harms_nobody():
    queue = Queue()
    queue.consumer(1)
    queue.send("a")
    assert queue.run(ordered=False) == {1: [1]}
    queue.event(Purge(0))
    for _ in range(30):
        queue.send("b" * 50)
        queue.event(Purge(0))
    assert 1 not in queue.groups._group_of  # pyright: ignore
    queue.dispatcher.taken.remove(1, 1)
    queue.dispatcher.returned([(1, 1)])
    assert not queue.groups._owners  # pyright: ignore


def test_what_others_hold_elsewhere_is_theirs():
    queue = Queue()
    queue.send("aab")
    queue.state.apply(Acquire("b1", 1, 1, [77, 1, 1]))
    queue.state.apply(Own("b2", 2, "b1"))
    queue.state.apply(Own("b1", 3, "b2"))
    queue.consumer()
    assert queue.run(ordered=False) == {1: [3]}
    queue.event(Evict("b1", 0))
    assert queue.run(ordered=False) == {}
    queue.state.apply(Accept("b1", 1, [77, 1, 1]))
    assert queue.run(ordered=False) == {1: [2]}


def test_an_eviction_frees_what_the_evicted_held():
    queue = Queue()
    queue.send("aa")
    queue.state.apply(Acquire("b1", 1, 1, [77, 1, 1]))
    queue.state.apply(Own("b2", 2, "b1"))
    queue.consumer()
    assert queue.run(ordered=False) == {}
    queue.event(Evict("b1", 1))
    assert queue.run(ordered=False) == {1: [1, 2]}


@pytest.mark.parametrize("how", ["pushed out", "expired"])
def test_what_goes_to_the_alternate_before_its_acquire_is_ordered_frees_its_group(how):
    """The acquire is void then: nobody holds the message, and nobody ever settles it."""
    queue = Queue(alternate="lost", max_count=3, overflow="dead-letter", dead_letters="all")
    queue.consumer(2), queue.consumer()
    queue.state.apply(Enqueue("", [], [encode(Message(b"", properties={"g": "a"}))] * 2, [0, 100, 1, 100]))
    assert queue.run(ordered=False) == {1: [1, 2]}
    if how == "expired":
        queue.event(Expire(100, [1, 2]))
    else:
        queue.send("bbb")
    queue.send("a")
    queue.acquire([1, 1, 2])
    last = 3 if how == "expired" else 6
    assert queue.run()[2][-1] == last


def test_what_is_purged_or_dropped_frees_its_group():
    queue = Queue(max_count=3, overflow="ring")
    queue.consumer(1), queue.consumer(0)
    queue.send("aab")
    assert queue.run() == {1: [1]}
    queue.send("c")  # 1 goes, though it is held
    queue.dispatcher.subscriptions[2].credit.grant(1, UNLIMITED)
    assert queue.run() == {2: [2]}
    queue = Queue()
    queue.consumer(1), queue.consumer(0)
    queue.send("aa")
    assert queue.run(ordered=False) == {1: [1]}
    queue.event(Purge(1))
    queue.dispatcher.subscriptions[2].credit.grant(1, UNLIMITED)
    assert queue.run() == {2: [2]}


def test_a_copy_that_is_brought_up_to_date_knows_whose_a_group_is():
    queue, copy = Queue(), Queue()
    one = queue.consumer(1)
    queue.send("aab")
    queue.run()
    copy.state.restore(queue.state.snapshot())
    copy.state.fill(dict(queue.state.blobs))
    copy.consumer()
    assert copy.run(ordered=False) == {1: [3]}
    event = Accept("b1", 1, [1, 1, 1])
    copy.event(event)
    assert copy.run(ordered=False) == {1: [2]}
    blobs = dict(queue.state.blobs)
    queue.state.restore(queue.state.snapshot())  # in place, under its consumers
    queue.state.fill(blobs)
    queue.consumer()
    one.credit.grant(1, UNLIMITED)
    assert queue.run(ordered=False) == {1: [2], 2: [3]}


def test_what_waits_in_a_blocked_group_is_looked_at_once():
    """However often another group is delivered, and the blocked one changes hands."""
    queue = Queue()
    one, other = queue.consumer(1), queue.consumer(0)
    queue.send("a" * 20_000)
    queue.run()
    looked = 0
    allowed = queue.groups.allowed

    class Counting:
        def allowed(self, subscription: Subscription, first: int, last: int) -> tuple[int, int] | None:
            nonlocal looked
            looked += last - first + 1
            return allowed(subscription, first, last)

        def __getattr__(self, name: str) -> Any:
            return getattr(queue.groups, name)

    queue.dispatcher._allocator = Counting()  # pyright: ignore
    for number in range(50):
        queue.send("b")
        other.credit.grant(1, UNLIMITED)
        assert queue.run() == {2: [20_001 + number]}
        queue.settle(Accept, other, 20_001 + number)
    assert looked <= 20_000 + 200
    looked = 0
    for number in range(1, 50):
        queue.settle(Accept, one if number % 2 else other, number)
        (other if number % 2 else one).credit.grant(1, UNLIMITED)
        assert queue.run() == {1 + number % 2: [number + 1]}
    assert looked <= 20_000 + 200
    assert len(queue.groups._passed["a"]) < 10  # pyright: ignore


def test_groups_of_messages_that_are_gone_are_forgotten():
    queue = Queue()
    for round in range(40):
        queue.send("abcde" * 10)
        queue.acquire([round + 1, 1, 50 * (round + 1)], True)
    assert not queue.state.blobs and len(queue.groups._group_of) <= 1_100  # pyright: ignore
    assert not queue.groups._owners  # pyright: ignore


def test_a_name_that_many_messages_have_is_kept_once():
    """Names come with the frame, each message with its own copy."""
    queue = Queue()
    names = [bytes([103, 49 + number % 2] * 3).decode() for number in range(4)]
    assert names[0] is not names[2]
    queue.state.apply(Enqueue("", [], [encode(Message(b"")) for _ in names], traits=names))
    assert queue.groups.group_of(1) is queue.groups.group_of(3) != queue.groups.group_of(2)
