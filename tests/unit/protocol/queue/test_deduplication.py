"""A queue that takes each message id once within a window, as the stream is applied."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from mantamq.protocol.errors import BAD_FRAME, PeerError
from mantamq.protocol.queue import known_ids
from mantamq.protocol.queue.declared import declared
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import DEDUPE_COUNT, QueueSettings
from mantamq.protocol.queue.snapshot import read_snapshot
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.queue.statistics import figures
from mantamq.protocol.queue.traits import carried_of
from mantamq.protocol.wire.events import Accept, Acquire, Enqueue, Own, Purge
from mantamq.protocol.wire.message import Header, encode


def queue(**settings: Any) -> QueueState:
    state = QueueState("q#1", settings.get("alternate", ""))
    for policy in policies_of(state, QueueSettings(**settings)).of_state:
        state.include(policy)
    state.apply(Own("b1", 1))
    return state


def message(id: Any, body: bytes = b"x", **fields: Any) -> bytes:
    return encode(Header(body, message_id=id, **fields))  # type: ignore[arg-type]


def enqueue(*ids: Any, first: int = 0, at_ms: int = 1, settings: QueueSettings | None = None, **fields: Any) -> Enqueue:
    """Messages with these ids, from the client "c/1" if they have numbers, as a broker makes them or (None) another."""
    blobs = [message(id, **fields) for id in ids]
    carried = carried_of(settings) if settings is not None else None
    traits = list(map(carried, blobs)) if carried is not None else []
    numbers = [first, first + len(ids) - 1] if first else []
    return Enqueue("c/1" if first else "", numbers, blobs, traits=traits, at_ms=at_ms)


def inside(state: QueueState) -> list[int]:
    return sorted(state.blobs)


def test_an_id_that_is_known_does_not_come_in_and_takes_a_position():
    state = queue(dedupe_window_count=100)
    state.apply(enqueue("a", "b"))
    done = state.apply(enqueue("b", "c", "b"))
    assert inside(state) == [1, 2, 4]
    assert (done.positions, done.dropped) == ([(3, 5)], [(3, 3, False), (5, 5, False)])
    told = figures(state)
    assert (state.enqueued, state.discarded, told.duplicates, told.subscriber) == (5, 2, 2, 0)


def test_a_message_without_an_id_always_comes_in():
    state = queue(dedupe_window_s=10)
    state.apply(Enqueue("", [], [message(None), message(None), b"no message"], at_ms=1))
    state.apply(Enqueue("", [], [message(None)], at_ms=1))
    assert inside(state) == [1, 2, 3, 4] and len(state.ids) == 0


def test_ids_of_different_types_are_different_and_long_ones_are_known_too():
    state = queue(dedupe_window_count=100)
    long = "x" * 1000
    state.apply(enqueue(1, 1.0, True, "1", b"1", "", long, long + "y", [1, "a"], {"k": 1}))
    assert len(inside(state)) == 10
    state.apply(enqueue(1, 1.0, True, "1", b"1", "", long, long + "y", [1, "a"], {"k": 1}))
    assert len(inside(state)) == 10
    assert max(map(len, state.snapshot().ids)) <= known_ids.ID_BYTES + 1


def test_by_time_an_id_is_known_for_the_window_from_when_it_came_in():
    state = queue(dedupe_window_s=2)
    state.apply(enqueue("a", at_ms=1_000))
    state.apply(enqueue("a", at_ms=2_999))  # which does not make it known for longer
    assert inside(state) == [1]
    state.apply(enqueue("a", at_ms=3_000))
    assert inside(state) == [1, 3]


def test_the_time_of_a_queue_does_not_go_back():
    state = queue(dedupe_window_s=2)
    state.apply(enqueue("a", at_ms=5_000))
    state.apply(enqueue("b", at_ms=1_000))  # from a broker that is behind: it is 5,000 here
    state.apply(enqueue("b", at_ms=6_999))
    assert inside(state) == [1, 2]
    state.apply(enqueue("b", at_ms=7_000))
    assert inside(state) == [1, 2, 4]


def test_by_count_the_oldest_id_is_forgotten_first():
    state = queue(dedupe_window_count=2)
    state.apply(enqueue("a", "b", "c", "a", "c"))
    assert inside(state) == [1, 2, 3, 4], "a was known no more, c was"
    assert len(state.ids) == 2


def test_by_time_alone_it_knows_so_many():
    assert QueueSettings(dedupe_window_s=5).dedupe_most == DEDUPE_COUNT == 100_000
    assert QueueSettings(dedupe_window_s=5, dedupe_window_count=7).dedupe_most == 7
    assert not QueueSettings().dedupes


def test_what_has_gone_is_known_still():
    state = queue(dedupe_window_count=10)
    state.apply(enqueue("a", "b"))
    state.apply(Acquire("b1", 1, 1, [1, 1, 1]))
    state.apply(Accept("b1", 1, [1, 1, 1]))
    state.apply(Purge(0))
    state.apply(enqueue("a", "b", "c"))
    assert inside(state) == [5]


def test_what_is_sent_again_under_its_number_is_no_duplicate():
    state = queue(dedupe_window_count=10)
    state.apply(enqueue("a", "b", "b", first=1))
    again = state.apply(enqueue("a", "b", "b", first=1))
    assert not again.effective and figures(state).duplicates == 1
    state.apply(enqueue("b", "b", "d", first=2))
    assert (figures(state).duplicates, inside(state)) == (1, [1, 2, 4])


def test_at_a_limit_a_duplicate_needs_no_room_and_what_is_refused_is_not_known():
    state = queue(dedupe_window_count=10, max_count=2, overflow="reject")
    state.apply(enqueue("a", "b", first=1))
    state.apply(enqueue("a", "c", first=3))
    assert (state.refused, figures(state).duplicates) == (1, 1)
    assert state.refusals.within("c/1", 1, 4) == [(4, 4)], "the duplicate is not refused"
    state.apply(Purge(0))
    state.apply(enqueue("c", "a", first=5))
    assert inside(state) == [5]


def test_a_duplicate_pushes_nothing_out_of_a_ring():
    state = queue(dedupe_window_count=10, max_count=2, overflow="ring")
    state.apply(enqueue("a", "b"))
    state.apply(enqueue("a", "b", "a"))
    assert inside(state) == [1, 2]
    state.apply(enqueue("c"))
    state.apply(enqueue("a"))
    assert inside(state) == [2, 6], "what a ring has pushed out is known still"


@pytest.mark.parametrize("kind", [{"priorities": 10}, {"last_value_key": "k"}, {"group_key": "k"}, {"fair_key": "k"}])
def test_together_with_every_kind(kind):
    settings = QueueSettings(dedupe_window_count=10, **kind)
    for made_by in (settings, None):
        state = queue(dedupe_window_count=10, **kind)
        state.apply(enqueue("a", "b", settings=made_by, priority=7, properties={"k": "v"}))
        state.apply(enqueue("b", "c", settings=made_by, priority=2, properties={"k": "w"}))
        wanted = [2, 4] if "last_value_key" in kind else [1, 2, 4]
        assert inside(state) == wanted and figures(state).duplicates == 1


@pytest.mark.parametrize("seed", range(30))
def test_how_messages_were_gathered_changes_nothing(seed):
    rng = random.Random(seed)
    settings: dict[str, Any] = rng.choice([
        {}, {"max_count": 5, "overflow": "reject"}, {"max_count": 5, "overflow": "ring"}, {"priorities": 3},
        {"last_value_key": "k"}, {"max_size": 400, "overflow": "ring-strict"},
    ])  # fmt: skip
    settings |= rng.choice([{"dedupe_window_count": 3}, {"dedupe_window_count": 40}, {"dedupe_window_s": 1}])
    ids = [rng.choice([None, *"abcdefgh"]) for _ in range(60)]
    blobs = [message(id, b"x" * rng.choice([1, 300]), properties={"k": rng.choice("xyz")}) for id in ids]
    times = sorted(rng.choice([0, 300, 700, 1500, 2500]) + 1 for _ in range(60))
    states = []
    for most in (1, 60):
        state, at = queue(**settings), 0
        while at < len(blobs):
            upto = at + 1
            while upto < len(blobs) and upto - at < most and times[upto] == times[at]:
                upto += 1
            state.apply(Enqueue("c/1", [at + 1, upto], blobs[at:upto], at_ms=times[at]))
            at = upto
        states.append(msgspec.structs.replace(state.snapshot(), index=0, batches=[]))
    assert states[0] == states[1]


def test_a_copy_knows_what_the_first_knew():
    settings = {"dedupe_window_s": 5, "dedupe_window_count": 3}
    state, again = queue(**settings), queue(**settings)
    for at_ms, id in enumerate(["a", "b", "c", "d"], 100):
        state.apply(enqueue(id, at_ms=at_ms))
    again.restore(read_snapshot(msgspec.msgpack.decode(msgspec.msgpack.encode(state.snapshot()))))
    again.fill(dict(state.blobs))
    assert again.digest() == state.digest() and len(again.ids) == 3
    for one in (state, again):
        one.apply(enqueue("a", "d", "c", at_ms=200))
        one.apply(enqueue("d", at_ms=5_102))
        one.apply(enqueue("d", at_ms=5_103))
    assert again.digest() == state.digest() and inside(state) == [1, 2, 3, 4, 5, 9]


@pytest.mark.parametrize("wrong", [([b"a"], []), ([b"a"], [1, 2, 1]), ([b"a", b"a"], [1, 2, 1]), ([b"a"], [1, 1])])
def test_a_snapshot_that_does_not_say_when_is_refused(wrong):
    fields = msgspec.structs.asdict(queue(dedupe_window_s=1).snapshot())
    fields |= {"ids": wrong[0], "id_times": wrong[1]}
    with pytest.raises(PeerError, match=BAD_FRAME):
        read_snapshot(msgspec.msgpack.decode(msgspec.msgpack.encode(list(fields.values()))))


def test_a_plain_queue_is_as_it_was():
    state = queue()
    state.apply(enqueue("a", "a"))
    assert inside(state) == [1, 2] and state.policies == [] and state.snapshot().id_times == []


@pytest.mark.parametrize(
    "arguments",
    [{"manta.dedupe_window_s": 0}, {"manta.dedupe_window_count": 1_000_001}, {"manta.dedupe_window_s": "x"}],
)
def test_a_window_that_is_none_is_refused(arguments):
    with pytest.raises(PeerError, match="or leave it out"):
        declared(arguments)
