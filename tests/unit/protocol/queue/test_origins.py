"""Who sent each message of a queue: by what enqueues say anyhow, also when it was updated, and of dead letters."""

from __future__ import annotations

import random

import msgspec
import pytest
from mantamq.protocol.errors import BAD_FRAME, PeerError
from mantamq.protocol.queue.credit import UNLIMITED
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.origins import FORGET, client_in, numbered, origins_of
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.snapshot import read_snapshot
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica.dead_letters import DeadLetters
from mantamq.protocol.wire.events import Accept, Acquire, Enqueue, Own, Purge, Reject, Release


def queue(**settings) -> QueueState:
    state = QueueState("q#1", "lost")
    for policy in policies_of(state, QueueSettings(**settings)).of_state:
        state.include(policy)
    state.apply(Own("b1", 1))
    return state


def come(state: QueueState, client: str, first: int, count: int = 1, **more) -> None:
    state.apply(Enqueue(client, [first, first + count - 1], [b"\x91\xc4\x01m"] * count, **more))


def senders(state: QueueState) -> str:
    return "".join(state.origins.of(position) or "-" for position in sorted(state.blobs))


def travelled(state: QueueState) -> QueueState:
    """The same, after an update or from a checkpoint."""
    again = QueueState("q#1", "lost")
    again.restore(read_snapshot(msgspec.msgpack.decode(msgspec.msgpack.encode(state.snapshot()))))
    again.fill(dict(state.blobs))
    return again


def test_the_client_of_an_enqueue_sent_its_messages():
    state = queue()
    for client, first, count in (("a/1", 1, 2), ("a/2", 1, 1), ("b/1", 1, 1), ("a/1", 3, 1), ("", 0, 1)):
        state.apply(Enqueue(client, [first, first + count - 1] if client else [], [b"m"] * count))
    assert senders(state) == "aaaba-"
    come(state, "a/1", 2, 4)
    assert senders(state) == "aaaba-aa", "what is repeated is left out"
    assert state.snapshot().origins == ["a", "b", ""] and state.snapshot().origin_runs == [1, 0, 4, 1, 5, 0, 6, 2, 7, 0]
    assert senders(travelled(state)) == senders(state) and travelled(state).digest() == state.digest()


@pytest.mark.parametrize(
    ("client", "id"), [("a/1", "a"), ("a/b/12", "a/b"), ("b1.5.c17/3", "b1.5.c17"), ("q#1@7", ""), ("x/y#2@7", ""), ("", "")]
)  # fmt: skip
def test_a_client_id_is_what_stands_before_the_handle(client, id):
    assert client_in(client) == id


def test_of_a_restored_queue_it_is_known_who_goes_on():
    state = queue()
    come(state, "a/1", 1, 2)
    come(state, "b/1", 1, 1)
    again = travelled(state)
    for one in (state, again):
        come(one, "b/1", 2)
        come(one, "a/1", 3)
    assert senders(again) == senders(state) == "aabba" and again.digest() == state.digest()


def test_copies_tell_the_same_whatever_they_have_forgotten():
    rng = random.Random(7)
    state, sent, before = queue(), dict[str, int](), ""
    other, expected, most = queue(), dict[int, str](), 0
    for step in range(1, 3 * FORGET):
        client = rng.choice("abc")
        count = rng.randint(1, 3)
        for one in (state, other):
            come(one, f"{client}/1", sent.get(client, 0) + 1, count)
        if client != before:
            assert len(state.origins._firsts) <= 2 * len(state.blobs) + FORGET
        before = client
        most = max(most, len(state.origins._firsts))
        sent[client] = sent.get(client, 0) + count
        expected |= dict.fromkeys(range(state.next_position - count, state.next_position), client)
        first, last = rng.randint(1, state.next_position), rng.choice([5, *[9] * 20])
        for event in (Acquire("b1", 1, 1, [step, first, first + 9]), Accept("b1", 1, [step, first, first + last])):
            for one in (state, other):
                one.apply(event)
        if step % 700 == 0:
            for one in (state, other):
                one.apply(Purge(0))
        if step % 500 == 0:
            other = travelled(other)
    assert len(state.origins._firsts) < most, "runs of messages that are gone are forgotten"
    assert senders(state) == senders(other) == "".join(expected[position] for position in sorted(state.blobs))
    assert state.digest() == other.digest()


def test_what_no_snapshot_can_say_is_refused():
    state = queue()
    come(state, "a/1", 1, 2)
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(state.snapshot()))
    *fields, named, whose, times, causes, died, targets, moves = fields
    assert (named, whose) == (["a"], [1, 0])
    for names, runs in ((["a"], [1]), (["a"], [1, 1]), (["a"], [3, 0]), (["a"], [0, 0]), (["a"], [2, 0, 1, 0])):
        with pytest.raises(PeerError, match=BAD_FRAME):
            read_snapshot([*fields, names, runs, times, causes, died, targets, moves])


