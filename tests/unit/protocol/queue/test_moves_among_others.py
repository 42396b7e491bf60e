"""Moves of messages where a queue is deleted, delays, lets messages live so long, or takes each message id once."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from mantamq.protocol.capture.event_rows import rows
from mantamq.protocol.queue.batches import DELETED, MAXLEN
from mantamq.protocol.queue.moves import MOVED, MoveProgress, MoveTarget
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.snapshot import read_snapshot
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.queue.statistics import figures
from mantamq.protocol.queue.time_to_live import by_senders
from mantamq.protocol.queue.traits import carried_of, named_of
from mantamq.protocol.replica.targets import to_target
from mantamq.protocol.wire.deletion_events import Dissolve
from mantamq.protocol.wire.events import Acquire, Due, Enqueue, Entry, Expire, Move, Moved, Own, Purge
from mantamq.protocol.wire.message import Header, encode

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "priorities": {"priorities": 3},
    "last value": {"last_value_key": "k"},
    "groups": {"group_key": "k"},
    "turns": {"fair_key": "k"},
    "stops producers": {"flow_stop_count": 2, "flow_resume_count": 1},
}


def queue(alternate: str = "", **settings: Any) -> QueueState:
    state = QueueState("q#1", alternate)
    for policy in policies_of(state, QueueSettings(alternate=alternate, **settings)).of_state:
        state.include(policy)
    state.apply(Own("b1", 1))
    return state


def come(state: QueueState, count: int, **more: Any) -> None:
    """The header "k" of each says which it is."""
    first = state.next_position
    blobs = [encode(Header(b"m", properties={"k": str(first + n)}, message_id=str(first + n))) for n in range(count)]  # type: ignore[call-arg]
    state.apply(Enqueue("", [], blobs, **more))


def move(state: QueueState, *ranges: int, after: int = 0) -> int:
    """Index of the batch."""
    last = state.next_position - 1
    state.apply(Move("t", "b1", 1, 1, after, ranges[-1], last, list(ranges), "", "to#2", "queue"))
    return state.index


@pytest.mark.parametrize("kind", KINDS)
def test_what_no_queue_takes_of_a_deleted_queues_messages_is_a_letter(kind: str):
    state = queue("lost", dead_letters="all", **KINDS[kind])
    come(state, 4)
    batch = move(state, 1, 3)
    assert state.apply(Dissolve("b1")).aside == [(4, 4)], "the others are on their way elsewhere"
    copy = queue("lost", dead_letters="all", **KINDS[kind])
    copy.restore(read_snapshot(msgspec.msgpack.decode(msgspec.msgpack.encode(state.snapshot()))))
    copy.fill(dict(state.blobs))
    for one in (state, copy):
        done = one.apply(Moved(batch, [2, 3]))
        assert (done.lost, done.aside) == ([0, 1, 1], [(2, 3)])
        assert not one.available.count and one.dead_lettering.flat() == [2, 4]
        assert one.batches.died == {MOVED: 1, DELETED: 3} and one.batches.cause(one.index) == DELETED
        assert (one.moved, figures(one).subscriber, one.batches.moves["t"]) == (1, 0, MoveProgress(3, 4, 3, 2))
        assert not one.flow_stopped
    assert copy.digest() == state.digest()


def test_nothing_is_moved_out_of_a_queue_that_is_deleted():
    state = queue("lost", dead_letters="all")
    come(state, 2)
    state.apply(Dissolve("b1"))
    move(state, 1, 2)
    assert state.batches.died == {DELETED: 2} and not state.batches.moves.targets


def test_what_is_delayed_is_passed_over_and_stays():
    state = queue()
    come(state, 3, delays=[1, 500])
    batch = move(state, 1, 3)
    assert state.dead_lettering.flat() == [1, 1, 3, 3] and state.delayed.ranges.flat() == [2, 2]
    state.apply(Due(500, [2, 2]))
    state.apply(Moved(batch, [3, 3]))
    assert state.available.flat() == [2, 3] and state.moved == 1


def test_a_last_value_that_is_older_than_one_that_was_delayed_does_not_come_back():
    state = queue(last_value_key="k")
    blobs = [encode(Header(body, properties={"k": "same"})) for body in (b"1", b"2")]  # type: ignore[call-arg]
    state.apply(Enqueue("", [], blobs[:1]))
    batch = move(state, 1, 1)
    state.apply(Enqueue("", [], blobs[1:], delays=[0, 500]))
    assert state.apply(Moved(batch, [1, 1])).dropped == [(1, 1, False)]
    assert state.apply(Due(500, [2, 2])).positions == [(2, 2)] and state.available.flat() == [2, 2]


def test_what_is_back_expires_as_it_would_have():
    state = queue(message_ttl_ms=100)
    come(state, 2, at_ms=1000)
    batch = move(state, 1, 2)
    assert not state.apply(Expire(1100, [1, 2])).positions, "it is on its way"
    state.apply(Moved(batch, [2, 2]))
    assert state.apply(Expire(1100, [1, 2])).positions == [(2, 2)] and (state.moved, state.expired) == (1, 1)


def test_a_message_takes_its_senders_time_along_and_leaves_the_queues_behind():
    state = queue(message_ttl_ms=100)
    come(state, 1, at_ms=1000)
    come(state, 3, at_ms=1000, expiry=[0, 1050, 2, 9000])
    come(state, 2, at_ms=1010, expiry=[1, 1020])
    assert dict(state.expiry) == {1: 1100, 2: 1050, 3: 1100, 4: 1100, 5: 1110, 6: 1020}
    assert by_senders(state, [1, 2, 3, 4, 5, 6]) == {2: 1050, 6: 1020}
    assert by_senders(state, [2, 5]) == {2: 1050}
    frame = to_target(state, 9, {p: state.blobs[p] for p in (1, 2, 6)}, MoveTarget("t", "", "to#2", "queue"))
    assert frame.expiry == [1, 1050, 2, 1020], "by their places in the frame"


def test_in_a_queue_without_a_time_of_its_own_all_is_its_senders():
    state = queue()
    come(state, 2, at_ms=1000, expiry=[1, 1050])
    assert by_senders(state, [1, 2]) == {2: 1050} and not by_senders(queue(), [])


def test_what_is_back_is_no_duplicate_of_itself_and_what_is_known_stays_known():
    state = queue(dedupe_window_count=9)
    come(state, 2)
    batch = move(state, 1, 2)
    state.apply(Moved(batch, [1, 1]))
    assert state.available.flat() == [1, 1] and not figures(state).duplicates
    state.apply(Enqueue("q#9@5", [1, 1], [encode(Header(b"m", message_id="2"))]))  # type: ignore[call-arg]
    assert figures(state).duplicates == 1, "one that has gone from here is known as long as any"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "stops producers"])
@pytest.mark.parametrize("overflow", ["ring", "ring-strict", "dead-letter"])
def test_a_ring_that_others_have_filled_meanwhile_has_no_room_for_what_comes_back(kind: str, overflow: str):
    state = queue("lost", max_count=3, overflow=overflow, **KINDS[kind])
    come(state, 3)
    batch = move(state, 1, 3)
    come(state, 2)
    state.apply(Acquire("b1", 1, 1, [9, 4, 4]))
    done = state.apply(Moved(batch, [2, 3]))
    assert state.available.flat() == [3, 3, 5, 5] and state.acquired.messages() == 1, "held is not pushed out"
    if overflow == "dead-letter":
        assert done.aside == [(2, 2)] and state.batches.cause(state.index) == MAXLEN
    else:
        assert done.dropped == [(2, 2, False)] and state.discarded == state.tallies.ring == 1
    told = rows("q#1", Entry((1, 1), 1, "", 0, 0, b""), Moved(batch, [2, 3]), done, 0)
    assert [(row.kind, row.position_first, row.detail) for row in told] == [
        ("moved", 1, ""),
        ("move_back", 2, ""),
        ("set_aside", 2, MAXLEN) if overflow == "dead-letter" else ("discard", 2, ""),
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_since_its_move_names_the_queue_is_no_duplicate(kind: str):
    settings = QueueSettings(dedupe_window_count=9, **KINDS[kind])
    state = queue(dedupe_window_count=9, **KINDS[kind])
    come(state, 2)
    state.apply(Purge(0))
    blobs = [encode(Header(b"m", properties={"k": id}, message_id=id)) for id in ("2", "3")]  # type: ignore[call-arg]
    named, carried = named_of(settings), carried_of(settings)
    assert named is not None and carried is not None
    state.apply(Enqueue("q#9@5", [1, 2], blobs, traits=list(map(named, blobs))))
    assert state.available.flat() == [3, 4] and not figures(state).duplicates
    state.apply(Enqueue("c", [1, 2], blobs, traits=list(map(carried, blobs))))
    assert figures(state).duplicates == 2, "of what it did not know it knows the ids as of all that comes"
    assert len(state.ids) == 3
