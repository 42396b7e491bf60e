"""Last value alone: of each key only the newest waits."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.client import Message
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.queue.traits import trait_of
from mantamq.protocol.wire.events import Accept, Acquire, Enqueue, Evict, Own, Reject, Release
from mantamq.protocol.wire.message import encode


def last_value(alternate: str = "", **settings: Any) -> QueueState:
    """A queue by the key "k", of which b1 has the lock."""
    state = QueueState("q#1", alternate)
    for policy in policies_of(state, QueueSettings(alternate, last_value_key="k", **settings)).of_state:
        state.include(policy)
    state.apply(Own("b1", 1))
    return state


def send(state: QueueState, *keys: Any) -> list[int]:
    """Returns the positions that went."""
    blobs = [encode(Message(b"", properties=None if key is None else {"k": key})) for key in keys]
    return [first for first, _, _ in state.apply(Enqueue("", [], blobs)).dropped]


def test_the_newest_of_a_key_goes_to_the_tail_and_the_one_before_goes():
    state = last_value()
    assert send(state, "a", "b") == []
    assert send(state, "a", "c") == [1]
    assert send(state, "b", "b") == [2, 5]
    assert sorted(state.blobs) == [3, 4, 6] and state.available.flat() == [3, 4, 6, 6]
    assert state.discarded == 3


def test_no_key_is_the_empty_key_and_numbers_are_their_text():
    state = last_value()
    assert send(state, None, 7, "") == [1]
    assert send(state, "7", [7], "x" * 1000) == [2, 3, 5]
    assert sorted(state.blobs) == [4, 6]


def test_what_is_held_stays_until_it_is_settled():
    state = last_value()
    send(state, "a")
    state.apply(Acquire("b1", 1, 1, [7, 1, 1]))
    assert send(state, "a") == []
    assert state.apply(Accept("b1", 1, [7, 1, 1])).lost == []
    assert sorted(state.blobs) == [2]


def test_what_comes_back_goes_if_there_is_a_newer_one():
    state = last_value()
    send(state, "a", "b")
    state.apply(Acquire("b1", 1, 1, [7, 1, 2]))
    send(state, "a")
    assert state.apply(Release("b1", 1, [7, 1, 2])).dropped == [(1, 1, False)]
    assert state.available.flat() == [2, 3]


def test_it_comes_back_if_the_newer_one_is_gone():
    state = last_value()
    send(state, "a")
    state.apply(Acquire("b1", 1, 1, [7, 1, 1]))
    send(state, "a")
    state.apply(Acquire("b1", 1, 1, [8, 2, 2], True))
    assert state.apply(Release("b1", 1, [7, 1, 1])).dropped == [] and state.available.flat() == [1, 1]


def test_of_what_an_evicted_broker_held_the_newest_comes_back():
    state = last_value()
    send(state, "a")
    state.apply(Acquire("b1", 1, 1, [7, 1, 1]))
    send(state, "a")
    state.apply(Acquire("b1", 1, 1, [8, 2, 2]))
    assert state.apply(Evict("b1", 1)).dropped == [(1, 1, False)] and state.available.flat() == [2, 2]


def test_a_rejected_value_is_the_newest_until_its_copy_is_there():
    state = last_value("lost")
    send(state, "a")
    state.apply(Acquire("b1", 1, 1, [7, 1, 1]))
    send(state, "a")
    state.apply(Acquire("b1", 1, 1, [8, 2, 2]))
    state.apply(Reject("b1", 1, [8, 2, 2]))
    assert state.apply(Release("b1", 1, [7, 1, 1])).dropped == [(1, 1, False)]


@pytest.mark.parametrize("consumed", [False, True])
def test_a_copy_goes_on_alike(consumed: bool):
    """Also where it has never heard of the newest value, which is gone."""
    state, copy = last_value(), last_value()
    send(state, "a")
    state.apply(Acquire("b1", 1, 1, [7, 1, 1]))
    send(state, "a")
    state.apply(Acquire("b1", 1, 1, [8, 2, 2]))
    send(state, "a", "b")
    if consumed:
        state.apply(Acquire("b1", 1, 1, [9, 3, 3], True))
    copy.restore(state.snapshot())
    copy.fill(dict(state.blobs))
    for one in (state, copy):
        one.apply(Release("b1", 1, [7, 1, 1]))
        send(one, "b")
    assert copy.digest() == state.digest() and sorted(copy.blobs) == ([2, 5] if consumed else [2, 3, 5])


def test_keys_of_which_nothing_is_left_are_forgotten():
    state = last_value()
    (policy,) = state.policies
    for round in range(30):
        send(state, *(f"{round}/{n}" for n in range(100)))
        state.apply(Acquire("b1", 1, 1, [round + 1, 1, 100 * (round + 1)], True))
    assert not state.blobs and len(policy._of_key) <= 1_200  # pyright: ignore


def test_with_a_ring_both_hold():
    state = last_value(max_count=2, overflow="ring")
    assert send(state, "a", "b", "a") == [1]
    assert send(state, "c") == [2]
    assert sorted(state.blobs) == [3, 4]


def test_the_trait_is_of_the_message_alone():
    trait = trait_of(QueueSettings(last_value_key="k"))
    assert trait is not None
    assert trait(encode(Message(b"", properties={"k": True}))) == "True"
    assert trait(b"what is no message") == "" == trait(encode(Message(b"")))
