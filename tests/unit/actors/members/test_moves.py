"""A broker that has moved: in the event table, in the status."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.actors.members.broker_node import BrokerNode
from mantamq.actors.members.member import MemberActor
from mantamq.actors.members.moves import KEPT_S, Moves, moved
from mantamq.protocol.broker.machine import BrokerMachine
from mantamq.protocol.capture.capture import BrokerCapture
from mantamq.protocol.machine import EVENTS, Flush, Members, PeerUp, Received, Send, Tick
from mantamq.protocol.status.cluster import MovedStatus
from mantamq.protocol.status.members import BrokerMember, MoveStatus
from mantamq.protocol.wire.capture_frames import Facts, FactsOffered, FactsWanted, Observation, decode_fact
from msgspec import UNSET

HERE, THERE = "10.0.0.1:5001", "10.0.0.2:5001"


def test_a_move_is_told_once_and_also_when_the_broker_was_away_meanwhile() -> None:
    moves = Moves()
    for at_s, addresses in enumerate(({"b1": HERE, "b2": "10.0.0.3:5001"}, {"b2": "10.0.0.3:5001"})):
        moves.heard(addresses, float(at_s))
        assert moves.report(float(at_s)) == {}
    moves.heard({"b1": THERE, "b2": "10.0.0.3:5001"}, 2.0)
    moves.heard({"b1": THERE}, 3.0)
    assert moves.report(3.0) == {"b1": MoveStatus(before=HERE, address=THERE, at=2.0)}
    assert moves.report(2.0 + KEPT_S) == {}


def test_of_what_brokers_tell_the_last_move_counts() -> None:
    early, late = (MoveStatus(before=HERE, address=THERE, at=at) for at in (1.0, 2.0))
    told: list[Any] = [{"b1": late}, UNSET, {"b1": early, "b2": early}]
    found = [BrokerMember(name="b", role="BrokerNode", moves=moves) for moves in told]
    assert moved(found) == [
        MovedStatus(broker=broker, before=HERE, address=THERE, at=at) for broker, at in (("b1", 2.0), ("b2", 1.0))
    ]


async def test_every_broker_reports_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(self: MemberActor, addresses: dict[str, str]) -> None:
        pass

    monkeypatch.setattr(MemberActor, "members", nothing)
    broker = BrokerNode("b2")
    await broker.members({"b1": HERE})
    await broker.members({"b1": THERE})
    assert (await broker.status())["moves"]["b1"]["address"] == THERE


def test_the_event_table_says_where_a_broker_is_whenever_that_changes() -> None:
    broker = BrokerMachine("b1", 7, ["b1"], observers=[BrokerCapture("b1", 7)])
    broker.step(Tick(1000))
    broker.step(PeerUp(EVENTS))
    for addresses in ({}, {"b1": HERE}, {"b1": HERE, "b2": THERE}, {"b1": THERE}):
        broker.step(Members(addresses))
    sent = broker.step(Flush())
    (offer,) = [e.frame for e in sent if isinstance(e, Send) and isinstance(e.frame, FactsOffered)]
    broker.step(Received(EVENTS, FactsWanted(offer.stream, 0)))
    broker.step(Tick(2000))
    told = broker.step(Flush()) + broker.step(Tick(3000)) + broker.step(Flush())
    facts = [decode_fact(f) for e in told if isinstance(e, Send) and isinstance(e.frame, Facts) for f in e.frame.facts]
    assert [(f.what, f.broker, f.inc, f.detail) for f in facts if isinstance(f, Observation)] == [
        ("address", "b1", 7, HERE),
        ("address", "b1", 7, THERE),
    ]
