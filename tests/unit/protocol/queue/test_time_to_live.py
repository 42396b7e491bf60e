"""A queue that says how long its messages live: the earlier of its time and theirs, in every kind of queue, on every copy."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.queue.declared import declared
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.wire.events import Enqueue, Expire

KINDS: list[dict[str, Any]] = [
    {}, {"qpid.priorities": 3}, {"qpid.priorities": 3, "qpid.fairshare": 1}, {"qpid.group_header_key": "c"},
    {"manta.fair_key": "c"}, {"qpid.max_count": 9, "qpid.policy_type": "ring"}, {"qpid.max_count": 9},
    {"qpid.max_count": 9, "qpid.policy_type": "ring-strict"}, {"qpid.queue_msg_sequence": "n"},
]  # fmt: skip


def queue(arguments: dict[str, Any] | None = None, alternate: str = "") -> QueueState:
    arguments = {"x-message-ttl": 100} | (arguments or {})
    settings = declared(arguments)
    state = QueueState("q#1", alternate)
    for policy in policies_of(state, settings).of_state:
        state.include(policy)
    return state


def test_the_earlier_of_the_two_times_counts():
    state = queue()
    state.apply(Enqueue("c", [1, 3], [b"a", b"b", b"c"], [0, 1050, 1, 1200], at_ms=1000))
    state.apply(Enqueue("c", [4, 5], [b"d", b"e"], at_ms=1010))
    assert dict(state.expiry) == {1: 1050, 2: 1100, 3: 1100, 4: 1110, 5: 1110}
    state.apply(Enqueue("c", [5, 6], [b"e", b"f"], at_ms=9000))
    assert state.expiry[5] == 1110 and state.expiry[6] == 9100, "what is said again came when it came first"


@pytest.mark.parametrize("arguments", KINDS, ids=str)
def test_it_expires_wherever_it_is(arguments: dict[str, Any]):
    state = queue(arguments)
    state.apply(Enqueue("c", [1, 3], [b"a", b"b", b"c"], [1, 1020], [0, 1, 0], at_ms=1000))
    state.apply(Expire(1050, [1, 3]))
    assert list(state.available) == [(1, 1), (3, 3)]
    state.apply(Enqueue("c", [4, 4], [b"d"], [], [0], at_ms=1060))
    state.apply(Expire(1100, [1, 4]))
    assert list(state.available) == [(4, 4)] and dict(state.expiry) == {4: 1160} and state.expired == 3


def test_a_copy_that_is_brought_up_to_date_knows_when():
    state, other = queue(), queue()
    state.apply(Enqueue("c", [1, 2], [b"a", b"b"], at_ms=1000))
    other.restore(state.snapshot())
    other.fill(dict(state.blobs))
    assert other.digest() == state.digest() and dict(other.expiry) == {1: 1100, 2: 1100}
    for copy in (state, other):
        copy.apply(Enqueue("c", [3, 3], [b"c"], at_ms=1001))
    assert other.digest() == state.digest() and other.expiry[3] == 1101


def test_nobody_else_pays_for_it():
    assert not policies_of(QueueState("q#1"), QueueSettings()).of_state
