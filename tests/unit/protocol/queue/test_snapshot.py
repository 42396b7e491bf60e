"""A queue's snapshot, alone: what it holds, the bytes it has always had, and how programs of two versions read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from mantamq.protocol.errors import BAD_FRAME, PeerError
from mantamq.protocol.machine import Close, Received
from mantamq.protocol.queue import snapshot as snapshots
from mantamq.protocol.queue.snapshot import Counters, QueueSnapshot, read_snapshot
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica.machine import ReplicaMachine
from mantamq.protocol.wire.events import Acquire, AnyEvent, Enqueue, Evict, Member, Own, Reject, Release
from mantamq.protocol.wire.framing import FrameBuffer, encode_frame
from mantamq.protocol.wire.log_frames import UpdateStart
from mantamq.protocol.wire.queue_frames import Host

ONE = (1, 7)
HISTORY: list[AnyEvent] = [
    Enqueue("c", [1, 9], [b"%d" % n for n in range(9)], [1, 5000, 8, 6000]),
    Own("b1", 1),
    Acquire("b1", 2, 1, [1, 1, 2, 2, 3, 4]),
    Release("b1", 2, [1, 1, 1]),
    Reject("b1", 2, [2, 3, 3]),
    Evict("b2", 3),
    Member("b3", 4, True),
]
OLD_BYTES = msgspec.msgpack.encode(
    [7, 10, [1, 1, 5, 9], [["b1", 2, 1, [2, 2]], ["b1", 2, 2, [4, 4]]], [3, 3], [[5, "b1", [3, 3]]], [[1, 1]],
     [[2, 5000], [9, 6000]], "b1", 1, [["c", 9]], [["b2", 3], ["b3", 3]], ["b2"], [9, 0, 0, 0, 0, 0]]
)  # fmt: skip
"""What programs before this form of it sent for `HISTORY`."""


class NewerCounters(Counters, frozen=True):
    displaced: int = 7


class Newer(QueueSnapshot, frozen=True):
    """A later version's: its counters have one more, and so has it."""

    counters: NewerCounters
    prepared: list[int] = []


@pytest.fixture
def state() -> QueueState:
    state = QueueState("q#1", "lost")
    for event in HISTORY:
        state.apply(event)
    return state


def newer(state: QueueState) -> Newer:
    fields = msgspec.structs.asdict(state.snapshot())
    return Newer(**fields | {"counters": NewerCounters(9), "prepared": [4, 4]})


def travelled(snapshot: Any) -> UpdateStart:
    """An updater's sync point with this snapshot, as it comes out of the link."""
    start = UpdateStart("q#1", "b2.r0", "b1.r0", 7, ONE, 7, {}, {}, snapshot)
    (frame,) = FrameBuffer().feed(encode_frame(start))
    assert isinstance(frame, UpdateStart)
    return frame


def updatee() -> ReplicaMachine:
    replica = ReplicaMachine("b1.r0", "b1", 1)
    replica.step(Received("b1", Host("q#1", "", {}, ONE, True, 2)))
    return replica


def test_its_bytes_are_what_they_were(state):
    """But for what stands behind them, which those programs pass over."""
    (
        *written,
        counters,
        marks,
        refusals,
        stopped,
        turn,
        tallies,
        uncounted,
        annotations,
        origins,
        runs,
        times,
        causes,
        died,
        dissolved,
        ids,
        id_times,
        delayed,
        targets,
        moves,
        named,
        holders,
        configured,
    ) = msgspec.msgpack.decode(msgspec.msgpack.encode(state.snapshot().for_minor_2()))
    *old, old_counters = msgspec.msgpack.decode(OLD_BYTES)
    assert (written, counters) == (old, [*old_counters, 0, 0, 0, 0, 0])
    assert (marks, refusals, stopped, turn) == ([], [], False, [])
    assert tallies == [9, 1, 0, 0, 0, 0, [], 1, [], 0, 0], "nine bytes came in, and one message came back"
    assert not any((uncounted, annotations, origins, runs, times, causes, died, dissolved, ids, id_times, delayed))
    assert not any((targets, moves, named, holders, *configured))


