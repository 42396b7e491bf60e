"""Whether the client of an exclusive queue is connected, as a function of the cluster stream (`protocol/wiring/exclusives.py`)."""

from __future__ import annotations

import pytest
from mantamq.protocol.wire.events import (
    AnyEvent,
    Bind,
    DeclareQueue,
    DeleteQueue,
    Evict,
    Exclusive,
    InUse,
    Lost,
    Member,
    Rejoin,
    Return,
    Unbind,
)
from mantamq.protocol.wiring.snapshot import Presence
from mantamq.protocol.wiring.wiring import Outcome, Wiring
from msgspec.structs import replace

ID = "q#1"
OWN = {"manta.exclusive": True, "qpid.auto_delete_timeout": 3}


def declare(client: str = "c", broker: str = "b1", life: int = 1, inc: int = 1, **more: object) -> DeclareQueue:
    return DeclareQueue("q", OWN | more, client=client, broker=broker, inc=inc, life=life)


class Told:
    """A wiring with the queue "q", which client "c" has for itself by its connection to "b1"."""

    def __init__(self, **more: object) -> None:
        self.wiring = Wiring()
        self.index = 0
        self.tell(declare(**more))

    def tell(self, *events: AnyEvent) -> Outcome:
        outcome = Outcome()
        for event in events:
            self.index += 1
            outcome = self.wiring.apply(event, self.index)
        return outcome

    @property
    def at(self) -> str:
        one = self.wiring.exclusives.present.get(ID)
        return one.broker if one is not None else ""


def here(broker: str, life: int, on: bool = True, inc: int = 1, closed: bool = False) -> Exclusive:
    return Exclusive(ID, broker, inc, on, life, closed)


def test_it_is_its_client_s_from_its_declaration_on():
    told = Told()
    assert told.at == "b1" and not told.wiring.left()
    assert told.tell(declare("d", "b2")).code == "in-use" and told.tell(DeclareQueue("q", OWN)).code == "in-use"
    assert told.tell(DeclareQueue("q", {})).code == "in-use", "whatever else it says"
    assert told.tell(declare(life=2)).code == "" and told.wiring.exclusives.present[ID].life == 2
    assert told.tell(declare(other=1)).code == "exists"
    told.tell(here("b1", 2, False))
    assert told.at == "" and told.wiring.left() == {(ID, 7): 3}
    assert not told.tell(DeleteQueue("q", id=ID, vacant=6)).changed
    assert told.tell(DeleteQueue("q", id=ID, vacant=7)).changed and not told.wiring.exclusives.of
    assert told.tell(declare("d", "b2")).changed and told.wiring.exclusives.of == {"d": ["q#10"]}


def test_what_another_client_asks_is_refused_where_it_applies():
    """Its broker may not have known the queue when it was asked."""
    told, bind = Told(), Bind("amq.fanout", "q", "", {})
    for wrong in (DeleteQueue("q", client="d"), replace(bind, client="d"), Unbind("amq.fanout", "q", "", client="d")):
        assert told.tell(wrong).code == "in-use", wrong
    assert told.tell(replace(bind, client="c")).changed
    assert told.tell(Unbind("amq.fanout", "q", "", client="d")).code == "in-use"
    assert told.tell(Unbind("amq.fanout", "q", "", client="c")).changed
    assert told.tell(DeleteQueue("q", client="c")).changed
    assert told.tell(DeclareQueue("q", {}), replace(bind, client="d"), DeleteQueue("q", client="d")).changed


def test_a_later_connection_takes_over_and_an_earlier_one_does_not():
    told = Told()
    told.tell(here("b2", 2))
    assert told.at == "b2"
    told.tell(here("b1", 1, False))
    assert told.at == "b2" and not told.wiring.left(), "the earlier one is noticed late"
    told.tell(here("b1", 1), here("b3", 2))
    assert told.at == "b2"
    told.tell(here("b2", 2, False), here("b1", 1))
    assert told.at == "" and told.wiring.left() == {(ID, 6): 3}, "one that its client has left long ago"
    told.tell(here("b3", 2))
    assert told.at == "b3" and not told.wiring.left(), "who comes again in time"
    assert told.tell(Exclusive("none#3", "b1", 1, True, 1)).code == ""


def test_a_connection_that_was_closed_is_not_waited_for():
    told = Told()
    told.tell(here("b1", 1, False, closed=True))
    assert told.wiring.left() == {(ID, 2): 0}
    told.tell(here("b2", 2))
    assert not told.wiring.left()
    told.tell(here("b2", 2, False))
    assert told.wiring.left() == {(ID, 4): 3}, "this one was not closed"


@pytest.mark.parametrize(
    "event", [Evict("b1", 1), Rejoin("b1", 2), Return("b1", 2), Member("b1", 2, True), Member("b1", 1, False)]
)
def test_a_connection_goes_with_its_broker(event: AnyEvent):
    told = Told()
    told.tell(Evict("b2", 1))
    assert told.at == "b1"
    told.tell(event)
    assert told.at == "" and told.wiring.left() == {(ID, 3): 3}
    told.tell(here("b1", 9))
    assert told.at == "", "that process is out"
    told.tell(declare(life=9))
    assert told.at == "" and told.wiring.left() == {(ID, 3): 3}


def test_declared_by_a_broker_that_is_out_its_time_runs():
    wiring = Wiring()
    wiring.apply(Evict("b1", 1), 1)
    assert wiring.apply(declare(), 2).changed and wiring.left() == {("q#2", 2): 3}


def test_it_goes_with_its_last_consumer_too_if_it_is_declared_so():
    told = Told(**{"manta.auto_delete": True})
    told.tell(InUse(ID, "b1", 1, True), InUse(ID, "b1", 1, False))
    assert told.wiring.left() == {(ID, 3): 3} and told.at == "b1"
    told.tell(here("b1", 1, False))
    assert told.wiring.left() == {(ID, 3): 3, (ID, 4): 3}
    assert told.tell(DeleteQueue("q", id=ID, vacant=3)).changed and not told.wiring.left()


def test_a_snapshot_says_it():
    told = Told()
    told.tell(DeclareQueue("r", OWN, client="c", broker="b1", inc=1, life=1))
    told.tell(Exclusive("r#2", "b1", 1, False, 1, True))
    copy = Wiring.restore(told.wiring.snapshot())
    assert copy.digest() == told.wiring.digest() and copy.left() == {("r#2", 3): 0}
    assert copy.exclusives.present == {ID: Presence(ID, "b1", 1, 1)} and copy.exclusives.of == {"c": [ID, "r#2"]}
    copy.apply(Lost("r#2"), 4)
    assert copy.exclusives.of == {"c": [ID]} and not copy.left()
