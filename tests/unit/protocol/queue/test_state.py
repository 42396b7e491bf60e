"""A queue's rules, alone: what each event does to the messages, the lock and the brokers."""

from __future__ import annotations

import pytest
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.wire.events import (
    Accept,
    Acquire,
    AnyEvent,
    DeadLetterDone,
    Enqueue,
    Evict,
    Expire,
    Member,
    Own,
    Purge,
    Reject,
    Rejoin,
    Release,
    Start,
)


def queue(*events: AnyEvent, alternate: str = "") -> QueueState:
    """Five messages, of which b1, incarnation 2, holds the first three as acquisition 1; then these events."""
    state = QueueState("q#1", alternate)
    for event in (
        Enqueue("c", [1, 5], [b"%d" % n for n in range(1, 6)], [4, 900]),
        Own("b1", 1),
        Acquire("b1", 2, 1, [1, 1, 3]),
        *events,
    ):
        state.apply(event)
    return state


def places(state: QueueState) -> tuple[list[int], list[int], list[int]]:
    """(available, acquired, dead_lettering)"""
    held = [edge for ranges in state.acquired.values() for edge in ranges.flat()]
    return state.available.flat(), held, state.dead_lettering.flat()


def test_a_message_is_in_one_place_and_accepted_messages_are_gone():
    assert places(queue()) == ([4, 5], [1, 3], [])
    state = queue(Accept("b1", 2, [1, 1, 2]))
    assert places(state) == ([4, 5], [3, 3], []) and sorted(state.blobs) == [3, 4, 5]
    assert (state.accepted, state.bytes) == (2, 3)


def test_what_is_released_is_back_in_its_place_and_counted_if_it_may_have_been_seen():
    seen = queue(Release("b1", 2, [1, 2, 3]))
    assert places(seen) == ([2, 5], [1, 1], []) and seen.deliveries.column([(1, 5)]) == [1, 1, 2, 1]
    assert not queue(Release("b1", 2, [1, 2, 3], redelivered=False)).deliveries


def test_what_is_rejected_goes_or_waits_for_its_alternate():
    assert queue(Reject("b1", 2, [1, 1, 1])).discarded == 1
    state = queue(Reject("b1", 2, [1, 1, 1]), alternate="lost")
    assert places(state) == ([4, 5], [2, 3], [1, 1]) and state.batches == {4: ("b1", [1, 1])}
    assert state.apply(DeadLetterDone(4)).positions == [(1, 1)] and state.apply(DeadLetterDone(4)).positions == []
    assert (state.dead_lettered, state.batches, 1 in state.blobs) == (1, {}, False)


@pytest.mark.parametrize(
    "event", [Acquire("b2", 2, 1, [1, 4, 5]), Acquire("b1", 2, 2, [1, 4, 5]), Acquire("b1", 2, 0, [1, 4, 5])]
)
def test_an_acquire_without_the_grant_is_void(event):
    state = queue()
    assert not state.apply(event).effective and places(state) == ([4, 5], [1, 3], [])


def test_a_repeated_enqueue_is_void_and_a_partly_repeated_one_brings_what_is_new():
    state = queue()
    assert not state.apply(Enqueue("c", [4, 5], [b"4", b"5"])).effective
    assert state.apply(Enqueue("c", [5, 6], [b"5", b"6"])).positions == [(6, 6)]
    assert state.apply(Enqueue("", [], [b"x"])).positions == [(7, 7)] and state.enqueued == 7


def test_the_clock_and_a_purge_take_available_messages_only():
    state = queue()
    assert state.apply(Expire(899, [1, 5])).positions == []
    assert state.apply(Expire(900, [1, 5])).positions == [(5, 5)] and state.expiry == {}
    assert state.apply(Purge(0)).positions == [(4, 4)] and (state.expired, state.discarded) == (1, 1)


def test_the_lock_passes_in_turn_to_a_broker_that_is_there():
    state = queue()
    for event in (Own("b2", 2), Own("b2", 3, "b1"), Own("b2", 2, "b3")):
        assert not state.apply(event).effective
    assert state.apply(Own("b2", 2, "b1")).effective and (state.owner, state.grant, state.handovers) == ("b2", 2, 1)
    state.apply(Evict("b1", 2))
    assert not state.apply(Own("b1", 3, "b2")).effective
    state.apply(Rejoin("b1", 3))
    assert state.apply(Own("b1", 3, "b2")).effective


def test_a_broker_that_is_out_loses_what_it_holds_and_its_grant():
    state = queue(alternate="lost")
    state.apply(Reject("b1", 2, [1, 1, 1]))
    done = state.apply(Evict("b1", 2))
    assert (done.positions, done.orphans) == ([(2, 3)], [4])
    assert (state.owner, state.grant) == ("", 2)
    assert state.deliveries.column([(1, 5)]) == [1, 1, 2, 1, 3, 1, 4, 1], (
        "its consumers may have seen what was available"
    )
    assert not state.apply(Evict("b1", 1)).effective
    assert not state.apply(Acquire("b1", 2, 2, [2, 4, 4])).effective


@pytest.mark.parametrize("event", [Rejoin("b1", 3), Member("b1", 3, True), Member("b1", 2, False)])
def test_a_newer_incarnation_or_a_leaver_ends_the_older_ones(event):
    state = queue(event)
    assert places(state) == ([1, 5], [], []) and state.owner == ""
    assert ("b1" in state.fence.absent) == (event == Member("b1", 2, False))


def test_every_event_has_its_index_also_one_that_changes_nothing():
    state = queue()
    before = state.snapshot()
    for event in (Start((1, 7)), None):
        done = state.apply(event)
        assert done.effective and done.positions == []
    assert state.index == before.index + 2 == 5
