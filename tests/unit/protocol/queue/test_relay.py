"""The queue of an exchange that numbers or keeps its messages: which batch is on its way, and what stays behind it."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.relay import AGAIN, Addressed, address, addressed, as_sent
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.wire.events import Acquire, AnyEvent, DeadLetterDone, Enqueue, Evict, Own, Purge, Return
from mantamq.protocol.wire.message import Header, encode, header
from msgspec.structs import replace

NO_MESSAGES = [b"", b"raw", b"\x91\x01", b"\xc1"]


def message(body: bytes = b"x", **fields: Any) -> bytes:
    return encode(Header(body, **fields))  # type: ignore[arg-type]


def relay(keeps: bool = False) -> QueueState:
    state = QueueState("manta.exchange.x#1")
    settings = QueueSettings(exchange="x", exchange_sequence=True, exchange_initial=keeps)
    for policy in policies_of(state, settings).of_state:
        state.include(policy)
    return state


def came(
    broker: str, count: int = 1, numbers: tuple[int, int] | None = None, expiry: list[int] | None = None
) -> Enqueue:
    """So many messages, taken in by that broker; `numbers`: of client c/1."""
    blobs = [addressed(message(), ["k"], broker)] * count
    return Enqueue("c/1" if numbers else "", list(numbers or ()), blobs, expiry or [])


def on(*events: AnyEvent, keeps: bool = False) -> QueueState:
    """Such a queue to which that has happened; the first of it is event 1."""
    state = relay(keeps)
    for event in events:
        state.apply(event)
    return state


def kept(state: QueueState) -> list[int]:
    """All that is here; no consumer can have any of it."""
    assert not state.available and not state.acquired
    assert state.dead_lettering.flat() == state.live().flat()
    assert sorted(state.blobs) == [p for a, b in state.live() for p in range(a, b + 1)]
    assert state.bytes == sum(map(len, state.blobs.values()))
    return state.live().flat()


# ---- batches


def test_what_comes_is_a_batch_at_once_and_nobodys_to_acquire():
    state = on(came("b1", 3))
    assert state.batches == {1: ("b1", [1, 3])} and kept(state) == [1, 3]
    state.apply(Own("b1", 1))
    assert state.apply(Acquire("b1", 1, 1, [7, 1, 3])).positions == []
    assert kept(state) == [1, 3]


def test_what_comes_meanwhile_is_the_next_batch_and_begins_when_the_first_has_left():
    state = on(came("b1", 2), came("b2"), came("b3"))
    assert state.batches == {1: ("b1", [1, 2])} and kept(state) == [1, 4]
    assert state.apply(DeadLetterDone(1)).positions == [(1, 2)]
    assert state.batches == {4: ("b3", [3, 4])} and kept(state) == [3, 4] and state.dead_lettered == 2
    state.apply(DeadLetterDone(4))
    assert state.batches == {} and kept(state) == [] and state.dead_lettered == 4
    state.apply(came("b2"))
    assert state.batches == {6: ("b2", [5, 5])}


@pytest.mark.parametrize("keeps", [False, True])
def test_a_batch_that_two_members_finish_has_left_once(keeps: bool):
    state = on(came("b1", 2), came("b2"), DeadLetterDone(1), keeps=keeps)
    before = state.digest(), dict(state.batches)
    for done in (DeadLetterDone(1), DeadLetterDone(99)):
        state.apply(done)
        state.index -= 1  # the place in the stream is all that differs
        assert (state.digest(), state.batches) == before


def test_a_repeat_is_not_taken_twice_and_begins_nothing():
    state = on(came("b1", 2, (1, 2)), DeadLetterDone(1))
    assert not state.apply(came("b1", 2, (1, 2))).effective
    assert state.batches == {} and kept(state) == []
    state.apply(came("b2", 2, (2, 3)))
    assert state.batches == {4: ("b2", [3, 3])} and state.enqueued == 3


def test_messages_keep_their_times_on_the_way():
    state = on(came("b1", 2, expiry=[1, 5000]))
    assert dict(state.expiry.items()) == {2: 5000}
    state.apply(DeadLetterDone(1))
    assert not state.expiry


def test_a_purge_takes_nothing():
    state = on(came("b1", 2), came("b1"))
    assert state.apply(Purge(0)).positions == [] and kept(state) == [1, 3]
    assert state.batches == {1: ("b1", [1, 2])} and state.discarded == 0


# ---- the last message


def test_the_last_message_stays_and_is_the_first_of_the_next_batch():
    state = on(came("b1", 3), keeps=True)
    assert state.apply(DeadLetterDone(1)).positions == [(1, 2)]
    assert state.batches == {} and kept(state) == [3, 3] and state.dead_lettered == 2
    state.apply(came("b2", 2))
    assert state.batches == {3: ("b2", [3, 5])}
    state.apply(DeadLetterDone(3))
    assert state.batches == {} and kept(state) == [5, 5]


def test_it_is_the_first_of_what_has_come_meanwhile_too():
    state = on(came("b1", 2), came("b2"), DeadLetterDone(1), keeps=True)
    assert state.batches == {3: ("b2", [2, 3])} and kept(state) == [2, 3]


@pytest.mark.parametrize("keeps", [False, True])
def test_asked_again_with_nothing_there_it_does_nothing(keeps: bool):
    state = on(DeadLetterDone(AGAIN), keeps=keeps)
    assert state.batches == {}
    state.apply(came("b1"))
    assert state.batches == {2: ("b1", [1, 1])}, "nothing was remembered"


def test_one_that_keeps_nothing_is_not_asked_again():
    state = on(came("b1"), came("b1"), DeadLetterDone(AGAIN))
    assert state.batches == {1: ("b1", [1, 1])}
    state.apply(DeadLetterDone(1))
    assert state.batches == {4: ("b1", [2, 2])}


def test_asked_again_the_last_message_goes_on_once_more_and_every_member_sees_to_it():
    state = on(came("b1", 3), DeadLetterDone(1), DeadLetterDone(AGAIN), keeps=True)
    assert state.batches == {3: ("", [3, 3])}
    assert state.apply(DeadLetterDone(3)).positions == [] and state.batches == {} and kept(state) == [3, 3]
    assert state.dead_lettered == 2, "it has not left"


def test_asked_again_while_a_batch_is_under_way_it_is_remembered_and_comes_behind():
    state = on(came("b1", 2), DeadLetterDone(AGAIN), DeadLetterDone(AGAIN), keeps=True)
    assert state.batches == {1: ("b1", [1, 2]), AGAIN: ("", [])}
    state.apply(DeadLetterDone(1))
    assert state.batches == {4: ("", [2, 2])}
    state.apply(DeadLetterDone(4))
    assert state.batches == {} and kept(state) == [2, 2], "once for both"


def test_what_has_come_besides_goes_along_with_what_is_to_go_again():
    state = on(came("b1"), DeadLetterDone(AGAIN), came("b2"), DeadLetterDone(1), keeps=True)
    assert state.batches == {4: ("", [1, 2])}


# ---- who sees to a batch


def test_a_batch_is_the_brokers_that_took_in_its_newest_message():
    state = on(came("b1"), came("b2"), came("b3"), DeadLetterDone(1))
    assert state.batches == {4: ("b3", [2, 3])}


def test_one_of_a_broker_that_is_out_is_everybodys():
    state = on(came("b1"), came("b2"), Evict("b2", 1), DeadLetterDone(1))
    assert state.batches == {4: ("", [2, 2])}
    state.apply(Return("b2", 2))
    state.apply(came("b2"))
    state.apply(DeadLetterDone(4))
    assert state.batches == {7: ("b2", [3, 3])}, "it is back"


def test_the_batch_under_way_of_a_broker_that_is_put_out_is_told():
    state = on(came("b2"), DeadLetterDone(1), came("b2"))
    assert state.apply(Evict("b1", 1)).orphans == []
    assert state.apply(Evict("b2", 1)).orphans == [3] and state.batches == {3: ("b2", [2, 2])}


def test_nobody_is_asked_for_by_what_is_no_message():
    state = on(Enqueue("", [], [b"raw"]))
    assert state.batches == {1: ("", [1, 1])}


# ---- an update


EVENTS: list[AnyEvent] = [
    came("b1", 2, (1, 2), [1, 5000]), came("b2", 2, (3, 4)), DeadLetterDone(AGAIN), DeadLetterDone(1), came("b3", 1),
    Evict("b3", 1), DeadLetterDone(4), DeadLetterDone(7), DeadLetterDone(AGAIN), came("b1", 2, (1, 2)),
    came("b2", 2, (4, 5)), Return("b3", 2), DeadLetterDone(9), came("b3"), DeadLetterDone(13), DeadLetterDone(14),
]  # fmt: skip


@pytest.mark.parametrize("keeps", [False, True])
def test_a_copy_that_is_brought_up_to_date_anywhere_goes_on_alike(keeps: bool):
    for at in range(len(EVENTS) + 1):
        state, copy = on(*EVENTS[:at], keeps=keeps), on(came("b9", 7), keeps=keeps)
        copy.restore(state.snapshot())
        copy.fill(dict(state.blobs))
        assert copy.digest() == state.digest()
        for event in EVENTS[at:]:
            state.apply(event)
            copy.apply(event)
            assert copy.digest() == state.digest(), (at, state.index)
            assert copy.batches == state.batches and kept(copy) == kept(state)


# ---- addresses

PLAIN = [
    message(b"ab"), message(b"ab", subject="s"), message(b"ab", properties={}), message(b"ab", durable=True),
    message(b"ab", subject="s", properties={"n": 1}, priority=3),
]  # fmt: skip


@pytest.mark.parametrize("sent", PLAIN)
def test_an_address_goes_with_the_message_and_is_taken_off_again(sent: bytes):
    blob = addressed(sent, ["k", "l"], "b1")
    assert address(blob) == Addressed("b1", ["k", "l"], sent)
    assert as_sent(blob, 0) == sent
    assert header(as_sent(blob, 7)).properties == {**(header(sent).properties or {}), "qpid.msg_sequence": 7}
    assert replace(header(as_sent(blob, 7)), properties=None) == replace(header(sent), properties=None)


def test_a_number_that_it_has_from_another_exchange_is_replaced():
    first = as_sent(addressed(message(), ["k"], "b1"), 5)
    assert header(as_sent(addressed(first, ["k"], "b1"), 9)).properties == {"qpid.msg_sequence": 9}
    assert header(as_sent(addressed(first, ["k"], "b1"), 0)).properties == {"qpid.msg_sequence": 5}


@pytest.mark.parametrize("blob", NO_MESSAGES)
def test_what_is_no_message_keeps_its_keys_and_has_no_number(blob: bytes):
    assert address(addressed(blob, ["k"], "b1")) == Addressed("b1", ["k"], blob)
    assert as_sent(addressed(blob, ["k"], "b1"), 7) == blob


@pytest.mark.parametrize("blob", [b"", b"raw", message(), b"\x93\x01\x91\xa1k\xc4\x00", b"\x93\xa2b1\x90\xc4\x00"])
def test_one_that_came_without_an_address_has_the_empty_key_and_is_nobodys(blob: bytes):
    assert address(blob) == Addressed("", [""], blob) and as_sent(blob, 0) == blob


def test_a_batch_goes_by_the_bindings_that_were_told_before_it_began():
    state = on(came("b1"), DeadLetterDone(AGAIN, 7), keeps=True)
    assert (state.wired, state.wired_next) == (0, 7), "the batch that is under way goes as it began"
    state.apply(DeadLetterDone(1, 5))
    assert list(state.batches) == [3] and state.wired == 7, "what is asked again goes by them"
