"""The sequencer with real keepers: order, commit, answers and repeats."""

from __future__ import annotations

from typing import Any

import pytest
from made_up_logs import ONE
from mantamq.protocol.limits import INCARNATIONS_PER_BROKER
from mantamq.protocol.machine import Flush, PeerDown, Received, Send, Tick
from mantamq.protocol.sequencer.machine import SequencerMachine
from mantamq.protocol.wire.events import CLUSTER, ZERO, Entry, Evict, Start, decode_event
from mantamq.protocol.wire.log_frames import (
    Ack,
    Evicted,
    Gap,
    HeartbeatReply,
    LogDropped,
    LogReport,
    Nack,
    Request,
    Results,
)
from sequencer_in_memory import MEMBERS, Order


def test_a_stream_begins_with_the_start_of_the_term():
    order = Order()
    order.request(1, b"a", b"b")
    assert order.settle() == [("o", Results(1, [1]))]
    start, first, second = order.applied["b2"]
    assert decode_event(start.event) == Start((1, 7)) and start.origin == ""
    assert first == Entry((1, 7), 2, "o", 1, 1, b"a") and second == Entry((1, 7), 3, "o", 1, 1, b"b")


def test_an_answer_waits_for_a_majority():
    order = Order()
    order.settle()
    order.away = {"b2", "b3"}
    order.request(1, b"a")
    assert order.settle() == []
    assert order.events("b1") == [], "one of three is no majority"
    order.tell("b2", Gap((1, 7), "q#1", "b2", 1))  # it missed that one, and is back
    order.away = {"b3"}
    assert order.settle() == [("o", Results(1, [1]))]
    assert order.events("b1") == order.events("b2") == [b"a"]