def test_delivery_counts_are_the_same_to_programs_of_either_version(state):
    for event in (Acquire("b1", 2, 1, [3, 1, 1]), Release("b1", 2, [3, 1, 1]), Evict("b1", 2)):
        state.apply(event)
    now = state.snapshot()
    assert (now.deliveries, now.marks) == ([(1, 2)], [1, 2, 4, 9]), "1 came back twice; the rest may have been seen"
    assert sorted(now.for_minor_2().deliveries) == [(1, 2), (2, 1), *((position, 1) for position in range(4, 10))]
    for form in (now, now.for_minor_2()):
        again = QueueState("q#1", "lost")
        again.restore(read_snapshot(msgspec.msgpack.decode(msgspec.msgpack.encode(form))))
        assert again.snapshot() == now


def test_a_restored_queue_is_the_same_queue(state):
    again = QueueState("q#1", "lost")
    again.restore(read_snapshot(msgspec.msgpack.decode(OLD_BYTES)))
    state.tallies = snapshots.Tallies()  # those programs do not count
    assert again.snapshot() == state.snapshot() and again.blobs == {}
    again.fill(dict(state.blobs))
    assert again.digest() == state.digest()


def test_equal_queues_have_equal_digests_whatever_came_first(state):
    other = QueueState("q#1", "lost")
    for event in [*HISTORY[:5], *HISTORY[:4:-1]]:
        other.apply(event)
    assert other.snapshot() != state.snapshot() and other.digest() == state.digest()
    other.grant += 1
    assert other.digest() != state.digest()


# ---- two versions


def positional(self: QueueState, outline: Any) -> None:
    """`restore` as it was: a list, unpacked."""
    (index, next_position, available, acquired, dead_lettering, batches, deliveries, expiry, owner, grant, numbers, evicted,
     absent, counters) = outline  # fmt: skip


def test_a_longer_one_ended_an_older_program(state, monkeypatch):
    monkeypatch.setattr("mantamq.protocol.replica.catch_up.read_snapshot", lambda state: state)
    monkeypatch.setattr(QueueState, "restore", positional)
    with pytest.raises(ValueError, match="too many values"):
        updatee().step(Received("b2.r0", travelled(newer(state))))


def test_a_longer_one_of_a_newer_program_is_read(state):
    replica = updatee()
    replica.step(Received("b2.r0", travelled(newer(state))))
    assert replica.queues["q#1"].updating
    assert replica.queues["q#1"].state.snapshot() == state.snapshot()


def test_a_shorter_one_of_an_older_program_is_read(state, monkeypatch):
    monkeypatch.setattr(snapshots, "QueueSnapshot", Newer)
    read = read_snapshot(travelled(state.snapshot()).state)
    assert isinstance(read, Newer) and read.prepared == [] and read.counters.displaced == 7
    replica = updatee()
    replica.step(Received("b2.r0", travelled(state.snapshot())))
    assert replica.queues["q#1"].updating


# ---- what is none

NONE: dict[str, Callable[[list[Any]], Any]] = {
    "nothing": lambda fields: None,
    "a map": lambda fields: {"index": 1},
    "the wiring's": lambda fields: [[], [], []],
    "too short": lambda fields: fields[:13],
    "another type": lambda fields: [*fields[:8], 5, *fields[9:]],
    "half a range": lambda fields: [*fields[:2], [1], *fields[3:]],
    "a range that ends before it begins": lambda fields: [*fields[:2], [5, 4], *fields[3:]],
    "positions that are not given out": lambda fields: [*fields[:4], [10, 10], *fields[5:]],
    "a count of what is not there": lambda fields: [*fields[:6], [[10, 1]], *fields[7:]],
    "no count": lambda fields: [*fields[:6], [[1, 0]], *fields[7:]],
    "a mark on what is not there": lambda fields: [*fields, [9, 10]],
    "no position": lambda fields: [*fields[:5], [[5, "b1", [0, 3]]], *fields[6:]],
}


@pytest.mark.parametrize("case", NONE)
def test_an_updater_that_sends_none_is_refused(case, state):
    wrong = NONE[case](msgspec.msgpack.decode(OLD_BYTES))
    with pytest.raises(PeerError, match=BAD_FRAME):
        read_snapshot(wrong)
    replica = updatee()
    (closed,) = replica.step(Received("b2.r0", travelled(wrong)))
    assert isinstance(closed, Close) and (closed.peer, closed.code) == ("b2.r0", BAD_FRAME)
    queue = replica.queues["q#1"]
    assert not queue.updating and queue.state.snapshot() == QueueState("q#1").snapshot() and not queue.keeper.end
    replica.step(Received("b3.r0", travelled(state.snapshot())))
    assert queue.updating, "another updater is welcome"
