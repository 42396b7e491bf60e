"""Messages that go on as an operator orders: what `Move` and `Moved` do to a queue."""

from __future__ import annotations

import msgspec
import pytest
from mantamq.protocol.queue.moves import KEPT, MoveProgress
from mantamq.protocol.queue.snapshot import read_snapshot
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.wire.events import Acquire, Enqueue, Evict, Move, Moved, Own


@pytest.fixture
def state() -> QueueState:
    queue = QueueState("q#1")
    queue.apply(Own("b1", 1))
    queue.apply(Enqueue("", [], [b"1", b"2", b"3", b"4"]))
    return queue


def move(after: int, upto: int, *ranges: int, token: str = "t", grant: int = 1, by: str = "queue") -> Move:
    return Move(token, "b1", 1, grant, after, upto, 4, list(ranges), "", "to#2", by)


def test_what_is_available_is_set_aside_and_goes_when_its_copies_are_there(state: QueueState):
    state.apply(Acquire("b1", 1, 1, [1, 2, 2]))
    assert state.apply(move(0, 3, 1, 3)).aside == [(1, 1), (3, 3)]
    assert state.available.flat() == [4, 4] and state.batches.moves["t"] == MoveProgress(3, 4, 2, 0)
    done = state.apply(Moved(4, [3, 3, 9, 9]))
    assert (done.positions, done.lost) == ([(3, 3)], [0, 1, 1])
    assert state.available.flat() == [3, 4] and state.batches.moves["t"] == MoveProgress(3, 4, 2, 1)
    assert (state.moved, state.dead_lettered, state.batches.died) == (1, 0, {"moved": 1})
    assert not state.dead_lettering and not state.batches and not state.batches.moves.targets
    again = state.apply(Moved(4, [1, 1]))
    assert (again.positions, state.moved) == ([], 1), "whoever else has seen to it changes nothing"


def test_one_that_does_not_go_on_where_the_move_stands_is_void(state: QueueState):
    state.apply(move(0, 2, 1, 1))
    for event in (move(0, 4, 3, 3), move(1, 4, 3, 3), move(2, 4, 3, 3, grant=2)):
        assert not state.apply(event).effective
    assert state.apply(move(2, 4, 3, 3)).aside == [(3, 3)]
    state.apply(Evict("b1", 1))
    assert not state.apply(move(4, 4, 4, 4)).effective
    assert state.available.flat() == [2, 2, 4, 4]


def test_who_finds_nothing_needs_no_lock_and_ends_what_others_have_chosen(state: QueueState):
    assert not state.apply(move(0, 4, 1, 4, grant=2)).effective
    assert state.apply(move(0, 4, grant=2)).effective
    assert not state.apply(move(0, 4, 1, 4)).effective
    assert state.available.flat() == [1, 4] and state.batches.moves["t"] == MoveProgress(4, 4)
    state.apply(Evict("b1", 1))
    assert not state.apply(move(4, 5)).effective, "of who is out"


def test_what_a_dead_broker_saw_to_is_an_orphan(state: QueueState):
    state.apply(move(0, 4, 1, 4))
    assert state.apply(Evict("b1", 1)).orphans == [3]


def test_what_is_discarded_is_gone_at_once(state: QueueState):
    assert state.apply(move(0, 4, 2, 3, by="discard")).positions == [(2, 3)]
    assert (state.tallies.purged, state.discarded, state.available.flat()) == (2, 2, [1, 1, 4, 4])


def test_an_update_brings_it(state: QueueState):
    state.apply(move(0, 2, 1, 2))
    again = QueueState("q#1")
    again.restore(read_snapshot(msgspec.msgpack.decode(msgspec.msgpack.encode(state.snapshot()))))
    again.fill(dict(state.blobs))
    assert again.digest() == state.digest()
    for one in (state, again):
        one.apply(Moved(3, [2, 2]))
        one.apply(move(2, 4, 3, 4))
    assert again.digest() == state.digest() and again.batches.moves["t"] == MoveProgress(4, 4, 4, 1)


def test_so_many_moves_are_remembered(state: QueueState):
    for n in range(KEPT + 1):
        state.apply(move(0, 1, token=str(n)))
    assert len(state.batches.moves) == KEPT and "0" not in state.batches.moves
