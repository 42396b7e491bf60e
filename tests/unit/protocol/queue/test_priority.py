"""Priorities alone: which level a message is of, and in which order they go."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.client import Message
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.priority_levels import level_rule
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.queue.traits import trait_of
from mantamq.protocol.wire.events import Acquire, Enqueue, Own, Release
from mantamq.protocol.wire.message import encode


class Queue:
    """One with levels, of which b1 has the lock."""

    def __init__(self, **settings: Any) -> None:
        self.settings = QueueSettings(**settings)
        self.state = QueueState("q#1")
        self.policies = policies_of(self.state, self.settings)
        for policy in self.policies.of_state:
            self.state.include(policy)
        self.state.apply(Own("b1", 1))

    def send(self, *priorities: int | None, told: bool = True, client: str = "", numbers: tuple[int, int] = (0, 0)):
        blobs = [encode(Message(b"", priority=priority)) for priority in priorities]
        trait = trait_of(self.settings)
        assert trait is not None
        traits = [trait(blob) for blob in blobs] if told else []
        return self.state.apply(Enqueue(client, list(numbers) if client else [], blobs, [], traits))

    def order(self) -> list[int]:
        """Positions, in the order in which a new consumer is offered them."""
        order, place, found = self.policies.order, self.policies.order.start(False), list[int]()
        while (part := order.next(place)) is not None:
            found += range(part[0], part[1] + 1)
            place = order.behind(place, part[1])
        return found


@pytest.mark.parametrize(
    ("levels", "wanted"),
    [
        (2, [0, 0, 0, 0, 0, 1, 1, 1, 1, 1]),
        (3, [0, 0, 0, 0, 1, 2, 2, 2, 2, 2]),
        (5, [0, 0, 0, 1, 2, 3, 4, 4, 4, 4]),
        (10, list(range(10))),
    ],
)
def test_fewer_levels_than_priorities_keep_the_middle_apart(levels: int, wanted: list[int]):
    rule = level_rule(levels, 0)
    assert rule is not None and [rule(priority) for priority in range(10)] == wanted
    assert rule(None) == rule(4) and rule(10**9) == levels - 1 and rule(-(10**9)) == 0


def test_the_other_rule_has_a_level_for_each_priority_and_none_is_the_lowest():
    rule = level_rule(0, 5)
    assert rule is not None
    assert [rule(priority) for priority in (None, 0, 1, 5, 6, 255, -1)] == [0, 0, 1, 5, 5, 5, 0]


def test_one_level_is_no_level():
    assert level_rule(1, 0) is None and level_rule(0, 0) is None
    assert Queue().policies.of_state == () == Queue(priorities=1).policies.of_state


@pytest.mark.parametrize("told", [True, False])
def test_the_highest_goes_first_and_in_a_level_the_oldest(told: bool):
    queue = Queue(priorities=10)
    queue.send(0, 9, 4, told=told)
    queue.send(9, 9, None, 0, told=told)
    assert queue.order() == [2, 4, 5, 3, 6, 1, 7]


def test_what_comes_back_is_in_its_old_place():
    queue = Queue(priorities=10)
    queue.send(1, 9, 9, 5)
    queue.state.apply(Acquire("b1", 1, 1, [1, 2, 3]))
    assert queue.order() == [4, 1]
    queue.state.apply(Release("b1", 1, [1, 3, 3, 1, 2, 2]))
    assert queue.order() == [2, 3, 4, 1]


def test_a_copy_goes_on_in_the_same_order():
    queue, copy = Queue(priorities=3), Queue(priorities=3)
    queue.send(1, 9, 4, 9)
    copy.state.restore(queue.state.snapshot())
    copy.state.fill(dict(queue.state.blobs))
    for one in (queue, copy):
        one.send(9, 0)
    assert copy.order() == queue.order() == [2, 4, 5, 3, 1, 6]
    assert copy.state.digest() == queue.state.digest()


def test_of_a_partly_repeated_enqueue_the_new_ones_have_their_own_levels():
    queue = Queue(priorities=10)
    queue.send(9, 9, client="c/1", numbers=(1, 2))
    queue.send(9, 9, 1, 8, client="c/1", numbers=(1, 4))
    assert queue.order() == [1, 2, 4, 3]


def test_levels_of_messages_that_are_gone_are_forgotten():
    queue = Queue(priorities=10)
    for round in range(40):
        queue.send(*range(10), *range(10), *range(10), *range(10), *range(10))
        queue.state.apply(Acquire("b1", 1, 1, [round + 1, 1, 50 * (round + 1)], True))
    assert not queue.state.blobs and len(queue.state.available._part_of) <= 1_100  # pyright: ignore


@pytest.mark.parametrize("priority", ["high", [1], b"9", 4.5])
def test_a_priority_that_is_none_is_that_of_a_message_without(priority: Any):
    trait = trait_of(QueueSettings(priorities=10))
    assert trait is not None
    assert trait(encode(Message(b"", priority=priority))) == 4 == trait(b"no message at all")


def test_from_a_full_ring_the_lowest_level_goes_there_the_oldest():
    queue = Queue(priorities=10, max_count=4, overflow="ring")
    queue.send(5, 1, 9, 1)
    queue.state.apply(Acquire("b1", 1, 1, [1, 2, 3]))
    assert queue.send(9).dropped == [(2, 2, True)]
    assert queue.send(5).dropped == [(4, 4, False)]
    assert queue.send(0).dropped == [(7, 7, False)], "the newest is the lowest"
    assert queue.send(9).dropped == [(1, 1, False)]
    assert sorted(queue.state.blobs) == [3, 5, 6, 8]
