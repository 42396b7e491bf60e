"""What is counted of a queue: every message once, under what happened to it, whatever kind of queue it is."""

from __future__ import annotations

import msgspec
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.snapshot import read_snapshot
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.queue.statistics import MOST_ARRIVALS, age_ms, arrived, figures
from mantamq.protocol.wire.events import (
    Accept,
    Acquire,
    DeadLetterDone,
    Enqueue,
    Evict,
    Expire,
    Own,
    Purge,
    Reject,
    Release,
)


def queue(settings: QueueSettings | None = None, alternate: str = "") -> QueueState:
    """A queue of which b1 has the lock."""
    state = QueueState("q#1", alternate)
    for policy in policies_of(state, settings or QueueSettings()).of_state:
        state.include(policy)
    state.apply(Own("b1", 1))
    return state


def again(state: QueueState) -> QueueState:
    """The same at a replica that has just come."""
    other = QueueState(state.id, state.alternate)
    other.restore(read_snapshot(msgspec.msgpack.decode(msgspec.msgpack.encode(state.snapshot()))))
    other.fill(dict(state.blobs))
    return other


def test_each_message_is_counted_by_what_became_of_it():
    state = queue()
    state.apply(Enqueue("", [], [b"12345"] * 10, [9, 1000]))
    state.apply(Acquire("b1", 1, 1, [1, 1, 6]))
    state.apply(Accept("b1", 1, [1, 1, 2]))
    state.apply(Release("b1", 1, [1, 3, 3]))
    state.apply(Reject("b1", 1, [1, 4, 4]))
    state.apply(Expire(2000, [10, 10]))
    state.apply(Purge(2))
    counted = figures(state)
    assert (counted.acquires, counted.releases, counted.subscriber, counted.purged) == (6, 1, 1, 2)
    assert (counted.bytes_in, counted.bytes_out) == (50, 50 - state.bytes) == (50, 30)
    assert (state.accepted, state.expired, state.discarded) == (2, 1, 3)
    assert state.acquired.messages() == 2 and sorted(state.blobs) == [5, 6, 8, 9]


def test_what_a_dead_broker_held_came_back():
    state = queue()
    state.apply(Enqueue("", [], [b"1", b"2", b"3"]))
    state.apply(Acquire("b1", 1, 1, [1, 1, 2]))
    state.apply(Acquire("b1", 1, 1, [2, 3, 3], accepted=True))
    state.apply(Evict("b1", 1))
    assert figures(state)[:4] == (3, 2, 3, 1)


def test_a_void_acquire_counts_nothing():
    state = queue()
    state.apply(Enqueue("", [], [b"1"]))
    state.apply(Acquire("b2", 1, 1, [1, 1, 1]))
    assert figures(state).acquires == 0


def test_a_ring_tells_what_it_has_pushed_out_also_of_what_was_held():
    state = queue(QueueSettings(max_count=2, overflow="ring"))
    state.apply(Enqueue("", [], [b"1", b"2"]))
    state.apply(Acquire("b1", 1, 1, [1, 1, 1]))
    state.apply(Enqueue("", [], [b"3", b"4"]))
    counted = figures(state)
    assert (counted.ring, counted.acquires, counted.subscriber, counted.bytes_out) == (2, 1, 0, 2)


def test_a_last_value_tells_what_it_has_replaced():
    state = queue(QueueSettings(last_value_key="k"))
    blobs = [msgspec.msgpack.encode([b"", None, {"k": key}]) for key in ("a", "b", "a", "a")]
    state.apply(Enqueue("", [], blobs))
    counted = figures(state)
    assert (counted.last_value, counted.purged, counted.ring) == (2, 0, 0) and sorted(state.blobs) == [2, 4]


def test_a_refused_message_did_not_come_in():
    state = queue(QueueSettings(max_count=1, overflow="reject"))
    state.apply(Enqueue("", [], [b"1", b"22"]))
    counted = figures(state)
    assert (counted.bytes_in, counted.subscriber, state.refused, state.enqueued) == (1, 0, 1, 2)


def test_rejected_messages_are_rerouted_or_lost():
    state = queue(alternate="lost")
    state.apply(Enqueue("", [], [b"1", b"2"]))
    state.apply(Acquire("b1", 1, 1, [1, 1, 2]))
    state.apply(Reject("b1", 1, [1, 1, 1]))
    assert figures(state).acquires == 2 and figures(state).bytes_out == 0, "on its way it is still here"
    state.apply(DeadLetterDone(state.index))
    assert figures(state)[:4] == (2, 0, 2, 1) and state.dead_lettered == 1


def test_a_replica_that_joins_counts_on():
    state = queue()
    state.apply(Enqueue("", [], [b"1", b"22", b"333"]))
    state.apply(Acquire("b1", 1, 1, [1, 1, 2]))
    state.apply(Release("b1", 1, [1, 1, 1]))
    arrived(state, 5000)
    other = again(state)
    for each in (state, other):
        each.apply(Purge(1))
    assert figures(other) == figures(state) and other.digest() == state.digest()
    assert age_ms(other, 8000) == age_ms(state, 8000) == 3000
    other.tallies.purged += 1
    assert other.digest() != state.digest()


def test_the_age_is_that_of_the_oldest_message_also_one_that_is_held():
    state = queue()
    assert age_ms(state, 1000) == 0
    for second in range(1, 4):
        state.apply(Enqueue("", [], [b"1", b"2"]))
        arrived(state, second * 10_000)
    assert age_ms(state, 30_500) == 20_500
    state.apply(Acquire("b1", 1, 1, [1, 1, 3]))
    assert age_ms(state, 30_500) == 20_500
    state.apply(Accept("b1", 1, [1, 1, 2]))
    assert age_ms(state, 30_500) == 10_500
    state.apply(Purge(0))
    state.apply(Accept("b1", 1, [1, 3, 3]))
    assert age_ms(state, 30_500) == 0


def test_what_comes_within_a_second_is_of_one_age():
    state = queue()
    for now_ms in (10_000, 10_400, 10_999, 11_000):
        state.apply(Enqueue("", [], [b"1"]))
        arrived(state, now_ms)
    assert state.tallies.arrivals == [(1, 10_000), (4, 11_000)]
    state.apply(Purge(2))
    assert age_ms(state, 12_000) == 2000
    state.apply(Purge(1))
    assert age_ms(state, 12_000) == 1000


def test_a_clock_that_goes_back_makes_nothing_older_than_it_is():
    state = queue()
    for now_ms in (10_000, 4_000):
        state.apply(Enqueue("", [], [b"1"]))
        arrived(state, now_ms)
    assert age_ms(state, 4_000) == 0 and age_ms(state, 10_500) == 500


def test_times_are_kept_for_so_many_steps_and_the_oldest_is_known():
    state = queue()
    for second in range(3 * MOST_ARRIVALS):
        state.apply(Enqueue("", [], [b"1"]))
        arrived(state, second * 1000)
    assert len(state.tallies.arrivals) <= MOST_ARRIVALS
    assert age_ms(state, 3 * MOST_ARRIVALS * 1000) == 3 * MOST_ARRIVALS * 1000
    state.apply(Purge(3 * MOST_ARRIVALS - 1))
    arrived(state, 10**9)
    for second in range(3 * MOST_ARRIVALS, 4 * MOST_ARRIVALS):
        state.apply(Enqueue("", [], [b"1"]))
        arrived(state, second * 1000)
    assert len(state.tallies.arrivals) <= MOST_ARRIVALS