@pytest.mark.parametrize(("members", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_how_many_make_a_majority(members, needed):
    names = [f"b{n}" for n in range(1, members + 1)]
    for present in range(members + 1):
        order = Order(names)
        order.settle()
        order.away = set(names[present:])
        order.request(1, b"a")
        assert bool(order.settle()) == (present >= needed)


def test_acknowledgements_of_another_term_stream_or_stranger_do_not_count():
    order = Order()
    order.settle()
    order.away = set(MEMBERS)
    order.request(1, b"a")
    order.settle()
    order.tell("b1", Ack((1, 7), "q#1", "b1", 2, 1))
    order.tell("b2", Ack((0, 9), "q#1", "b2", 2, 1))
    order.tell("b2", Ack((1, 7), "r#2", "b2", 2, 1))
    order.tell("b9", Ack((1, 7), "q#1", "b9", 2, 1))
    order.tell("b9", LogReport("q#1", "b9", 2, (1, 7)))
    order.tell("b1", Ack((1, 7), "q#1", "b1", 2, 1))
    assert order.settle() == []
    order.tell("b2", Ack((1, 7), "q#1", "b2", 2, 1))
    assert order.settle() == [("o", Results(1, [1]))]


def test_a_repeat_is_answered_again_and_ordered_once():
    order = Order()
    order.request(1, b"a")
    order.request(1, b"a")
    assert order.settle() == [("o", Results(1, [1]))], "while it is on its way, a repeat has no answer of its own"
    order.request(1, b"a")
    assert order.settle() == [("o", Results(1, [1]))]
    assert order.events("b1") == order.events("b3") == [b"a"]


def test_a_repeat_from_elsewhere_is_answered_there():
    order = Order()
    order.tell("first link", Request("o", 1, 1, [("q#1", b"a")]))
    order.tell("second link", Request("o", 1, 1, [("q#1", b"a")]))
    assert order.settle() == [("second link", Results(1, [1]))]
    assert order.events("b1") == [b"a"]


def test_numbers_that_an_earlier_sequencer_has_answered_are_left_out():
    order = Order()
    order.request(3, b"c")
    order.request(7, b"g")
    assert order.settle() == [("o", Results(1, [3, 7]))]
    order.request(3, b"c")
    assert order.settle() == [("o", Results(1, [3]))]
    assert order.events("b1") == [b"c", b"g"]


def test_each_origin_has_its_own_numbers():
    order = Order()
    order.request(1, b"a", origin="o")
    order.request(1, b"b", origin="p")
    assert order.settle() == [("o", Results(1, [1])), ("p", Results(1, [1]))]


def test_an_older_incarnation_is_ignored_and_a_newer_one_begins_at_one():
    order = Order()
    order.request(1, b"a", inc=2)
    order.request(2, b"old", inc=1)
    order.request(1, b"old", inc=1)
    assert order.settle() == [("o", Results(2, [1]))]
    order.request(1, b"b", inc=3)
    order.request(2, b"old", inc=2)
    assert order.settle() == [("o", Results(3, [1]))]
    assert order.events("b1") == [b"a", b"b"]


def test_one_answer_for_all_parts():
    order = Order()
    order.tell("o", Request("o", 1, 1, [("q#1", b"here"), ("r#2", b"there")]))
    assert order.settle() == [], "stream r#2 has no keepers"
    assert order.events("b1") == [b"here"]
    for name in ("b1", "b3"):
        order.tell(name, LogReport("r#2", name, 0, ZERO))
        order.tell(name, Ack((1, 7), "r#2", name, 2, 2))
    assert order.settle() == [("o", Results(1, [1]))]


def test_a_request_of_nothing_is_answered():
    order = Order()
    order.request(1)
    assert order.settle() == [("o", Results(1, [1]))]


def test_a_keeper_that_was_away_catches_up():
    order = Order()
    order.request(1, b"a")
    order.settle()
    order.leave("b3")
    for number in range(2, 30):
        order.request(number, b"%d" % number)
        assert order.settle() == [("o", Results(1, [number]))]
    assert order.events("b3") == [b"a"]
    order.away = set()
    order.tell("b3", order.keepers["b3"].log_report())
    order.settle()
    assert order.events("b3") == order.events("b1") and len(order.events("b3")) == 29
    order.leave("b1")
    order.request(30, b"last")
    assert order.settle() == [("o", Results(1, [30]))], "and it counts again"


def test_what_an_absent_keeper_lacks_is_not_forgotten_and_what_all_hold_is():
    order = Order()
    order.leave("b3")
    order.request(1, b"a")
    order.settle()
    assert sorted(order.machine.order.streams["q#1"].log) == [1, 2]
    order.away = set()
    order.tell("b3", order.keepers["b3"].log_report())
    order.request(2, b"b")
    order.settle()
    stream = order.machine.order.streams["q#1"]
    assert (stream.log, stream.base, stream.ballot_at(3)) == ({}, 3, (1, 7)), "its ballot, for the next append"
    order.request(3, b"c")
    order.settle()
    assert order.events("b1") == order.events("b3") == [b"a", b"b", b"c"]


def test_wiring_is_answered_when_every_member_that_is_here_shows_it():
    machine = SequencerMachine(7, MEMBERS)
    for name in MEMBERS:
        machine.step(Received(name, LogReport(CLUSTER, name, 0, ZERO)))
    machine.step(Received("o", Request("o", 1, 1, [(CLUSTER, b"declare")])))

    def ack(name: str, applied: int) -> list[Any]:
        machine.step(Received(name, Ack((1, 7), CLUSTER, name, 2, applied)))
        return [effect for effect in machine.step(Flush()) if isinstance(effect, Send)]

    assert ack("b1", 2) == ack("b2", 2) == ack("b3", 1) == []
    assert ack("b3", 2) == [Send("o", Results(1, [1]))]
    machine.step(Received("o", Request("o", 1, 2, [(CLUSTER, b"declare more")])))
    for name in ("b1", "b2"):
        machine.step(Received(name, Ack((1, 7), CLUSTER, name, 3, 3)))
    assert [effect for effect in machine.step(Flush()) if isinstance(effect, Send)] == []
    machine.step(PeerDown("b3"))
    assert Send("o", Results(1, [2])) in machine.step(Flush()), "one whose link broke is not waited for"


def test_a_stream_that_all_have_left_is_forgotten_and_its_requests_are_answered():
    order = Order()
    order.settle()
    order.away = set(MEMBERS)
    order.request(1, b"a")
    for name in MEMBERS:
        assert order.settle() == []
        order.tell(name, LogDropped("q#1", name))
    assert order.settle() == [("o", Results(1, [1]))]
    order.request(2, b"too late")
    assert order.settle() == [("o", Results(1, [2]))]
    assert order.machine.report().streams == {}


def test_deposed_by_a_higher_ballot_it_says_nothing_more():
    order = Order()
    order.request(1, b"a")
    order.settle()
    order.tell("b2", Nack((1, 7)))
    order.tell("b2", Nack((1, 6)))
    assert order.machine.election.deposed is None, "its own ballot, or a lower one, is no news"
    order.tell("b2", Nack((1, 8)))
    assert order.machine.election.deposed == (1, 8)
    machine = order.machine
    for frame in [
        Request("o", 1, 2, [("q#1", b"b")]),
        Request("o", 1, 1, [("q#1", b"a")]),
        Request("o", 1, 9, [("q#1", b"a")]),
        LogReport("q#1", "b1", 0, ZERO),
        Ack((1, 7), "q#1", "b1", 2, 2),
        Gap((1, 7), "q#1", "b1", 0),
        Nack((0, 0)),
    ]:
        assert machine.step(Received("b1", frame)) == []
        assert machine.step(Tick(10_000)) == []
        assert machine.step(Flush()) == []
    assert machine.election.deposed == (1, 8)


def test_an_evicted_broker_learns_of_it_by_its_next_beat():
    machine = SequencerMachine(7, ["b1", "b2"])
    machine.evictions.out["b1"] = 5
    told = machine.step(Received("b1", HeartbeatReply(ONE, 0, "b1", 5)))
    assert [type(effect.frame) for effect in told] == [Evicted]
    assert machine.step(Received("b1", HeartbeatReply(ONE, 0, "b1", 6))) == []


def test_a_deleted_stream_is_dropped_when_its_last_keeper_dies():
    machine = SequencerMachine(7, ["b1", "b2"])
    for name in ("b1", "b2"):
        machine.step(Received(name, LogReport("q#1", name, 0, ZERO)))
    machine.step(Received("o", Request("o", 1, 1, [("q#1", b"x")])))
    machine.step(Received("b1", LogDropped("q#1", "b1")))
    assert Send("o", Results(1, [1])) not in machine.step(Flush())
    machine.step(PeerDown("b2"))
    assert Send("o", Results(1, [1])) in machine.step(Flush())


def test_an_eviction_covers_the_incarnations_of_all_its_queues():
    machine = SequencerMachine(7, ["b1", "b2"])
    for name in ("b1", "b2"):
        machine.step(Received(name, LogReport("q#1", name, 0, ZERO, log_inc=5)))
    machine.step(PeerDown("b1"))  # nothing is known of what it kept any more
    machine.keepers.evict("b1")
    events = [decode_event(entry.event) for entry in machine.order.streams["q#1"].log.values()]
    assert [event.inc for event in events if isinstance(event, Evict)] == [machine.evictions.out["b1"]]
    assert machine.evictions.out["b1"] >= INCARNATIONS_PER_BROKER - 1
