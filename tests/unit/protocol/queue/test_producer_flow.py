"""Producer flow control of a queue, alone: strictly more stops it, strictly less than both lets it go on."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import MESSAGE_BYTES, QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.wire.events import Accept, Acquire, Enqueue, Expire, Own, Purge, Reject


def queue(alternate: str = "", **settings: Any) -> QueueState:
    state = QueueState("q#1", alternate)
    for policy in policies_of(state, QueueSettings(alternate, **settings)).of_state:
        state.include(policy)
    state.apply(Own("b1", 1))
    return state


def send(state: QueueState, count: int, blob: bytes = b"x") -> bool:
    state.apply(Enqueue("", [], [blob] * count))
    return state.flow_stopped


def test_it_stops_above_one_threshold_and_goes_on_below_the_other():
    state = queue(flow_stop_count=5, flow_resume_count=3)
    assert not send(state, 5) and send(state, 1)
    for left, stopped in ((5, True), (4, True), (3, True), (2, False)):
        state.apply(Purge(1))
        assert (len(state.blobs), state.flow_stopped) == (left, stopped)
    assert not send(state, 3) and send(state, 1) and state.flow_stopped_count == 2


def test_it_goes_on_when_both_levels_are_low_enough():
    state = queue(flow_stop_count=2, flow_resume_count=2, flow_stop_size=1000, flow_resume_size=500)
    assert not send(state, 2, b"x" * (430 - MESSAGE_BYTES))
    assert send(state, 1)
    state.apply(Purge(1))
    assert state.flow_stopped, "two are not less than two"
    state.apply(Purge(1))
    assert not state.flow_stopped
    assert send(state, 1, b"x" * 1000)
    state.apply(Purge(1))
    assert state.flow_stopped, "few, and too large"


@pytest.mark.parametrize("how", ["accept", "expire", "reject", "accepted", "purge"])
def test_however_messages_go_producers_go_on(how: str):
    state = queue("lost", flow_stop_count=2, flow_resume_count=1)
    state.apply(Enqueue("", [], [b"x"] * 3, [0, 9, 1, 9, 2, 9]))
    assert state.flow_stopped
    if how == "expire":
        state.apply(Expire(10, [1, 3]))
    elif how == "purge":
        state.apply(Purge(0))
    else:
        state.apply(Acquire("b1", 1, 1, [7, 1, 3], how == "accepted"))
        assert state.flow_stopped == (how != "accepted"), "what is held is in it"
        if how != "accepted":
            state.apply((Accept if how == "accept" else Reject)("b1", 1, [7, 1, 3]))
    assert not state.flow_stopped


def test_a_ring_has_none_unless_asked():
    assert not send(queue(max_count=3, overflow="ring"), 9)
    assert send(queue(max_count=3, overflow="ring", flow_stop_count=2), 9)


def test_it_is_part_of_the_snapshot():
    state = queue(flow_stop_count=1)
    send(state, 2)
    other = queue(flow_stop_count=1)
    other.restore(state.snapshot())
    other.fill(dict(state.blobs))
    assert other.flow_stopped and other.digest() == state.digest()
