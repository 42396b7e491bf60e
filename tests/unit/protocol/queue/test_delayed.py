"""Delayed messages, as the stream is applied."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from mantamq.client import Message
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.level import count_in
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.snapshot import read_snapshot
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.wire.events import Accept, Acquire, Due, Enqueue, Evict, Expire, Modify, Own, Purge, Release
from mantamq.protocol.wire.message import encode


def queue(alternate: str = "", **settings: Any) -> QueueState:
    state = QueueState("q#1", alternate)
    for policy in policies_of(state, QueueSettings(alternate=alternate, **settings)).of_state:
        state.include(policy)
    state.apply(Own("b1", 1))
    return state


def come(state: QueueState, *blobs: bytes, delays: tuple[int, ...] = (), **more: Any) -> None:
    state.apply(Enqueue("", [], list(blobs), delays=list(delays), **more))


def copy_of(state: QueueState, **settings: Any) -> QueueState:
    copy = queue(**settings)
    copy.restore(read_snapshot(msgspec.msgpack.decode(msgspec.msgpack.encode(state.snapshot()))))
    copy.fill(dict(state.blobs))
    return copy


def test_a_delayed_message_is_in_the_queue_and_nobody_gets_it_before_it_is_due():
    state = queue()
    come(state, b"1", b"2", b"3", delays=(1, 500))
    assert state.available.flat() == [1, 1, 3, 3] and state.delayed.due == {2: 500}
    assert (count_in(state), state.live().flat(), state.enqueued) == (3, [1, 3], 3)
    assert state.apply(Acquire("b1", 1, 1, [1, 1, 3])).positions == [(1, 1), (3, 3)]
    assert state.apply(Due(499, [1, 9])).positions == [], "never early"
    assert state.apply(Due(500, [1, 9])).positions == [(2, 2)]
    assert state.apply(Due(500, [2, 2])).positions == [], "never twice"
    assert state.available.flat() == [2, 2] and not state.delayed
    assert state.apply(Acquire("b1", 1, 1, [2, 2, 2])).positions == [(2, 2)]
    state.apply(Accept("b1", 1, [1, 1, 1, 1, 3, 3, 2, 2, 2]))
    assert not state.blobs and not state.live()


def test_of_an_enqueue_that_is_known_in_part_the_new_ones_keep_their_delays():
    state = queue()
    state.apply(Enqueue("c", [1, 2], [b"1", b"2"], delays=[1, 700]))
    state.apply(Enqueue("c", [1, 4], [b"1", b"2", b"3", b"4"], delays=[1, 700, 3, 900]))
    assert state.delayed.due == {2: 700, 4: 900} and state.available.flat() == [1, 1, 3, 3]


def test_one_that_comes_back_may_be_delayed():
    state = queue()
    come(state, b"1", b"2")
    state.apply(Acquire("b1", 1, 1, [1, 1, 2]))
    state.apply(Modify("b1", 1, [1, 1, 1], True, {}, 900))
    assert (state.delayed.due, state.available.flat()) == ({1: 900}, [])
    state.apply(Release("b1", 1, [1, 2, 2]))
    assert state.available.flat() == [2, 2]
    state.apply(Due(900, [1, 1]))
    assert state.available.flat() == [1, 2] and state.deliveries.marks.flat() == [1, 2]


def test_it_expires_while_it_is_delayed():
    state = queue()
    come(state, b"1", b"2", expiry=[0, 100], delays=(0, 500, 1, 500))
    assert state.apply(Expire(100, [1, 2])).positions == [(1, 1)]
    assert (state.delayed.due, state.expired) == ({2: 500}, 1)
    dead = queue("lost", dead_letters="all")
    come(dead, b"1", b"2", expiry=[0, 100], delays=(0, 500))
    assert dead.apply(Expire(100, [1, 1])).aside == [(1, 1)]
    assert not dead.delayed and dead.dead_lettering.flat() == [1, 1] and dead.apply(Due(500, [1, 1])).positions == []


def test_a_purge_takes_the_delayed_ones_and_one_of_so_many_does_not():
    state = queue()
    come(state, b"1", b"2", b"3", delays=(0, 500))
    assert state.apply(Purge(1)).positions == [(2, 2)]
    assert state.apply(Purge(0)).positions == [(1, 1), (3, 3)]
    assert not state.blobs and not state.delayed and state.tallies.purged == 3


@pytest.mark.parametrize(
    ("settings", "left"),
    [
        ({"max_count": 2, "overflow": "ring"}, [2, 3]),
        ({"max_count": 2, "overflow": "reject"}, [1, 2]),
        ({"max_count": 2, "overflow": "ring-strict"}, [2, 3]),
    ],
)
def test_it_counts_for_a_limit_and_nobody_holds_it(settings, left):
    state = queue(**settings)
    come(state, b"1", b"2", delays=(0, 500, 1, 600))
    come(state, b"3")
    assert sorted(state.blobs) == left and state.tallies.revoked == 0
    assert set(state.delayed.due) == {1, 2}.intersection(left)


def test_the_oldest_goes_to_the_alternate_though_it_is_delayed():
    state = queue("lost", max_count=1, overflow="dead-letter")
    come(state, b"1", delays=(0, 500))
    come(state, b"2")
    assert state.dead_lettering.flat() == [1, 1] and not state.delayed and state.available.flat() == [2, 2]


def blob(priority: int | None = None, **properties: Any) -> bytes:
    return encode(Message(b"x", properties=properties or None, priority=priority))


@pytest.mark.parametrize(
    ("settings", "traits", "blobs"),
    [
        ({"priorities": 10}, [3, 7, 3], [blob(3), blob(7), blob(3)]),
        ({"fair_key": "of"}, ["a", "b", "a"], [blob(of="a"), blob(of="b"), blob(of="a")]),
        ({"group_key": "of"}, ["a", "b", "a"], [blob(of="a"), blob(of="b"), blob(of="a")]),
    ],
)
def test_in_queues_of_other_kinds(settings, traits, blobs):
    state = QueueState("q#1")
    policies = policies_of(state, QueueSettings(**settings))
    for policy in policies.of_state:
        state.include(policy)
    dispatcher = Dispatcher(
        state,
        policies.order,
        policies.allocator,
    )
    consumer = dispatcher.subscribe(1, False, True)
    consumer.credit.grant(10, -1)
    state.apply(Own("b1", 1))
    come(state, *blobs, delays=(0, 500, 1, 500), traits=traits)
    numbers = iter(range(1, 10))

    def given() -> list[int]:
        return sorted(
            position
            for delivery in dispatcher.run(True, numbers)[0]
            for first, last in delivery.ranges
            for position in range(first, last + 1)
        )

    assert given() == [3]
    dispatcher.returned(state.apply(Due(500, [1, 2])).positions)
    assert given() == [1, 2]


def test_of_a_key_the_one_that_was_sent_last_counts():
    state = queue(last_value_key="of")
    old, new = blob(of="a"), blob(of="a")
    come(state, old, delays=(0, 500), traits=["a"])
    come(state, new, traits=["a"])
    assert state.available.flat() == [2, 2] and state.delayed.due == {1: 500}
    state.apply(Due(500, [1, 1]))
    assert sorted(state.blobs) == [2] and state.tallies.last_value == 1


def test_it_is_part_of_what_replicas_compare_and_of_an_update():
    state, other = queue(), queue()
    come(state, b"1", b"2", delays=(0, 500, 1, 400))
    come(other, b"1", b"2", delays=(0, 500, 1, 401))
    assert state.digest() != other.digest()
    copy = copy_of(state)
    assert copy.digest() == state.digest() and copy.delayed.heap == [(400, 2), (500, 1)]
    assert copy.apply(Due(450, [1, 2])).positions == [(2, 2)]


def test_a_snapshot_with_strange_positions_is_none():
    state = queue()
    come(state, b"1", delays=(0, 500))
    strange = msgspec.structs.replace(state.snapshot(), delayed=[(2, 500)])
    with pytest.raises(Exception, match="are due"):
        read_snapshot(msgspec.msgpack.decode(msgspec.msgpack.encode(strange)))


def test_a_browser_sees_it_and_a_consumer_does_not():
    state = queue()
    policies = policies_of(state, QueueSettings())
    dispatcher = Dispatcher(state, policies.order, policies.allocator)
    for number, browse in ((1, True), (2, False)):
        dispatcher.subscribe(number, browse, True).credit.grant(10, -1)
    come(state, b"1", b"2", b"3", delays=(0, 500, 2, 500))
    seen = {1: [], 2: []}
    for delivery in dispatcher.run(True, iter(range(1, 9)))[0]:
        seen[delivery.subscription.id] += delivery.ranges
    assert seen == {1: [(1, 1), (2, 2), (3, 3)], 2: [(2, 2)]}


# ---- what comes back


def test_what_comes_back_waits_longer_each_time():
    state = queue(retry_delay_s=[1, 0, 5.5])
    come(state, b"1", b"2")
    for at_ms, due in ((1000, {1: 2000}), (2000, {}), (3000, {1: 8500}), (9000, {1: 14_500})):
        state.apply(Due(at_ms, [1, 1]))
        state.apply(Acquire("b1", 1, 1, [at_ms, 1, 1]))
        state.apply(Release("b1", 1, [at_ms, 1, 1], True, at_ms))
        assert state.delayed.due == due
    assert state.available.flat() == [2, 2]


def test_however_often_it_comes_back_its_time_is_one_that_travels():
    state = queue(retry_delay_min_ms=(1 << 48) - 1)
    come(state, b"1")
    for number in (1, 2):
        state.apply(Acquire("b1", 1, 1, [number, 1, 1]))
        state.apply(Release("b1", 1, [number, 1, 1], True, 1000))
        assert state.delayed.due == {1: 1000 + (1 << 48) - 1}
        state.apply(Due(1 << 49, [1, 1]))


def test_what_does_not_count_as_a_delivery_or_says_no_time_does_not_wait():
    state = queue(retry_delay_s=[1])
    come(state, b"1")
    for number, back in enumerate(
        [
            Release("b1", 1, [1, 1, 1], False, 1000),
            Modify("b1", 1, [2, 1, 1], False, {}, 0, 1000),
            Release("b1", 1, [3, 1, 1], True),
            Evict("b1", 1),
        ],
        1,
    ):
        state.apply(Acquire("b1", 1, 1, [number, 1, 1]))
        state.apply(back)
        assert state.available.flat() == [1, 1] and not state.delayed


def test_its_own_delay_counts_more_than_the_queues_and_its_death_more_than_either():
    state = queue(retry_delay_s=[1], delivery_limit=1)
    come(state, b"1")
    state.apply(Acquire("b1", 1, 1, [1, 1, 1]))
    state.apply(Modify("b1", 1, [1, 1, 1], True, {}, 9000, 1000))
    assert state.delayed.due == {1: 9000}
    state.apply(Due(9000, [1, 1]))
    state.apply(Acquire("b1", 1, 1, [2, 1, 1]))
    assert state.apply(Modify("b1", 1, [2, 1, 1], True, {}, 19_000, 9000)).dropped == [(1, 1, False)]
    assert not state.blobs and not state.delayed
