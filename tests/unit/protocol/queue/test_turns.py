"""Fairness by a header alone: its values take turns."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from mantamq.client import Message
from mantamq.protocol.queue.credit import UNLIMITED
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.parted import Parted
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.ranges import runs
from mantamq.protocol.wire.events import Acquire, Enqueue, Own, Release
from mantamq.protocol.wire.message import encode


class Queue:
    """A queue that is fair by "t", at its owner b1; messages are known by their positions."""

    def __init__(self, **settings: Any) -> None:
        self.state = QueueState("q#1")
        policies = policies_of(self.state, QueueSettings(fair_key="t", **settings))
        for policy in policies.of_state:
            self.state.include(policy)
        self.dispatcher = Dispatcher(self.state, policies.order, policies.allocator)
        self._acquisitions: Iterator[int] = count(1)
        self._ids = count(1)
        self.state.apply(Own("b1", 1))

    def send(self, values: str) -> None:
        blobs = [encode(Message(b"", properties={} if value == "." else {"t": value})) for value in values]
        self.state.apply(Enqueue("", [], blobs))

    def take(self, most: int, ordered: bool = True) -> list[int]:
        """A new consumer's first messages."""
        subscription = self.dispatcher.subscribe(next(self._ids), False, True)
        subscription.credit.grant(most, UNLIMITED)
        found: list[int] = []
        for one in self.dispatcher.run(True, self._acquisitions)[0]:
            found += [position for first, last in one.parts for position in range(first, last + 1)]
            if ordered:
                acquired = [n for a, b in one.parts for n in (one.acquisition, a, b)]
                self.state.apply(Acquire("b1", 1, 1, acquired))
                for _, first, last in runs(acquired):
                    self.dispatcher.taken.remove(first, last)
        return found


def test_values_take_turns_and_each_goes_in_its_order():
    queue = Queue()
    queue.send("aaaaabbc.")
    assert queue.take(100) == [1, 6, 8, 9, 2, 7, 3, 4, 5]


def test_the_next_consumer_goes_on_with_the_turn():
    queue = Queue()
    queue.send("aaabbb")
    assert queue.take(1) == [1]
    assert queue.take(2) == [4, 2]
    assert queue.take(10) == [5, 3, 6]


def test_what_another_has_been_given_is_nobodys_turn():
    queue = Queue()
    queue.send("aaab")
    assert queue.take(1, ordered=False) == [1]
    assert queue.take(10, ordered=False) == [4, 2, 3]


def test_who_comes_late_waits_for_one_turn_only():
    queue = Queue()
    queue.send("a" * 1000)
    queue.take(10)
    queue.send("bb")
    assert queue.take(5) == [11, 1001, 12, 1002, 13]


def test_what_comes_back_is_the_first_of_its_value():
    queue = Queue()
    queue.send("aabb")
    assert queue.take(3) == [1, 3, 2]
    queue.state.apply(Release("b1", 1, [1, 1, 1]))
    queue.dispatcher.returned([(1, 1)])
    assert queue.take(10) == [4, 1]


def test_a_copy_takes_turns_as_well():
    queue, copy = Queue(), Queue()
    queue.send("aaabc")
    copy.state.restore(queue.state.snapshot())
    copy.state.fill(dict(queue.state.blobs))
    copy.send("b")
    assert copy.take(10) == [1, 4, 5, 2, 6, 3]


def test_from_a_full_ring_the_oldest_goes_whosever_it_is():
    queue = Queue(max_count=3, overflow="ring")
    queue.send("aabb")
    assert queue.take(10) == [2, 3, 4] and sorted(queue.state.blobs) == [2, 3, 4]


def test_many_values_leave_nothing_behind():
    queue = Queue()
    for round in range(30):
        blobs = [encode(Message(b"", properties={"t": f"{round}/{n}"})) for n in range(100)]
        queue.state.apply(Enqueue("", [], blobs))
        assert len(queue.take(100)) == 100
        queue.state.discard([(100 * round + 1, 100 * round + 100)])
    available = queue.state.available
    assert isinstance(available, Parted) and len(available.parts) <= 1_200
