"""Who has a queue alone, and who is first in line, as a function of the cluster stream (`protocol/wiring/uses.py`)."""

from __future__ import annotations

import pytest
from mantamq.protocol.wire.events import (
    AnyEvent,
    Condemn,
    DeclareQueue,
    DeleteQueue,
    Evict,
    InUse,
    Member,
    Rejoin,
    Return,
    decode_event,
    encode_event,
)
from mantamq.protocol.wiring.wiring import Wiring

ID = "q#1"


class Told:
    """A wiring with the queue "q"."""

    def __init__(self) -> None:
        self.wiring = Wiring()
        self.tell(DeclareQueue("q", {}))

    def tell(self, event: AnyEvent) -> str:
        self._index = getattr(self, "_index", 0) + 1
        return self.wiring.apply(event, self._index).code

    def claims(self, broker: str, claim: str = "c/1", life: int = 1, inc: int = 1) -> str:
        return self.tell(InUse(ID, broker, inc, True, claim, life))

    def shares(self, broker: str) -> str:
        return self.tell(InUse(ID, broker, 1, True))

    def leaves(self, broker: str) -> str:
        return self.tell(InUse(ID, broker, 1, False))

    @property
    def at(self) -> str:
        """The broker whose consumer has it alone."""
        claim = self.wiring.uses.claims.get(ID)
        return claim.broker if claim is not None else ""


def test_of_two_brokers_one_is_first_and_the_other_refused():
    told = Told()
    assert told.claims("b1") == "" and told.claims("b2", "d/1") == "in-use" and told.shares("b3") == "in-use"
    assert told.at == "b1" and told.wiring.uses.users == {ID: {"b1": 1}}
    assert told.leaves("b1") == "" and told.at == ""
    assert told.shares("b3") == told.shares("b2") == "" and told.claims("b1") == "in-use"
    told.leaves("b3")
    assert told.claims("b1") == "in-use", "one is enough"
    told.leaves("b2")
    assert told.claims("b1") == ""


def test_a_broker_that_shares_has_it_not_alone_before_it_has_said_that_it_left():
    told = Told()
    told.shares("b1")
    assert told.claims("b1") == "in-use"
    told.leaves("b1")
    assert told.claims("b1") == "" and told.shares("b1") == "in-use"


def test_a_claim_passes_to_a_newer_connection_of_its_client_only():
    told = Told()
    told.claims("b1", life=2)
    assert [told.claims("b2", life=life) for life in (1, 2)] == ["in-use"] * 2
    assert told.claims("b2", "c/2", 3) == "in-use", "another receiver of that client"
    assert told.claims("b2", life=3) == "" and told.at == "b2"
    assert told.wiring.uses.users == {ID: {"b2": 1}}
    told.leaves("b1")
    assert told.at == "b2", "the older connection is noticed late"
    assert told.claims("b1", life=2) == "in-use", "and what it said is ordered late"
    assert told.claims("b2", life=3) == "" and told.at == "b2", "said again"


@pytest.mark.parametrize(
    "event", [Evict("b1", 1), Rejoin("b1", 2), Return("b1", 2), Member("b1", 2, True), Member("b1", 1, False)]
)
def test_a_claim_goes_with_its_broker(event):
    told = Told()
    told.claims("b1")
    assert told.tell(event) == "" and told.at == ""
    assert told.claims("b1", life=9) == "busy", "a process that is out"
    assert told.claims("b2", "d/1") == "" and told.at == "b2"


def test_a_claim_goes_with_its_queue_and_not_with_another_broker():
    told = Told()
    told.claims("b1")
    told.tell(Evict("b2", 1))
    assert told.at == "b1"
    told.tell(DeleteQueue("q"))
    assert not told.wiring.uses.claims


def test_an_exclusive_consumer_uses_the_queue():
    told = Told()
    told.claims("b1")
    assert told.tell(Condemn(ID, "b2", 1, 1, True, False)) == "in-use"
    told.leaves("b1")
    assert told.tell(Condemn(ID, "b2", 1, 1, True, False)) == "" and told.claims("b1") == "busy"


def test_events_of_older_and_for_older_programs():
    old = decode_event(bytes.fromhex("9530") + bytes.fromhex("a3712331a2623101c3"))
    assert old == InUse(ID, "b1", 1, True)
    assert encode_event(InUse(ID, "b1", 1, True, "c/1", 2)).hex() == "9830a3712331a2623101c3a3632f310200"


class Line(Told):
    """Of the consumers of the queue, where one at a time gets messages."""

    def comes(self, broker: str, place: int, claim: str = "", life: int = 1, inc: int = 1) -> str:
        return self.tell(InUse(ID, broker, inc, True, claim or f"{broker}/{place}", life, place))

    def goes(self, broker: str, place: int) -> str:
        return self.tell(InUse(ID, broker, 1, False, f"{broker}/{place}", 1, place))

    @property
    def line(self) -> list[tuple[str, int]]:
        return [(one.broker, one.place) for one in self.wiring.uses.lines.get(ID, [])]


def test_consumers_stand_in_line_in_the_order_of_their_coming():
    told = Line()
    assert told.wiring.uses.first(ID) is None
    for broker, place in (("b2", 1), ("b1", 1), ("b2", 2)):
        assert told.comes(broker, place) == ""
    assert told.line == [("b2", 1), ("b1", 1), ("b2", 2)] and told.wiring.uses.users == {ID: {"b1": 1, "b2": 1}}
    assert told.comes("b1", 1) == "" and len(told.line) == 3, "said again"
    told.goes("b2", 1)
    first = told.wiring.uses.first(ID)
    assert first is not None and (first.broker, first.place) == ("b1", 1)
    told.goes("b2", 9)
    told.goes("b1", 1)
    told.goes("b2", 2)
    assert told.wiring.uses.first(ID) is None and not told.wiring.uses.users and not told.wiring.uses.lines


def test_a_newer_connection_has_the_place_of_the_older_one():
    told = Line()
    told.comes("b1", 1, "c/1", 1)
    told.comes("b1", 2, "d/1", 1)
    assert told.comes("b2", 1, "c/1", 2) == "" and told.line == [("b2", 1), ("b1", 2)]
    assert told.comes("b1", 1, "c/1", 1) == "in-use", "the older one's word is ordered late"
    told.goes("b1", 1)
    assert told.line == [("b2", 1), ("b1", 2)]


def test_clients_that_do_not_count_their_connections_come_last():
    told = Line()
    told.comes("b1", 1, "c/1", 0)
    told.comes("b1", 2, "d/1", 1)
    assert told.comes("b2", 1, "c/1", 0) == "" and told.line == [("b1", 1), ("b1", 2), ("b2", 1)]


def test_places_go_with_their_broker_and_their_queue():
    told = Line()
    for broker, place in (("b1", 1), ("b2", 1), ("b1", 2)):
        told.comes(broker, place)
    told.tell(Evict("b1", 1))
    assert told.line == [("b2", 1)] and told.wiring.uses.users == {ID: {"b2": 1}}
    assert told.comes("b1", 3) == "busy", "a process that is out"
    told.tell(DeleteQueue("q"))
    assert not told.wiring.uses.lines and not told.wiring.uses.users


def test_who_stands_in_line_uses_the_queue():
    told = Line()
    told.comes("b1", 1)
    assert told.tell(Condemn(ID, "b2", 1, 1, True, False)) == "in-use"
    told.goes("b1", 1)
    assert told.tell(Condemn(ID, "b2", 1, 1, True, False)) == "" and told.comes("b1", 1) == "busy"
