"""What a queue keeps of named senders: their numbers, however many other clients come, and which has each name."""

from __future__ import annotations

import msgspec
from mantamq.protocol.queue.duplicates import LastNumbers
from mantamq.protocol.queue.named_senders import NamedSenders, client_of
from mantamq.protocol.queue.snapshot import read_snapshot
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.wire.events import Enqueue, Named


def test_others_do_not_make_it_forgotten():
    named = NamedSenders()
    numbers = LastNumbers(bound=3, named=named)
    numbers.note(client_of("import"), 7)
    for n in range(20):
        numbers.note(f"c{n}/1", 1)
    assert numbers.last(client_of("import")) == 7
    assert [numbers.last(f"c{n}/1") for n in (0, 19)] == [0, 1]
    numbers.note(client_of("import"), 9)
    for n in range(20):
        numbers.note(f"d{n}/1", 1)
    assert numbers.last(client_of("import")) == 9


def test_of_more_names_than_so_many_the_one_longest_silent_is_forgotten():
    numbers = LastNumbers(bound=1, named=NamedSenders(most=2))
    for n in range(5):
        numbers.note(client_of(f"n{n}"), n + 1)
    assert [numbers.last(client_of(f"n{n}")) for n in range(5)] == [0, 0, 3, 4, 5]


def test_the_last_to_begin_has_the_name():
    named = NamedSenders()
    assert named.begins(Named("n", "a/1")).effective
    assert named.begins(Named("n", "a/1", again=True)).effective, "it has come back at another broker"
    assert named.begins(Named("n", "b/1")).effective
    assert not named.begins(Named("n", "a/1", again=True)).effective, "a later one has it"
    assert named.holders == {"n": "b/1"}
    assert named.begins(Named("n", "a/2")).effective


def test_a_copy_knows_it_as_well():
    state, again = QueueState("q#1"), QueueState("q#1")
    for one in (state, again):
        one.numbers = LastNumbers(bound=2, named=one.named)
    state.apply(Named("n", "a/1"))
    state.apply(Enqueue(client_of("n"), [1, 5], [b"x"] * 5))
    for n in range(4):
        state.apply(Enqueue(f"c{n}/1", [1, 1], [b"y"]))
    again.restore(read_snapshot(msgspec.msgpack.decode(msgspec.msgpack.encode(state.snapshot()))))
    again.fill(dict(state.blobs))
    again.numbers = LastNumbers(2, again.numbers.table(), again.named)
    assert again.digest() == state.digest()
    for one in (state, again):
        one.apply(Enqueue(client_of("n"), [4, 6], [b"x"] * 3))
        assert one.enqueued == 10 and not one.apply(Named("n", "b/1", again=True)).effective
    assert again.digest() == state.digest()
