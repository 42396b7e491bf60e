"""Orders in turns are asked for many messages at once: they are those that come one by one."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mantamq.client import Message
from mantamq.protocol.limits import DEFAULT, Limits
from mantamq.protocol.queue.credit import UNLIMITED
from mantamq.protocol.queue.dispatch import Delivered, Dispatcher
from mantamq.protocol.queue.parted import Parted
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.ranges import RangeSet, pairs
from mantamq.protocol.wire.events import Acquire, Enqueue, Expire, Own, Release
from mantamq.protocol.wire.message import encode

KINDS: list[dict[str, Any]] = [
    {"priorities": 10}, {"fair_key": "t"}, {"priorities": 10, "fairshare": 2},
    {"priorities": 3, "fairshare": 3, "fairshare_of": {0: 0, 2: 1}},
]  # fmt: skip


class Queue:
    """One of a kind, of which b1 has the lock. With `singly`, its order is asked for one range after the other."""

    def __init__(self, kind: dict[str, Any], singly: bool = False, limits: Limits = DEFAULT) -> None:
        self.state = QueueState("q#1")
        policies = policies_of(self.state, QueueSettings(**kind))
        for policy in policies.of_state:
            self.state.include(policy)
        self.dispatcher = Dispatcher(self.state, policies.order, policies.allocator, limits=limits)
        if singly:
            self.dispatcher._in_turns = None
        self.acquisitions, self.subs = count(1), count(1)
        self.state.apply(Own("b1", 1))

    def send(self, values: list[int], size: int = 0) -> None:
        blobs = [encode(Message(b"x" * size, priority=n, properties={"t": f"{n}"})) for n in values]
        self.state.apply(Enqueue("", [], blobs))

    def subscribe(self, messages: int, most_bytes: int = UNLIMITED) -> int:
        subscription = self.dispatcher.subscribe(next(self.subs), False, True)
        subscription.credit.grant(messages, most_bytes)
        return subscription.id

    def run(self) -> list[Delivered]:
        return self.dispatcher.run(True, self.acquisitions)[0]

    def acquire(self, delivered: list[Delivered]) -> None:
        for one in delivered:
            self.state.apply(Acquire("b1", 1, 1, [n for a, b in one.ranges for n in (one.acquisition, a, b)]))
            for first, last in one.ranges:
                self.dispatcher.taken.remove(first, last)

    def release(self, one: Delivered) -> None:
        self.state.apply(Release("b1", 1, [n for a, b in one.ranges for n in (one.acquisition, a, b)]))
        self.dispatcher.returned(one.ranges)


def positions(one: Delivered) -> list[int]:
    return [position for first, last in one.parts for position in range(first, last + 1)]


def said(delivered: list[Delivered]) -> list[tuple[int, int, list[int]]]:
    return [(one.subscription.id, one.acquisition, positions(one)) for one in delivered]


steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.lists(st.integers(0, 9), min_size=1, max_size=30)),
        st.tuples(st.just("subscribe"), st.integers(1, 25)),
        st.tuples(st.just("acquire"), st.none()),
        st.tuples(st.just("release"), st.none()),
        st.tuples(st.just("purge"), st.integers(1, 60)),
    ),
    max_size=25,
)


@pytest.mark.parametrize("kind", KINDS)
@given(steps)
@settings(deadline=None)
def test_many_at_once_are_those_that_come_one_by_one(kind: dict[str, Any], steps: list[tuple[str, Any]]):
    at_once, singly = Queue(kind), Queue(kind, singly=True)
    outs: list[list[list[Delivered]]] = [[], []]  # delivered and not acquired
    held: list[list[Delivered]] = [[], []]
    for what, value in steps:
        for queue, out, has in zip((at_once, singly), outs, held, strict=True):
            if what == "send":
                queue.send(value)
            elif what == "subscribe":
                queue.subscribe(value)
            elif what == "acquire" and out:
                queue.acquire(out[0])
                has += out.pop(0)
            elif what == "release" and has:
                queue.release(has.pop())
            elif what == "purge":
                queue.state.discard([p for p in queue.state.available.within(value, value) if not out])
            if given := queue.run():
                out.append(given)
        assert [said(given) for given in outs[0]] == [said(given) for given in outs[1]]
        assert at_once.dispatcher.taken == singly.dispatcher.taken
        assert at_once.state.digest() == singly.state.digest()
        for queue in (at_once, singly):
            available = queue.state.available
            assert isinstance(available, Parted) and all(available.parts.values())
            together = RangeSet()
            for waiting in available.parts.values():
                for first, last in waiting:
                    assert not together.within(first, last)
                    together.add(first, last)
            assert together == RangeSet(available.flat()), "each is in one part, and in none that is gone"


@pytest.mark.parametrize("kind", KINDS)
def test_what_goes_at_once_is_acquired_as_few_ranges(kind: dict[str, Any]):
    queue = Queue(kind)
    queue.send([n // 2 for n in range(20)] * 2)
    sub = queue.subscribe(100)
    (one,) = queue.run()
    assert len(one.parts) >= 10 and one.ranges == [(1, 40)] == list(queue.dispatcher.taken)
    assert queue.dispatcher.subscriptions[sub].held == {one.acquisition: RangeSet([1, 40])}
    frame = one.frame(queue.state)
    assert [p for a, b in pairs(frame.ranges) for p in range(a, b + 1)] == positions(one) != list(range(1, 41))
    assert frame.blobs == [queue.state.blobs[position] for position in positions(one)]


@pytest.mark.parametrize("kind", KINDS)
def test_byte_credit_and_the_size_of_a_frame_bound_what_goes_at_once(kind: dict[str, Any]):
    for limits, most_bytes in ((DEFAULT, 1_000), (Limits(deliver_bytes=1_000), UNLIMITED)):
        at_once, singly = Queue(kind, limits=limits), Queue(kind, singly=True, limits=limits)
        for queue in (at_once, singly):
            queue.send(list(range(10)) * 2, size=200)
            queue.subscribe(15, most_bytes)
        found = said(at_once.run())
        assert found == said(singly.run()) and len(found[0][2]) == 4


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_about_to_expire_is_not_given(kind: dict[str, Any]):
    queue = Queue(kind)
    queue.send([1, 2, 3])
    queue.dispatcher.expiring.add(2, 2)
    queue.subscribe(5)
    assert 2 not in positions(queue.run()[0])
    queue.state.apply(Expire(0, [2, 2]))
