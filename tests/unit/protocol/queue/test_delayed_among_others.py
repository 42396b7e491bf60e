"""Delayed messages where a queue is deleted, has a time to live, or takes each message id once: as the stream is applied."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from mantamq.protocol.queue.batches import DELETED
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.snapshot import read_snapshot
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.queue.statistics import figures
from mantamq.protocol.wire.deletion_events import Dissolve
from mantamq.protocol.wire.events import Acquire, DeadLetterDone, Due, Enqueue, Expire, Own, Purge, Release
from mantamq.protocol.wire.message import Header, encode

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "priorities": {"priorities": 3},
    "shares": {"priorities": 3, "fairshare": 1},
    "last value": {"last_value_key": "k"},
    "groups": {"group_key": "k"},
    "turns": {"fair_key": "k"},
    "ring": {"max_count": 9, "overflow": "ring"},
    "limit": {"max_count": 9},
    "ids": {"dedupe_window_count": 9},
}
TIMES_MS = [0, 500, 3, 900]
"""As in an enqueue: the first and the fourth message are delayed."""


def queue(alternate: str = "", **settings: Any) -> QueueState:
    state = QueueState("q#1", alternate)
    for policy in policies_of(state, QueueSettings(alternate=alternate, **settings)).of_state:
        state.include(policy)
    state.apply(Own("b1", 1))
    return state


def dying(kind: str) -> QueueState:
    return queue("lost", dead_letters="all", **KINDS[kind])


def message(number: int, id: str | None = None) -> bytes:
    return encode(Header(b"%d" % number, properties={"k": str(number)}, message_id=id))  # type: ignore[call-arg]


def come(state: QueueState, *ids: str | None, first: int = 1, delays: list[int] = TIMES_MS, **more: Any) -> Any:
    """Messages from that number on, of a client, as a broker gives them that has no traits for them."""
    last = first + len(ids) - 1
    blobs = [message(first + index, id) for index, id in enumerate(ids)]
    return state.apply(Enqueue("c/1", [first, last], blobs, delays=delays, **more))


def copied(state: QueueState, copy: QueueState) -> QueueState:
    copy.restore(read_snapshot(msgspec.msgpack.decode(msgspec.msgpack.encode(state.snapshot()))))
    copy.fill(dict(state.blobs))
    return copy


# ---- deleted


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_delayed_in_a_deleted_queue_goes_to_the_alternate_at_once(kind: str):
    state = dying(kind)
    come(state, None, None, None, None)
    state.apply(Acquire("b1", 1, 1, [1, 2, 2]))
    assert state.delayed.ranges.flat() == [1, 1, 4, 4]
    done = state.apply(Dissolve("b1"))
    assert done.aside == [(1, 4)] and state.batches.died == {DELETED: 4}, "in the order in which they came"
    assert not state.delayed and not state.available.count and not state.acquired
    assert not state.apply(Due(9_999, [1, 4])).positions, "what is on its way is not due any more"
    state.apply(DeadLetterDone(state.index - 1))
    assert not state.blobs and state.dead_lettered == 4


@pytest.mark.parametrize("kind", KINDS)
def test_what_comes_late_and_delayed_does_not_wait_in_a_queue_that_is_gone(kind: str):
    state = dying(kind)
    state.apply(Dissolve("b1"))
    copy = copied(state, dying(kind))
    for one in (state, copy):
        done = come(one, None, None, None, None)
        assert done.aside == [(1, 4)], "also where all of it is delayed"
        assert come(one, None, first=5, delays=[0, 700]).aside == [(5, 5)]
        assert not one.delayed and not one.available.count and one.dead_lettering.flat() == [1, 5]
    assert copy.digest() == state.digest()


def test_one_that_is_deleted_while_it_holds_its_producers_back_says_so_no_more():
    state = queue("lost", dead_letters="all", flow_stop_count=3, flow_resume_count=2)
    come(state, None, None, None, None)
    assert state.flow_stopped, "delayed ones count"
    state.apply(Dissolve("b1"))
    come(state, None, first=5, delays=[0, 700])
    assert not state.flow_stopped


def test_producers_go_on_when_a_value_is_due_that_a_newer_one_has_replaced_meanwhile():
    state = queue(last_value_key="k", flow_stop_count=2, flow_resume_count=2)
    blob = message(1)
    for delays in ([0, 500], [0, 700], [0, 900]):
        state.apply(Enqueue("", [], [blob], delays=delays))
    assert state.flow_stopped
    state.apply(Due(900, [3, 3]))
    assert state.flow_stopped, "three are there"
    state.apply(Due(900, [1, 2]))
    assert (sorted(state.blobs), state.flow_stopped) == ([3], False)


# ---- a time to live


def test_its_time_to_live_begins_when_it_comes_and_not_when_it_is_due():
    state = queue(message_ttl_ms=100)
    come(state, None, None, delays=[0, 1050, 1, 1200], at_ms=1000)
    assert dict(state.expiry) == {1: 1100, 2: 1100}
    assert state.apply(Due(1050, [1, 2])).positions == [(1, 1)]
    assert state.apply(Expire(1100, [1, 2])).positions == [(1, 2)]
    assert not state.delayed and not state.blobs and state.expired == 2


def test_of_a_queue_with_an_alternate_it_is_a_letter_that_waits_no_more():
    state = queue("lost", dead_letters="all", message_ttl_ms=100)
    come(state, None, delays=[0, 1200], at_ms=1000)
    assert state.apply(Expire(1100, [1, 1])).aside == [(1, 1)]
    assert not state.delayed and state.dead_lettering.flat() == [1, 1]


def test_what_comes_back_for_a_while_expires_meanwhile():
    state = queue(message_ttl_ms=100, retry_delay_s=[5])
    come(state, None, delays=[], at_ms=1000)
    state.apply(Acquire("b1", 1, 1, [1, 1, 1]))
    state.apply(Release("b1", 1, [1, 1, 1], True, 1050))
    assert state.delayed.due == {1: 6050}
    assert state.apply(Expire(1100, [1, 1])).positions == [(1, 1)]
    assert not state.delayed and not state.blobs


# ---- each message id once


@pytest.mark.parametrize("kind", KINDS)
def test_an_id_is_known_while_its_message_waits(kind: str):
    state = queue(**KINDS[kind] | {"dedupe_window_count": 9})
    come(state, "a", "b", delays=[0, 500])
    done = come(state, "a", "c", "b", "d", first=3, delays=[0, 50, 1, 60, 3, 70])
    assert [first for first, _, _ in done.dropped] == [3, 5] and figures(state).duplicates == 2
    assert state.delayed.due == {1: 500, 4: 60, 6: 70}, "each of the others has its own"
    copy = copied(state, queue(**KINDS[kind] | {"dedupe_window_count": 9}))
    for one in (state, copy):
        come(one, "d", "e", first=7, delays=[0, 10, 1, 20])
        assert one.delayed.due == {1: 500, 4: 60, 6: 70, 8: 20}
        one.apply(Due(500, [1, 9]))
        assert one.available.flat() == [1, 2, 4, 4, 6, 6, 8, 8] and not one.delayed
    assert copy.digest() == state.digest()


def test_a_delayed_one_that_is_purged_or_expires_is_known_all_the_same():
    state = queue(dedupe_window_s=10)
    come(state, "a", "b", delays=[0, 500, 1, 500], expiry=[1, 100])
    state.apply(Expire(100, [1, 2]))
    state.apply(Purge(0))
    assert not state.blobs and not state.delayed
    come(state, "a", "b", first=3, delays=[])
    assert not state.blobs and figures(state).duplicates == 2


def test_one_that_is_refused_is_not_known_and_may_be_delayed_when_it_comes_again():
    state = queue(dedupe_window_count=9, max_count=2)
    come(state, "a", "a", "b", "c", delays=[0, 300, 1, 400, 2, 500, 3, 600])
    assert (state.delayed.due, state.refused, figures(state).duplicates) == ({1: 300, 3: 500}, 1, 1)
    state.apply(Purge(0))
    come(state, "c", "b", first=5, delays=[0, 800, 1, 900])
    assert state.delayed.due == {5: 800} and state.ids and figures(state).duplicates == 2


def test_what_is_said_again_in_part_has_its_delays_once():
    state = queue(dedupe_window_count=9)
    come(state, "a", "b", delays=[1, 700])
    come(state, "a", "b", "c", "d", delays=[1, 700, 3, 900])
    assert state.delayed.due == {2: 700, 4: 900} and not figures(state).duplicates
