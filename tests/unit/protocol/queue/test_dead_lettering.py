"""Messages that go to the alternate though nobody rejects them, as the stream is applied."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from mantamq.protocol.queue.batches import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.snapshot import read_snapshot
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.wire.events import (
    Acquire,
    DeadLetterDone,
    Enqueue,
    Evict,
    Expire,
    Modify,
    Own,
    Reject,
    Release,
)
from mantamq.protocol.wire.message import Header, encode


def queue(alternate: str = "lost", **settings: Any) -> QueueState:
    state = QueueState("q#1", alternate)
    for policy in policies_of(state, QueueSettings(alternate=alternate, **settings)).of_state:
        state.include(policy)
    state.apply(Own("b1", 1))
    return state


def come(state: QueueState, *blobs: bytes, expiry: tuple[int, ...] = ()) -> None:
    state.apply(Enqueue("", [], list(blobs), list(expiry)))


def held(state: QueueState, acquisition: int, first: int, last: int) -> None:
    state.apply(Acquire("b1", 1, 1, [acquisition, first, last]))


def aside(state: QueueState) -> dict[str, list[int]]:
    """Cause -> ranges of what is on its way."""
    return {state.batches.cause(index): ranges for index, (_, ranges) in state.batches.items()}


# ---- expiry


def test_what_expires_goes_to_the_alternate_and_does_not_expire_there_again():
    state = queue(dead_letters="all")
    come(state, b"1", b"2", b"3", expiry=(0, 100, 2, 100))
    done = state.apply(Expire(100, [1, 3]))
    assert (done.aside, done.positions) == ([(1, 1), (3, 3)], [])
    assert aside(state) == {EXPIRED: [1, 1, 3, 3]} and state.available.flat() == [2, 2] and not state.expiry
    state.apply(DeadLetterDone(state.index))
    assert (state.dead_lettered, state.expired, sorted(state.blobs)) == (2, 0, [2])


@pytest.mark.parametrize("settings", [{}, {"dead_letters": "rejected"}, {"alternate": "", "dead_letters": "all"}])
def test_what_expires_is_discarded_where_only_rejected_messages_are_dead_letters_or_nothing_is(settings: Any):
    state = queue(**settings)
    come(state, b"1", expiry=(0, 100))
    done = state.apply(Expire(100, [1, 1]))
    assert (done.aside, done.positions, state.expired, state.blobs) == ([], [(1, 1)], 1, {})


def test_nothing_expires_that_is_held_or_not_due():
    state = queue(dead_letters="all")
    come(state, b"1", b"2", expiry=(0, 100, 1, 101))
    held(state, 1, 1, 1)
    assert state.apply(Expire(100, [1, 2])).aside == [] and aside(state) == {}


# ---- too many deliveries


def test_a_message_that_comes_back_too_often_goes_to_the_alternate():
    state = queue(delivery_limit=2)
    come(state, b"1", b"2")
    for acquisition in (1, 2):
        held(state, acquisition, 1, 1)
        assert state.apply(Release("b1", 1, [acquisition, 1, 1])).aside == []
    held(state, 3, 1, 2)
    done = state.apply(Release("b1", 1, [3, 1, 2]))
    assert (done.aside, done.positions) == ([(1, 1)], [(1, 2)]) and state.available.flat() == [2, 2]
    assert aside(state) == {DELIVERY_LIMIT: [1, 1]} and state.deliveries.column([(1, 1)]) == [0, 3]


def test_what_was_not_delivered_does_not_count():
    state = queue(delivery_limit=1)
    come(state, b"1")
    for acquisition, event in enumerate([
        Release("b1", 1, [1, 1, 1], False), Modify("b1", 1, [2, 1, 1]), Modify("b1", 1, [3, 1, 1], True),
    ], 1):  # fmt: skip
        held(state, acquisition, 1, 1)
        assert state.apply(event).aside == []
    held(state, 4, 1, 1)
    assert state.apply(Modify("b1", 1, [4, 1, 1], True)).aside == [(1, 1)]


def test_the_death_of_its_consumers_broker_counts():
    state = queue(delivery_limit=1)
    come(state, b"1", b"2")
    held(state, 1, 1, 1)
    state.apply(Release("b1", 1, [1, 1, 1]))
    held(state, 2, 1, 2)
    done = state.apply(Evict("b1", 1))
    assert done.aside == [(1, 1)] and state.available.flat() == [2, 2] and done.orphans == []


def test_without_an_alternate_it_is_discarded_and_counted():
    state = queue("", delivery_limit=1)
    come(state, b"1")
    for acquisition in (1, 2):
        held(state, acquisition, 1, 1)
        done = state.apply(Release("b1", 1, [acquisition, 1, 1]))
    assert (done.dropped, state.blobs, state.discarded, state.tallies.too_often) == ([(1, 1, False)], {}, 1, 1)


# ---- at a limit


def test_at_its_limit_the_oldest_that_waits_goes_to_the_alternate():
    state = queue(max_count=2, overflow="dead-letter")
    come(state, b"1", b"2")
    held(state, 1, 1, 1)
    come(state, b"3")
    assert aside(state) == {MAXLEN: [2, 2]} and state.acquired.messages() == 1, "what a consumer holds stays his"
    come(state, b"4", b"5")
    assert state.available.flat() == [5, 5] and state.discarded == 0


def test_by_size_too_and_what_is_too_large_is_refused():
    state = queue(max_size=200, overflow="dead-letter")
    come(state, b"1" * 30, b"2" * 30)
    come(state, b"3" * 30)
    assert aside(state) == {MAXLEN: [1, 1]}
    come(state, b"4" * 300)
    assert (state.refused, state.available.flat()) == (1, [2, 3])


def test_of_levels_the_lowest_goes_first_and_several_of_one_event_are_one_batch():
    state = queue(max_count=2, overflow="dead-letter", priorities=10)
    come(state, *(encode(Header(b"m", priority=priority)) for priority in (9, 1, 5, 0)))
    assert aside(state) == {MAXLEN: [2, 2, 4, 4]} and state.available.flat() == [1, 1, 3, 3]
    state.apply(DeadLetterDone(state.index))
    assert (state.dead_lettered, state.batches) == (2, {})


# ---- what is kept of it


def test_a_copy_knows_why_each_batch_is_on_its_way():
    state = queue(dead_letters="all", delivery_limit=1)
    come(state, b"1", b"2", expiry=(0, 100))
    state.apply(Expire(100, [1, 1]))
    held(state, 1, 2, 2)
    state.apply(Reject("b1", 1, [1, 2, 2]))
    copy = queue(dead_letters="all", delivery_limit=1)
    copy.restore(read_snapshot(msgspec.msgpack.decode(msgspec.msgpack.encode(state.snapshot()))))
    copy.fill(dict(state.blobs))
    assert aside(copy) == aside(state) == {EXPIRED: [1, 1], REJECTED: [2, 2]} and copy.digest() == state.digest()
    for index in list(copy.batches):
        assert copy.apply(DeadLetterDone(index)).positions == state.apply(DeadLetterDone(index)).positions
    assert copy.digest() == state.digest() and not copy.snapshot().causes
