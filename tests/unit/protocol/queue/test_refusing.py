"""A queue that refuses messages at its limit, alone: message by message, however they come together."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.refused_numbers import RefusedNumbers
from mantamq.protocol.queue.settings import MESSAGE_BYTES, QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.ranges import pairs
from mantamq.protocol.wire.events import Accept, Acquire, DeadLetterDone, Enqueue, Own, Reject, Release


def limited(overflow: str = "reject", alternate: str = "", **settings: Any) -> QueueState:
    """A queue of which b1 has the lock."""
    state = QueueState("q#1", alternate)
    for policy in policies_of(state, QueueSettings(alternate, overflow=overflow, **settings)).of_state:
        state.include(policy)
    state.apply(Own("b1", 1))
    return state


def send(state: QueueState, first: int, *blobs: bytes, client: str = "c/1") -> list[int]:
    """Numbers from `first` on; which of them the queue has refused."""
    last = first + len(blobs) - 1
    state.apply(Enqueue(client, [first, last], list(blobs)))
    return [n for a, b in state.refusals.within(client, first, last) for n in range(a, b + 1)]


def there(state: QueueState) -> list[int]:
    return [p for first, last in pairs(state.live().flat()) for p in range(first, last + 1)]


def test_what_does_not_fit_is_refused_and_the_rest_comes_in():
    state = limited(max_count=3)
    assert send(state, 1, b"1", b"2") == []
    assert send(state, 3, b"3", b"4", b"5") == [4, 5]
    assert there(state) == [1, 2, 3] and state.next_position == 6
    assert (state.enqueued, state.discarded, state.refused) == (5, 2, 2)


def test_a_smaller_one_may_come_in_behind_one_that_is_refused():
    state = limited(max_size=2 * MESSAGE_BYTES + 5)
    assert send(state, 1, b"123", b"4567", b"89") == [2]
    assert there(state) == [1, 3] and state.blobs[3] == b"89"


def test_room_that_a_consumer_makes_is_room():
    state = limited(max_count=2)
    send(state, 1, b"1", b"2")
    state.apply(Acquire("b1", 1, 1, [7, 1, 1]))
    assert send(state, 3, b"3") == [3], "what is held is in it"
    state.apply(Accept("b1", 1, [7, 1, 1]))
    assert send(state, 4, b"4") == []


def test_what_is_rejected_has_left_it():
    state = limited(alternate="lost", max_count=1)
    send(state, 1, b"1")
    state.apply(Acquire("b1", 1, 1, [7, 1, 1]))
    state.apply(Reject("b1", 1, [7, 1, 1]))
    assert send(state, 2, b"2") == [] and state.batches
    state.apply(DeadLetterDone(next(iter(state.batches))))
    assert send(state, 3, b"3") == [3]


def test_a_repeat_hears_the_same_and_changes_nothing():
    state = limited(max_count=1)
    assert send(state, 1, b"1", b"2") == [2]
    state.apply(Acquire("b1", 1, 1, [7, 1, 1]))
    state.apply(Accept("b1", 1, [7, 1, 1]))
    assert send(state, 1, b"1", b"2") == [2] and there(state) == []
    assert send(state, 2, b"2", b"3") == [2] and [state.blobs[p] for p in there(state)] == [b"3"]


def test_without_a_client_it_is_refused_all_the_same():
    state = limited(max_count=1)
    done = state.apply(Enqueue("", [], [b"1", b"2"]))
    assert done.dropped == [(2, 2, False)] and there(state) == [1] and not state.refusals.table()


def test_expiry_is_of_the_message_that_has_it():
    state = limited(max_count=2)
    state.apply(Enqueue("c/1", [1, 3], [b"1", b"2", b"3"], [1, 50, 2, 60]))
    assert state.expiry == {2: 50}


def test_a_strict_ring_refuses_while_the_oldest_is_held():
    state = limited("ring-strict", max_count=2)
    assert send(state, 1, b"1", b"2", b"3") == [] and there(state) == [2, 3]
    state.apply(Acquire("b1", 1, 1, [7, 2, 2]))
    assert send(state, 4, b"4") == [4] and there(state) == [2, 3]
    state.apply(Release("b1", 1, [7, 2, 2]))
    assert send(state, 5, b"5") == [] and there(state) == [3, 5]


def test_a_strict_ring_looks_at_as_many_as_have_to_go():
    state = limited("ring-strict", max_size=3 * (MESSAGE_BYTES + 1))
    send(state, 1, b"1", b"2", b"3")
    state.apply(Acquire("b1", 1, 1, [7, 2, 2]))
    assert send(state, 4, b"4") == [], "only 1 has to go"
    assert send(state, 5, b"5" * (MESSAGE_BYTES + 2)) == [5], "2 is held"


@pytest.mark.parametrize("overflow", ["reject", "ring", "ring-strict"])
def test_one_that_is_larger_than_the_limit_is_refused(overflow: str):
    state = limited(overflow, max_size=MESSAGE_BYTES + 3)
    assert send(state, 1, b"1", b"1234", b"123") == ([2, 3] if overflow == "reject" else [2])


def test_it_comes_back_from_a_snapshot():
    state = limited(max_count=1)
    send(state, 1, b"1", b"2")
    other = limited(max_count=1)
    other.restore(state.snapshot())
    other.fill({1: b"1"})
    assert other.digest() == state.digest() and send(other, 2, b"2") == [2]


@given(st.lists(st.binary(max_size=9), max_size=40), st.data())
def test_it_does_not_matter_how_messages_were_gathered(messages: list[bytes], data: st.DataObject):
    settings = data.draw(st.sampled_from([{"max_count": 5}, {"max_size": 400}, {"max_count": 4, "max_size": 300}]))
    overflow = data.draw(st.sampled_from(["reject", "ring", "ring-strict"]))
    kind = {} if overflow == "ring-strict" else data.draw(st.sampled_from([{}, {"priorities": 2}, {"fair_key": "x"}]))
    one, many = limited(overflow, **settings, **kind), limited(overflow, **settings, **kind)
    for number, blob in enumerate(messages, 1):
        send(one, number, blob)
    first = 1
    while first <= len(messages):
        last = data.draw(st.integers(first, len(messages)))
        send(many, first, *messages[first - 1 : last])
        first = last + 1
    assert there(one) == there(many) and one.blobs == many.blobs
    assert (one.refused, one.refusals.table()) == (many.refused, many.refusals.table())


def test_what_is_known_of_refusals_is_bounded():
    known = RefusedNumbers(clients=2, repeated=10)
    for client in "abc":
        known.note(client, 1)
    assert known.table() == [("b", [1, 1]), ("c", [1, 1])]
    known.note("b", 12)
    assert known.table() == [("c", [1, 1]), ("b", [12, 12])] and RefusedNumbers(known.table()).table() == known.table()
