"""Transfers that wait for a queue's word, without a broker around them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from mantamq.protocol.broker.session import Session
from mantamq.protocol.broker.verdicts import Case, Verdicts
from mantamq.protocol.limits import DEFAULT
from mantamq.protocol.wire.verdict_frames import HeldBack, Judge, Judged


class World:
    """A broker of incarnation 7 with one client, which has one sender."""

    def __init__(self, minor: int = 7) -> None:
        self.sent: list[tuple[str, Any]] = []
        outbox: Any = SimpleNamespace(send=lambda peer, frame: self.sent.append((peer, frame)))
        self.replicas = {"q#1": "b1.r0"}
        self.verdicts = Verdicts(outbox, 7, self.replicas)
        self.session = Session("c", DEFAULT)
        self.session.client, self.session.minor = "c", minor
        self.link = self.session.add_sender(3, "", "q")
        self.decided: list[Case] = []

    def case(self, number: int, *queues: str) -> Case:
        case = Case(self.session, self.link)
        for queue in queues:
            self.verdicts.expect(case, queue, number, [number, number])
        case.decided = lambda: self.decided.append(case)
        return case

    def take(self) -> list[tuple[str, Any]]:
        sent, self.sent = self.sent, []
        return sent


@pytest.fixture
def world() -> World:
    return World()


def test_it_is_decided_when_every_queue_has_spoken(world):
    case = world.case(1, "q#1", "p#2")
    world.verdicts.heard(Judged("q#1", 7, [1], [[1, 1]]))
    world.verdicts.heard(Judged("q#1", 7, [1], [[]]))
    assert not world.decided
    world.verdicts.heard(Judged("p#2", 7, [1], [[]]))
    assert world.decided == [case] and case.refused.flat() == [1, 1] and list(case.by) == ["q#1"]


def test_what_was_asked_for_by_an_older_process_of_the_broker_does_not_count(world):
    world.case(1, "q#1")
    world.verdicts.heard(Judged("q#1", 6, [1], [[]]))
    assert not world.decided


def test_a_word_may_come_before_the_answer(world):
    case = Case(world.session, world.link)
    world.verdicts.expect(case, "q#1", 1, [1, 1])
    world.verdicts.heard(Judged("q#1", 7, [1], [[]]))
    assert not case.awaits


def test_a_queue_that_is_gone_holds_nothing_up(world):
    world.case(1, "q#1")
    world.verdicts.heard(Judged("q#1", 7, stopped=True))
    world.verdicts.gone("q#1")
    assert len(world.decided) == 1 and not world.verdicts.stopped
    assert world.take() == [("c", HeldBack(3, ["q"])), ("c", HeldBack(3, []))]


def test_a_replica_that_begins_is_asked_for_what_waits(world):
    world.case(1, "q#1")
    world.case(2, "q#1")
    world.verdicts.heard(Judged("q#1", 7, [1], [[]]))
    world.verdicts.heard(Judged("q#1", 7, again=True))
    asked = ("b1.r0", Judge("q#1", 7, [(2, "c/3", [2, 2])]))
    assert world.take() == [asked]
    world.verdicts.ask("q#1")
    world.verdicts.ask("other#9")
    del world.replicas["q#1"]
    world.verdicts.ask("q#1")
    assert world.take() == [asked]


def test_a_sender_is_told_once_that_it_is_held_back_and_by_whom(world):
    world.case(1, "q#1")
    assert world.take() == []
    world.verdicts.heard(Judged("q#1", 7, stopped=True))
    world.case(2, "q#1", "p#2")
    assert world.take() == [("c", HeldBack(3, ["q"]))]
    world.verdicts.heard(Judged("p#2", 7, stopped=True))
    assert world.take() == [("c", HeldBack(3, ["q", "p"]))]
    world.verdicts.heard(Judged("q#1", 7, [1, 2], [[], []]))
    assert world.take() == [("c", HeldBack(3, ["p"]))]


def test_who_has_gone_or_does_not_know_is_not_told(world):
    world.case(1, "q#1")
    world.verdicts.heard(Judged("q#1", 7, stopped=True))
    world.take()
    world.verdicts.ended(world.session)
    world.verdicts.heard(Judged("q#1", 7, [1], [[]]))
    assert world.take() == []
    older = World(minor=6)
    older.case(1, "q#1")
    older.verdicts.heard(Judged("q#1", 7, stopped=True))
    assert older.take() == []