def test_an_update_from_an_older_member_says_nothing_of_it():
    state = queue()
    come(state, "a/1", 1, 2)
    fields = msgspec.msgpack.decode(msgspec.msgpack.encode(state.snapshot()))
    again = QueueState("q#1", "lost")
    again.restore(read_snapshot(fields[:-7]))
    again.fill(dict(state.blobs))
    come(again, "a/1", 3)
    assert senders(again) == "--a"


# ---- dead letters


def test_dead_letters_are_those_of_who_sent_them_first():
    state = queue()
    for client in "aba":
        come(state, f"{client}/{2 if state.next_position == 3 else 1}", 1)
    state.apply(Acquire("b1", 1, 1, [1, 1, 3]))
    state.apply(Reject("b1", 1, [1, 1, 3]))
    letters = DeadLetters(state)
    letters.begin(state.index)
    (letter,) = letters.due()
    assert (letter.origins, letter.origin_of) == (["a", "b"], [0, 1, 0])
    for settings in ({}, {"max_count": 10, "overflow": "reject"}):
        dead = queue(**settings)
        come(dead, "lost/1", 1)
        event = Enqueue("q#1@5", [1, 3], letter.blobs, origins=letter.origins, origin_of=letter.origin_of)
        dead.apply(event)
        dead.apply(event)
        come(dead, "lost/1", 2)
        come(dead, "a/1", 1)
        assert [dead.origins.of(position) for position in range(1, 7)] == ["lost", "a", "b", "a", "lost", "a"]
        assert travelled(dead).digest() == dead.digest()


def test_of_dead_letters_of_an_older_member_nothing_is_known():
    dead = queue()
    dead.apply(Enqueue("a/b#1@5", [1, 2], [b"m", b"m"]))
    dead.apply(Enqueue("a/b#1@6", [1, 2], [b"m", b"m"], origins=["a"], origin_of=[0]))
    assert senders(dead) == "----", "of as many messages as there are, or of none"
    assert numbered(["", ""]) == ([], []) and numbered([]) == ([], []) and numbered(["", "a"]) == (["", "a"], [0, 1])
    assert origins_of(Enqueue("c", [], [b"m"], origins=["a"], origin_of=[3])) == [""]


# ---- who gets what


def given(state: QueueState, dispatcher: Dispatcher) -> list[int]:
    delivered, _ = dispatcher.run(True, iter(range(1, 1000)))
    return [position for one in delivered for first, last in one.parts for position in range(first, last + 1)]


@pytest.mark.parametrize("settings", [{}, {"priorities": 10}, {"fair_key": "k"}], ids=str)
def test_a_consumer_gets_what_others_have_sent(settings):
    state = QueueState("q#1")
    policies = policies_of(state, QueueSettings(**settings))
    for policy in policies.of_state:
        state.include(policy)
    dispatcher = Dispatcher(state, policies.order, policies.allocator)
    state.apply(Own("b1", 1))
    for client, first in (("a/1", 1), ("b/1", 1), ("a/2", 1), ("c/1", 1), ("b/1", 2)):
        come(state, client, first)
    own = dispatcher.subscribe(1, False, True, own="a")
    own.credit.grant(10, UNLIMITED)
    assert given(state, dispatcher) == [2, 4, 5] and not dispatcher.wants(), "the lock is of no more use here"
    state.apply(Acquire("b1", 1, 1, [1, 2, 2, 1, 4, 5]))
    dispatcher.taken.remove(1, 9)
    assert state.available.flat() == [1, 1, 3, 3]
    come(state, "b/1", 3)
    assert dispatcher.wants() and given(state, dispatcher) == [6]
    dispatcher.returned(state.apply(Release("b1", 1, [1, 4, 4])).positions)
    assert given(state, dispatcher) == [4]
    browser = dispatcher.subscribe(2, True, True, own="b")
    browser.credit.grant(10, UNLIMITED)
    assert set(given(state, dispatcher)) >= {1, 3} and 2 not in state.available


def test_with_a_selector_both_count():
    state = queue()
    policies = policies_of(state, QueueSettings())
    dispatcher = Dispatcher(state, policies.order, policies.allocator)
    for number, client in enumerate("aabb", 1):
        state.apply(Enqueue(f"{client}/1", [number, number], [b"%d" % (number % 2)]))
    for id, own, expected in ((1, "a", [3]), (2, "b", [1])):
        one = dispatcher.subscribe(id, False, True, False, lambda blob: blob == b"1", own)
        one.credit.grant(10, UNLIMITED)
        assert given(state, dispatcher) == expected
