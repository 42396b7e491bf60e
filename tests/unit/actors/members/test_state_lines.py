"""A line of the log for each change of state that a broker, or the sequencer that leads, knows of first."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from mantamq.actors.members.broker_log import BrokerLog
from mantamq.actors.members.sequencer_log import SequencerLog
from mantamq.protocol.broker.lifecycle import CUT_OFF
from mantamq.protocol.broker.machine import BrokerMachine
from mantamq.protocol.machine import PeerUp
from mantamq.protocol.store.news import CHECKPOINTED, SLOW
from mantamq.protocol.wire.events import (
    CLUSTER,
    AnyEvent,
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Entry,
    Evict,
    FlowControl,
    Lost,
    Member,
    Rejoin,
    Return,
    Start,
    encode_event,
)
from mantamq.protocol.wire.policy_events import DropPolicy, PutPolicy
from mantamq.protocol.wire.redirect_events import Redirect
from mantamq.protocol.wiring.wiring import Wiring


@pytest.fixture(autouse=True)
def everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="mantamq")


def told(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.getMessage()) for record in caplog.records]


def keys(caplog: pytest.LogCaptureFixture) -> Any:
    (record,) = caplog.records
    return record.args


class Wired:
    """What brokers b1 and b2 log of events that are applied, in life 7 of each."""

    def __init__(self) -> None:
        self.wiring, self.index = Wiring(), 0
        self.logs = [BrokerLog("b1", 7), BrokerLog("b2", 7)]

    def apply(self, event: AnyEvent, origin: str = "b1", inc: int = 7) -> None:
        self.index += 1
        outcome = self.wiring.apply(event, self.index)
        entry = Entry((1, 1), self.index, origin, inc, 1, encode_event(event))
        for log in self.logs:
            log.applied(self.index, entry, event, outcome)


@pytest.mark.parametrize(
    ("event", "line"),
    [
        (DeclareQueue("q", {}), ("INFO", "queue q is declared")),
        (DeclareQueue("q", {}, client="c"), ("DEBUG", "exclusive queue q is declared")),
        (DeleteQueue("old"), ("INFO", "queue old is deleted")),
        (DeleteQueue("mine", client="c"), ("DEBUG", "exclusive queue mine is deleted")),
        (DeclareExchange("e", "direct", {}), ("INFO", "exchange e is declared")),
        (DeleteExchange("x"), ("INFO", "exchange x is deleted")),
        (Bind("x", "old", "k", {}), ("DEBUG", "exchange x is bound to old by 'k'")),
        (PutPolicy("p", ".*", {}), ("INFO", "policy p is put")),
        (Redirect("old", "other"), ("INFO", "queue old is redirected to other")),
    ],
)
def test_one_broker_tells_what_was_asked_of_it(
    caplog: pytest.LogCaptureFixture, event: AnyEvent, line: tuple[str, str]
):
    made = Wired()
    for name in ("old", "other"):
        made.apply(DeclareQueue(name, {}), "")
    made.apply(DeclareQueue("mine", {}, client="c", broker="b1", inc=7, life=1), "")
    made.apply(DeclareExchange("x", "direct", {}), "")
    made.apply(event)
    assert told(caplog) == [line]


def test_what_changes_nothing_and_what_was_asked_of_an_earlier_life_has_no_line(caplog: pytest.LogCaptureFixture):
    made = Wired()
    made.apply(DeclareQueue("q", {}), inc=6)
    made.apply(DeclareQueue("q", {}))
    made.apply(DeleteQueue("nowhere"))
    made.apply(DropPolicy("none"))
    assert told(caplog) == []


def test_a_queue_has_its_name_and_its_id(caplog: pytest.LogCaptureFixture):
    Wired().apply(DeclareQueue("a b", {}, durable=True))
    assert keys(caplog) == {"queue": "a b", "id": "a b#1", "durable": True}


def test_a_store_opens_and_its_disk_fills_up(caplog: pytest.LogCaptureFixture):
    log = BrokerLog("b1", 7)
    log.store_opened(6, False, 3, 40)
    log.disk_pressed(True)
    log.disk_pressed(False)
    log.store_happened(SLOW, "", 2_500_000, "")
    log.store_happened(CHECKPOINTED, "q#1", 100, "")
    assert told(caplog) == [
        ("INFO", "the store of broker b1 is open"),
        ("WARNING", "the disk of broker b1 has no room: transfers wait"),
        ("INFO", "the disk of broker b1 has room again"),
        ("WARNING", "a flush of the store of broker b1 took 2500 ms"),
    ]


def test_clients_are_no_news(caplog: pytest.LogCaptureFixture):
    log = BrokerLog("b1", 7)
    log.client_opened("c")
    log.client_ended("c", "not-allowed")
    log.reading_paused(True)
    log.reading_paused(False)
    assert {level for level, _ in told(caplog)} == {"DEBUG"} and len(caplog.records) == 4


def test_a_broker_that_sends_all_clients_away_says_so_once(caplog: pytest.LogCaptureFixture):
    machine = BrokerMachine("b1", 7, ["b1"], observers=[BrokerLog("b1", 7)])
    for client in ("c1", "c2"):
        machine.step(PeerUp(client))
    machine.connections.close_all(CUT_OFF)
    machine.connections.close_all(CUT_OFF)
    machine.step(PeerUp("c3"))
    machine.connections.close_all("it goes")
    assert told(caplog) == [
        ("WARNING", f"clients have to go, for want of a majority: {CUT_OFF}"),
        ("INFO", "clients have to go: it goes"),
    ]


@pytest.mark.parametrize(
    ("event", "lines"),
    [
        (Start((3, 99)), [("INFO", "sequencer2 leads, in term 3")]),
        (Evict("b1", 9), [("WARNING", "broker b1 is out: it was silent for too long, or its link is gone")]),
        (Rejoin("b1", 9), [("INFO", "broker b1 is up to date, and votes again")]),
        (Return("b1", 9), [("INFO", "broker b1 is back with its log")]),
        (FlowControl("b1", True, "b1 is slow"), [("WARNING", "flow control is on: b1 is slow")]),
        (FlowControl("b1", False), [("INFO", "flow control is off for b1")]),
        (Lost("q#4"), [("ERROR", "queue q is lost: too few brokers have it")]),
        (Member("b4", 1, True), []),  # the supervisor tells of the whole change
    ],
)
def test_the_sequencer_that_leads_tells_what_it_decides(
    caplog: pytest.LogCaptureFixture, event: AnyEvent, lines: list[tuple[str, str]]
):
    SequencerLog("sequencer2").ordered(CLUSTER, encode_event(event))
    assert told(caplog) == lines


def test_of_queues_it_tells_only_who_looks_closely(caplog: pytest.LogCaptureFixture):
    log = SequencerLog("sequencer")
    for event in (Start((3, 99)), Rejoin("b1", 9), Evict("b1", 9)):
        log.ordered("q#4", encode_event(event))
    assert told(caplog) == [
        ("DEBUG", "queue q goes on in term 3"),
        ("DEBUG", "queue q is up to date at broker b1"),
    ]
    caplog.clear()
    caplog.set_level(logging.INFO, logger="mantamq")
    log.ordered("q#4", b"not even looked into")
    assert told(caplog) == []


def test_consume_locks_are_passed_on_by_another(caplog: pytest.LogCaptureFixture):
    SequencerLog("sequencer").duty_passed("ownership", "ownership2", 900)
    assert told(caplog) == [("WARNING", "ownership2 passes consume locks on: ownership is silent")]
