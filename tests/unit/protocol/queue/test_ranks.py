"""Consumers of a higher priority come first (`protocol/queue/ranks.py`)."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from mantamq.client import Message
from mantamq.protocol.limits import DEFAULT, Limits
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.ranks import rank
from mantamq.protocol.queue.selector import selector
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.wire.events import Acquire, Enqueue, Own
from mantamq.protocol.wire.message import encode
from msgspec.structs import replace


class Queue:
    """A queue of which b1 has the lock; consumers of it are named by their priorities."""

    def __init__(self, limits: Limits = DEFAULT, **kind: Any) -> None:
        self.state = QueueState("q#1")
        policies = policies_of(self.state, QueueSettings(**kind))
        for policy in policies.of_state:
            self.state.include(policy)
        self.dispatcher = Dispatcher(self.state, policies.order, policies.allocator, limits=limits)
        self.acquisitions, self.subs = count(1), count(1)
        self.state.apply(Own("b1", 1))

    def comes(self, priority: int, messages: int, browse: bool = False, wants: str = "") -> int:
        wanted = selector(wants) if wants else None
        subscription = self.dispatcher.subscribe(next(self.subs), browse, True, wanted=wanted)
        rank(self.dispatcher, subscription, priority)
        subscription.credit.grant(messages, -1)
        return subscription.id

    def send(self, messages: int) -> None:
        self.state.apply(Enqueue("", [], [encode(Message(b"x", properties={"n": n})) for n in range(messages)]))

    def run(self) -> list[tuple[int, list[int]]]:
        """(consumer, positions) in the order of delivery."""
        delivered, self.more = self.dispatcher.run(True, self.acquisitions)
        for one in delivered:
            if one.acquisition:
                self.state.apply(Acquire("b1", 1, 1, [n for a, b in one.ranges for n in (one.acquisition, a, b)]))
            for first, last in one.ranges:
                self.dispatcher.taken.remove(first, last)
        return [(d.subscription.id, [p for a, b in d.parts for p in range(a, b + 1)]) for d in delivered]


def test_the_higher_one_first_while_it_has_credit():
    queue = Queue()
    low, high = queue.comes(0, 10), queue.comes(7, 2)
    queue.send(3)
    assert queue.run() == [(high, [1, 2]), (low, [3])]
    queue.send(2)
    assert queue.run() == [(low, [4, 5])]
    queue.dispatcher.subscriptions[high].credit.grant(5, -1)
    queue.send(2)
    assert queue.run() == [(high, [6, 7])] and not queue.more


def test_a_negative_one_comes_last_and_several_ranks_in_their_order():
    queue = Queue()
    last, plain, first = queue.comes(-1, 9), queue.comes(0, 1), queue.comes(2, 1)
    queue.send(5)
    assert queue.run() == [(first, [1]), (plain, [2]), (last, [3, 4, 5])]


def test_of_the_same_priority_they_take_turns():
    queue = Queue()
    one, other, low = queue.comes(5, 100), queue.comes(5, 100), queue.comes(0, 100)
    queue.send(10)
    assert [(who, len(got)) for who, got in queue.run()] == [(one, 5), (other, 5)]
    turns = []
    for _ in range(4):
        queue.send(1)
        turns += [who for who, _ in queue.run()]
    assert sorted(turns) == [one, one, other, other] and turns[:2] != [one, one] and low not in turns


@pytest.mark.parametrize("why", ["it waits for its release", "it does not want them", "it has too few bytes"])
def test_who_cannot_take_them_is_passed_over(why):
    queue = Queue()
    low, high = queue.comes(0, 10), queue.comes(7, 10, wants="n > 5" if "want" in why else "")
    subscription = queue.dispatcher.subscriptions[high]
    if "release" in why:
        queue.dispatcher.releasing(high)
    elif "bytes" in why:
        subscription.credit.bytes = 1
    queue.send(3)
    assert queue.run() == [(low, [1, 2, 3])]


def test_browsers_do_not_wait_for_anybody():
    queue = Queue(limits=replace(DEFAULT, run_messages=4))
    browser, _high = queue.comes(0, 100, browse=True), queue.comes(7, 100)
    queue.send(20)
    assert browser in [who for who, _ in queue.run()] and queue.more


def test_a_run_is_bounded():
    queue = Queue(limits=replace(DEFAULT, run_messages=10))
    for priority in range(40):
        queue.comes(priority, 9)
    queue.send(360)
    given = 0
    while True:
        got = sum(len(positions) for _, positions in queue.run())
        assert got <= 20
        given += got
        if not queue.more:
            break
    assert given == 360


def test_what_is_taken_and_gone_does_not_hide_what_there_is():
    """Who has credit gets all there is, though it looks as if nothing were left."""
    queue = Queue()
    low, high = queue.comes(0, 10), queue.comes(7, 10)
    queue.send(3)
    queue.state.apply(Acquire("b1", 1, 1, [99, 1, 1]))
    queue.dispatcher.taken.add(1, 1)
    delivered, _ = queue.dispatcher.run(True, queue.acquisitions)
    assert {one.subscription.id for one in delivered} == {high} and low


def test_nobody_pays_where_all_have_the_same():
    queue = Queue()
    queue.comes(0, 1)
    assert "run" not in vars(queue.dispatcher)
    queue.comes(1, 1)
    assert "run" in vars(queue.dispatcher)


def test_groups_go_with_priorities():
    queue = Queue(group_key="n")
    low, high = queue.comes(0, 10), queue.comes(7, 1)
    queue.send(2)
    assert queue.run() == [(high, [1]), (low, [2])]
