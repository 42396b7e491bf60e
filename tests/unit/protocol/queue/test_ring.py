"""A ring alone: the oldest goes, whoever holds it."""

from __future__ import annotations

import pytest
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import MESSAGE_BYTES, QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.ranges import pairs
from mantamq.protocol.wire.events import Accept, Acquire, DeadLetterDone, Enqueue, Own, Reject, Release


def ring(max_count: int = 0, max_size: int = 0, alternate: str = "") -> QueueState:
    """A queue of which b1 has the lock."""
    state = QueueState("q#1", alternate)
    settings = QueueSettings(alternate, max_count, max_size, "ring")
    for policy in policies_of(state, settings).of_state:
        state.include(policy)
    state.apply(Own("b1", 1))
    return state


def send(state: QueueState, *blobs: bytes) -> list[tuple[int, int, bool]]:
    return state.apply(Enqueue("", [], list(blobs))).dropped


def there(state: QueueState) -> list[int]:
    return [p for first, last in pairs(state.live().flat()) for p in range(first, last + 1)]


def test_the_oldest_goes():
    state = ring(3)
    assert send(state, b"1", b"2", b"3") == []
    assert send(state, b"4") == [(1, 1, False)]
    assert send(state, b"5", b"6") == [(2, 3, False)]
    assert there(state) == sorted(state.blobs) == [4, 5, 6] and state.discarded == 3
    assert state.bytes == 3


def test_of_more_than_it_holds_the_last_stay():
    state = ring(2)
    assert send(state, *[b"x"] * 10) == [(1, 8, False)] and there(state) == [9, 10]


def test_what_a_consumer_holds_goes_and_its_settlement_is_lost():
    state = ring(3)
    send(state, b"1", b"2", b"3")
    state.apply(Acquire("b1", 1, 1, [7, 1, 2]))
    assert send(state, b"4") == [(1, 1, True)]
    assert state.apply(Accept("b1", 1, [7, 1, 2])).lost == [7, 1, 1]
    assert there(state) == [3, 4] and not state.acquired and state.accepted == 1 and state.discarded == 1


def test_the_oldest_of_all_goes_be_it_held_or_not():
    state = ring(4)
    send(state, b"1", b"2", b"3", b"4")
    state.apply(Acquire("b1", 1, 1, [7, 2, 2, 8, 3, 4]))
    assert send(state, b"5", b"6", b"7") == [(1, 1, False), (2, 2, True), (3, 3, True)]
    assert {holder[2]: held.flat() for holder, held in state.acquired.items()} == {8: [4, 4]}
    assert state.apply(Release("b1", 1, [7, 2, 2, 8, 3, 4])).lost == [7, 2, 2, 8, 3, 3]
    assert there(state) == [4, 5, 6, 7]


def test_bytes_are_limited_with_so_many_more_for_each_message():
    state = ring(max_size=3 * (MESSAGE_BYTES + 10))
    send(state, *[b"x" * 10] * 3)
    assert there(state) == [1, 2, 3]
    assert send(state, b"x") == [(1, 1, False)]
    assert send(state, b"x" * 83) == [(2, 3, False)]
    assert there(state) == [4, 5]


def test_both_limits_hold():
    state = ring(5, 2 * (MESSAGE_BYTES + 1))
    send(state, *[b"x"] * 4)
    assert there(state) == [3, 4]
    state = ring(1, 2 * (MESSAGE_BYTES + 1))
    send(state, *[b"x"] * 4)
    assert there(state) == [4]


def test_a_message_larger_than_the_ring_is_refused_and_what_is_there_stays():
    state = ring(max_size=MESSAGE_BYTES)
    send(state, b"")
    assert send(state, b"x") == [(2, 2, False)]
    assert there(state) == [1] and state.refused == 1 and state.next_position == 3


@pytest.mark.parametrize("limits", [(2, 0), (0, 2 * (MESSAGE_BYTES + 1))])
def test_what_is_rejected_has_left_the_ring_and_stays_until_its_copy_is_there(limits: tuple[int, int]):
    state = ring(*limits, alternate="lost")
    send(state, b"1", b"2")
    state.apply(Acquire("b1", 1, 1, [7, 1, 1]))
    state.apply(Reject("b1", 1, [7, 1, 1]))
    assert send(state, b"3") == [] and send(state, b"4") == [(2, 2, False)]
    assert there(state) == [1, 3, 4]
    state.apply(DeadLetterDone(state.index - 2))
    assert there(state) == [3, 4] and state.dead_lettered == 1


def test_a_copy_that_is_brought_up_to_date_goes_on_alike():
    state, copy = ring(3), ring(3)
    send(state, b"1", b"2", b"3")
    state.apply(Acquire("b1", 1, 1, [7, 1, 1]))
    copy.restore(state.snapshot())
    copy.fill(dict(state.blobs))
    for one in (state, copy):
        send(one, b"4", b"5")
    assert there(copy) == [3, 4, 5] and copy.digest() == state.digest()
