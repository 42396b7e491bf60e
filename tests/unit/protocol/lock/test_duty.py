"""Two Ownerships: which is on duty, and what the other does meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.lock.duty import Duty
from mantamq.protocol.lock.ownership import OwnershipMachine
from mantamq.protocol.machine import OWNERSHIP, OWNERSHIP2, Flush, PeerDown, PeerUp, Received, Send
from mantamq.protocol.replica.machine import ReplicaMachine
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.events import ZERO, Entry, Own, decode_event, encode_event
from mantamq.protocol.wire.log_frames import Append, Heartbeat, HeartbeatReply, Request
from mantamq.protocol.wire.queue_frames import Contended, Host, Interest, OwnerIs

BOTH = (OWNERSHIP, OWNERSHIP2)
ONE = (1, 7)
MEMBERS = ["b1", "b2", "b3"]
START = 1_000_000


def named(duty: Duty, now_ms: int) -> tuple[str, int]:
    duty.look(now_ms)
    return duty.name, duty.turn


def begun(*answering: str) -> Duty:
    duty = Duty()
    duty.begin(START)
    for peer in answering:
        duty.up(peer)
        assert duty.answered(peer, START)
    return duty


def test_the_first_is_on_duty_and_stays_while_it_answers():
    duty = begun(*BOTH)
    for now_ms in range(START, START + 10_000, 250):
        assert named(duty, now_ms) == (OWNERSHIP, 0)
        for peer in BOTH:
            duty.answered(peer, now_ms)


def test_who_is_silent_for_as_long_as_a_leader_may_be_is_off_duty():
    duty = begun(*BOTH)
    duty.answered(OWNERSHIP2, START + DEFAULT_TIMING.suspect_ms)
    assert named(duty, START + DEFAULT_TIMING.suspect_ms) == (OWNERSHIP, 0)
    assert named(duty, START + DEFAULT_TIMING.suspect_ms + 1) == (OWNERSHIP2, 1)
    duty.answered(OWNERSHIP, START + DEFAULT_TIMING.suspect_ms + 2)
    assert named(duty, START + DEFAULT_TIMING.suspect_ms + 2) == (OWNERSHIP2, 1), "who is back stands by"


def test_a_link_that_is_gone_for_a_quarter_of_a_second_is_enough():
    duty = begun(*BOTH)
    duty.down(OWNERSHIP, START)
    assert named(duty, START + DEFAULT_TIMING.broken_ms) == (OWNERSHIP, 0)
    duty.up(OWNERSHIP)
    duty.down(OWNERSHIP, START + 300)
    assert named(duty, START + 301 + DEFAULT_TIMING.broken_ms) == (OWNERSHIP2, 1)


def test_nobody_is_named_who_does_not_answer():
    duty = begun(OWNERSHIP)
    duty.up(OWNERSHIP2)
    assert named(duty, START + 60_000) == (OWNERSHIP, 0)
    duty.answered(OWNERSHIP2, START + 60_000)
    duty.down(OWNERSHIP2, START + 60_001)
    assert named(duty, START + 60_002 + DEFAULT_TIMING.broken_ms) == (OWNERSHIP, 0)


def test_a_new_leader_takes_the_first_to_answer():
    duty = begun()
    duty.answered(OWNERSHIP2, START + 10)
    assert named(duty, START + DEFAULT_TIMING.broken_ms - 1) == (OWNERSHIP, 0)
    assert named(duty, START + DEFAULT_TIMING.broken_ms) == (OWNERSHIP2, 1)


def test_where_a_cluster_begins_the_first_is_waited_for():
    duty = Duty()
    assert duty.answered(OWNERSHIP2, START)
    assert named(duty, START + DEFAULT_TIMING.first_duty_ms - 1) == (OWNERSHIP, 0)
    duty.answered(OWNERSHIP2, START + DEFAULT_TIMING.first_duty_ms)
    assert named(duty, START + DEFAULT_TIMING.first_duty_ms) == (OWNERSHIP2, 1)


def test_answers_of_brokers_are_none():
    assert not begun().answered("b1", START)


# ---- Ownership


def hears(machine: OwnershipMachine, frame: Any, peer: str = "b1.r0") -> list[Any]:
    effects = machine.step(Received(peer, frame))
    return [effect.frame for effect in [*effects, *machine.step(Flush())] if isinstance(effect, Send)]


def grants(frames: list[Any]) -> list[Any]:
    return [decode_event(event) for f in frames if isinstance(f, Request) for _, event in f.parts]


@pytest.mark.parametrize(("duty", "acts"), [("", OWNERSHIP), (OWNERSHIP, OWNERSHIP), (OWNERSHIP2, OWNERSHIP2)])
def test_only_who_is_on_duty_acts(duty: str, acts: str):
    for name in BOTH:
        machine = OwnershipMachine(5, name=name)
        assert grants(hears(machine, Interest("q#1", "b1", True))) == [], "nobody knows yet who is on duty"
        said = hears(machine, Heartbeat(ONE, 4, 0, None, duty), "sequencer")
        assert [(f.number, f.broker) for f in said if isinstance(f, HeartbeatReply)] == [(4, name)]
        assert grants(said) == ([Own("b1", 1)] if name == acts else [])


def test_who_comes_on_duty_decides_anew():
    machine = OwnershipMachine(5, name=OWNERSHIP2)
    hears(machine, Heartbeat(ONE, 1, 0, None, OWNERSHIP2, 1), "sequencer")
    assert grants(hears(machine, Interest("free#2", "b2", True), "b2.r0")) == [Own("b2", 1)]
    hears(machine, Interest("q#1", "b1", True))
    hears(machine, OwnerIs("q#1", "b1", 7))
    advice = [f for f in hears(machine, Interest("q#1", "b2", True), "b2.r0") if isinstance(f, Contended)]
    assert [(f.grant, f.next, f.ballot, f.turn) for f in advice] == [(7, "b2", ONE, 1)]
    assert hears(machine, Heartbeat(ONE, 2, 0, None, OWNERSHIP, 2), "sequencer")[1:] == []
    assert hears(machine, Interest("q#1", "b3", True), "b3.r0") == [], "off duty"
    said = hears(machine, Heartbeat(ONE, 3, 0, None, OWNERSHIP2, 3), "sequencer")
    assert grants(said) == [Own("b2", 1)], "the other may have asked for another, and that may have been void"
    advice = [f for f in said if isinstance(f, Contended)]
    assert [(f.grant, f.next, f.ballot, f.turn) for f in advice] == [(7, "b2", ONE, 3)], "the other may have said b3"


def test_word_of_an_older_day_changes_nothing():
    machine = OwnershipMachine(5, name=OWNERSHIP2)
    hears(machine, Heartbeat((3, 8), 1, 0, None, OWNERSHIP2, 0), "sequencer2")
    hears(machine, Heartbeat((2, 7), 9, 0, None, OWNERSHIP, 4), "sequencer")
    assert machine.on_duty
    hears(machine, Heartbeat((4, 7), 0, 0, None, OWNERSHIP, 0), "sequencer")
    assert not machine.on_duty


# ---- a replica


def keeper_of_a_queue() -> ReplicaMachine:
    replica = ReplicaMachine("b1.r0", "b1", 1)
    for peer in BOTH:
        replica.step(PeerUp(peer))
    replica.step(Received("b1", Host("q#1", "", {}, ONE, False, 1)))
    return replica


def test_replicas_tell_both():
    replica = keeper_of_a_queue()
    replica.step(Received("b1", Host("q#1", "", {}, ONE, False, 1)))
    entry = Entry(ONE, 1, OWNERSHIP, 1, 1, encode_event(Own("b1", 1)))
    told = replica.step(Received("sequencer", Append(ONE, "q#1", 0, ZERO, 1, 0, [entry])))
    held = OwnerIs("q#1", "b1", 1)
    assert [e for e in told if isinstance(e, Send) and e.frame == held] == [Send(peer, held) for peer in BOTH]
    replica.step(PeerDown(OWNERSHIP))
    assert Send(OWNERSHIP, held) in replica.step(PeerUp(OWNERSHIP))


def test_advice_of_an_older_day_is_not_taken():
    replica = keeper_of_a_queue()
    lock = replica.queues["q#1"].lock
    lock.granted(1, 0)

    def advised(following: str, ballot: tuple[int, int], turn: int) -> str | None:
        replica.step(Received(OWNERSHIP, Contended("q#1", 1, following, 20, ballot, turn)))
        return lock.decide(0, False, True)[0]

    assert advised("b2", (2, 9), 1) == "b2"
    assert advised("b3", (2, 9), 0) == "b2"
    assert advised("b3", (1, 9), 5) == "b2"
    assert advised("b3", (2, 9), 1) == "b3"
    assert advised("b2", (3, 8), 0) == "b2"
    assert advised("b3", ZERO, 0) == "b3", "an Ownership older than this knows no days"
