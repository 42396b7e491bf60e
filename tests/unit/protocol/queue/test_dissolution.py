"""A deleted queue's state: all goes to the alternate at once, what comes late too, whatever kind of queue it is."""

from __future__ import annotations

import msgspec
import pytest
from mantamq.protocol.queue.batches import DELETED
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.snapshot import read_snapshot
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.wire.deletion_events import Dissolve
from mantamq.protocol.wire.events import Accept, Acquire, DeadLetterDone, Enqueue, Expire, Own
from mantamq.protocol.wire.settings import read

KINDS = {
    "plain": {},
    "priorities": {"qpid.priorities": 3},
    "fairshare": {"qpid.priorities": 3, "qpid.fairshare": 1},
    "last value": {"qpid.last_value_queue_key": "k"},
    "groups": {"qpid.group_header_key": "k"},
    "turns": {"manta.fair_key": "k"},
    "ring": {"qpid.max_count": 9, "qpid.policy_type": "ring"},
    "limit": {"qpid.max_count": 9},
}


def queue(**arguments: object) -> QueueState:
    settings = read(QueueSettings, {"manta.dead_letters": "all"} | arguments, alternate="lost")
    state = QueueState("q#1", "lost")
    for policy in policies_of(state, settings).of_state:
        state.include(policy)
    return state


def come(state: QueueState, first: int, count: int, expires_ms: int = 0) -> None:
    blobs = [msgspec.msgpack.encode([b"%d" % n, None, {"k": n}]) for n in range(first, first + count)]
    expiry = [edge for n in range(count) for edge in (n, expires_ms)] if expires_ms else []
    state.apply(Enqueue("c/1", [first, first + count - 1], blobs, expiry, [f"{n}" for n in range(count)]))


@pytest.mark.parametrize("kind", KINDS)
def test_all_of_any_kind_of_queue_is_one_batch_in_order(kind):
    traits = {"priorities": 2, "fairshare": 2}.get(kind)
    state = queue(**KINDS[kind])
    blobs = [msgspec.msgpack.encode([b"%d" % n, None, {"k": n}]) for n in range(1, 7)]
    values = (
        [traits if traits is not None else f"{n}" for n in range(6)] if kind not in ("plain", "ring", "limit") else []
    )
    state.apply(Enqueue("c/1", [1, 6], blobs, [0, 500], values))
    state.apply(Own("b1", 1))
    state.apply(Acquire("b1", 1, 1, [7, 2, 3]))
    done = state.apply(Dissolve("b2"))
    assert done.aside == [(1, 6)] and not state.acquired and not state.available.count
    assert state.batches.cause(state.index) == DELETED and state.batches.died == {DELETED: 6}
    assert state.apply(Accept("b1", 1, [7, 2, 3])).lost == [7, 2, 3]
    assert not state.apply(Expire(1000, [1, 1])).aside
    assert not state.apply(Acquire("b1", 1, 1, [8, 1, 1])).positions
    late = state.apply(Enqueue("c/1", [7, 7], [blobs[0]], [], values[:1]))
    assert late.aside == [(7, 7)] and not state.available.count
    assert state.batches.cause(state.index) == DELETED
    assert not state.apply(Dissolve("b2")).effective and not state.apply(Dissolve("b3")).aside
    for batch in list(state.batches):
        state.apply(DeadLetterDone(batch))
    assert not state.blobs and state.batches.dissolved == ["b2", "b3"] and state.dead_lettered == 7


def test_an_update_knows_that_it_is_deleted():
    state = queue()
    come(state, 1, 3)
    state.apply(Dissolve("b1"))
    again = queue()
    again.restore(read_snapshot(msgspec.msgpack.decode(msgspec.msgpack.encode(state.snapshot()))))
    again.fill(dict(state.blobs))
    for one in (state, again):
        come(one, 4, 1)
        assert one.batches.dissolved == ["b1"] and not one.available.count and one.dead_lettering.count == 4
    assert again.digest() == state.digest()


def test_one_that_sends_only_what_is_rejected_knows_nothing_of_it():
    state = queue(**{"manta.dead_letters": "rejected"})
    come(state, 1, 2)
    assert not state.apply(Dissolve("b1")).effective and state.available.count == 2


def test_it_holds_no_producers_back_whatever_comes_late():
    state = queue(**{"qpid.flow_stop_count": 4, "qpid.flow_resume_count": 3})
    come(state, 1, 5)
    assert state.flow_stopped
    state.apply(Dissolve("b2"))
    assert not state.flow_stopped
    come(state, 6, 5)
    assert not state.flow_stopped and state.flow_stopped_count == 1
    come(state, 11, 5)
    assert not state.flow_stopped and state.flow_stopped_count == 1
