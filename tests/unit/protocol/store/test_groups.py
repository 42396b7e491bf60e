"""What is flushed together, and who is told what of it."""

from __future__ import annotations

from mantamq.protocol.store.groups import Group, Groups, Writer, answers
from mantamq.protocol.store.host import MESSAGES, TX
from mantamq.protocol.wire.events import CLUSTER
from mantamq.protocol.wire.records import ENTRIES, PROMISE
from mantamq.protocol.wire.store_frames import Write, Written

A, B, C = (ENTRIES, "q#1", b"a"), (ENTRIES, "q#2", b"b"), (ENTRIES, CLUSTER, b"c")


def test_one_group_is_in_flight_and_the_next_gathers():
    groups, one = Groups(1000), Writer("b1.r0")
    assert groups.next() is None
    groups.write(one, Write(1, [A]), set())
    groups.write(one, Write(2, [B, C]), set())
    group = groups.next()
    assert group is not None and group.batches == {MESSAGES: [A, B], TX: [C]}
    groups.write(one, Write(3, [A]), set())
    assert groups.next() is None, "one is in flight"
    assert groups.done() is group and groups.flushed == 1
    behind = groups.next()
    assert behind is not None and behind.batches == {MESSAGES: [A]} and groups.number == 2


def test_a_group_takes_no_more_once_it_is_large():
    groups, one = Groups(3), Writer("b1")
    for number in range(1, 6):
        groups.write(one, Write(number, [A]), set())
    assert [len(group.writes) for group in groups.gathering] == [3, 2]


def test_a_promise_goes_to_both_logs():
    group = Group()
    promise = (PROMISE, "", b"p")
    assert group.put(A) == (MESSAGES, 0)
    assert group.put(promise) == (TX, 0)
    assert group.batches == {MESSAGES: [A, promise], TX: [promise]}


def test_each_writer_hears_where_its_records_are():
    groups, one, two, gone = Groups(1000), Writer("b1.r0"), Writer("b1"), Writer("b1.r9")
    groups.write(one, Write(4, [A, B]), set())
    groups.write(two, Write(1, [C]), set())
    groups.write(gone, Write(1, [A]), set())
    groups.write(one, Write(5, [B, A]), {"q#2"})
    group = groups.next()
    gone.linked = False
    lsns = {MESSAGES: [10, 20, 30, 40], TX: [70]}
    assert group is not None and group.batches[MESSAGES] == [A, B, A, A]
    assert answers(group, lsns) == {"b1.r0": Written(5, [10, 20, 0, 40]), "b1": Written(1, [70])}


def test_a_taker_waits_for_the_last_group_that_has_records_of_its_stream():
    groups, one = Groups(1), Writer("b1.r0")
    assert not groups.wait("q#1", "b1.r1", 8)
    groups.write(one, Write(1, [A]), set())
    groups.next()
    groups.write(one, Write(2, [B]), set())
    assert groups.wait("q#1", "b1.r1", 8) and groups.in_flight is not None
    assert groups.in_flight.takes == [("q#1", "b1.r1", 8)]
    groups.write(one, Write(3, [A]), set())
    groups.write(one, Write(4, [B]), set())
    groups.wait("q#1", "b1.r2", 9)
    assert [group.takes for group in groups.gathering] == [[], [("q#1", "b1.r2", 9)], []]
