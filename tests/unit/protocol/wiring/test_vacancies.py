"""Since when nobody uses a queue that goes by itself, as a function of the cluster stream (`protocol/wiring/vacancies.py`)."""

from __future__ import annotations

import pytest
from mantamq.protocol.errors import BUSY
from mantamq.protocol.queue.settings import AUTO_DELETE_TIMEOUT_S
from mantamq.protocol.wire.events import (
    AnyEvent,
    Condemn,
    DeclareQueue,
    DeleteQueue,
    Evict,
    FlowControl,
    InUse,
    Lost,
    Member,
    Rejoin,
    Return,
    decode_event,
)
from mantamq.protocol.wiring.vacancies import USED
from mantamq.protocol.wiring.wiring import Outcome, Wiring
from msgspec.structs import replace

ID = "q#1"
GOES = {"manta.auto_delete": True, "qpid.auto_delete_timeout": 3}


class Told:
    """A wiring with the queue "q", which goes by itself."""

    def __init__(self, **more: object) -> None:
        self.wiring = Wiring()
        self.index = 0
        self.tell(DeclareQueue("q", GOES | more))

    def tell(self, *events: AnyEvent) -> Outcome:
        """Returns the outcome of the last one."""
        outcome = Outcome()
        for event in events:
            self.index += 1
            outcome = self.wiring.apply(event, self.index)
        return outcome

    def goes(self, vacant: int, id: str = ID) -> bool:
        """Whether the deletion of what was left at that index has effect."""
        return self.tell(DeleteQueue("q", id=id, vacant=vacant)).changed

    @property
    def waits(self) -> dict[tuple[str, int], int]:
        return self.wiring.vacancies.waits()


def used(broker: str, on: bool = True, **more: int) -> InUse:
    return InUse(ID, broker, 1, on, **more)


def test_one_that_goes_only_when_it_is_empty_has_to_be_condemned_for_it():
    told = Told(**{"qpid.lifetime-policy": "delete-if-unused-and-empty"})
    told.tell(used("b1"), used("b1", False))
    assert not told.waits and not told.wiring.left()
    told.wiring = Wiring.restore(told.wiring.snapshot())
    assert told.wiring.vacancies.waits_if_empty() == {(ID, 3): 3}
    assert not told.goes(3)
    deletion = DeleteQueue("q", "b1", 1, 7, ID, 3)
    assert told.tell(deletion).code == BUSY
    assert not told.tell(Condemn(ID, "b1", 1, 7, True, True)).code
    assert not told.tell(replace(deletion, vacant=2)).changed
    assert told.tell(deletion).changed


def test_it_is_left_when_its_last_consumer_in_the_cluster_has_gone():
    told = Told()
    assert not told.waits, "one that has had none stays"
    told.tell(used("b1"), used("b2"), used("b1", False))
    assert not told.waits
    told.tell(used("b2", False))
    assert told.waits == {(ID, 5): 3}
    assert told.goes(5) and told.wiring.queue("q") is None and not told.waits
    assert not told.goes(5), "once"


def test_whoever_comes_again_keeps_it_and_the_next_end_is_another():
    told = Told()
    told.tell(used("b1"), used("b1", False))
    told.tell(used("b2"))
    assert not told.waits and not told.goes(3)
    told.tell(used("b2", False))
    assert told.waits == {(ID, 6): 3} and not told.goes(3), "it was left later than that"
    assert told.goes(6)


@pytest.mark.parametrize(
    "event", [Evict("b1", 1), Rejoin("b1", 2), Return("b1", 2), Member("b1", 2, True), Member("b1", 1, False)]
)
def test_a_consumer_goes_with_its_broker(event: AnyEvent):
    told = Told()
    told.tell(used("b1"), FlowControl("b2", True), Evict("b2", 1))
    assert not told.waits
    told.tell(event)
    assert told.waits == {(ID, 5): 3} and told.goes(5)


def test_consumers_in_line_count_and_so_does_one_that_is_alone():
    told = Told(**{"x-single-active-consumer": True})
    told.tell(used("b1", place=1), used("b2", place=1), used("b1", False, place=1))
    assert not told.waits
    told.tell(used("b2", False, place=1))
    assert list(told.waits) == [(ID, 5)]
    told.tell(InUse(ID, "b1", 1, True, "c/1", 1), InUse(ID, "b2", 1, True, "c/1", 2))
    assert not told.waits, "it has come back at another broker"
    told.tell(used("b1", False))
    assert not told.waits
    told.tell(used("b2", False))
    assert list(told.waits) == [(ID, 9)]


def test_it_is_that_queue_and_no_newer_one_of_its_name():
    told = Told()
    told.tell(used("b1"), used("b1", False), DeleteQueue("q"), DeclareQueue("q", GOES))
    assert not told.goes(3) and not told.goes(3, "q#5") and not told.goes(USED + 5, "q#5")
    assert told.wiring.queue("q") is not None and not told.wiring.vacancies.since
    told.tell(Lost("q#5"))
    assert told.wiring.queue("q") is None and not told.waits


def test_others_stay_and_a_use_of_what_is_not_there_says_nothing():
    told = Told()
    told.tell(
        DeclareQueue("r", {}), InUse("r#2", "b1", 1, True), InUse("r#2", "b1", 1, False), InUse("s#9", "b1", 1, True)
    )
    assert not told.wiring.vacancies.since
    assert not told.tell(DeleteQueue("r", id="r#2", vacant=4)).changed and told.wiring.queue("r")


def test_a_snapshot_says_who_was_left_and_since_when():
    told = Told()
    told.tell(DeclareQueue("r", GOES), InUse("r#2", "b1", 1, True), used("b1"), used("b1", False))
    copy = Wiring.restore(told.wiring.snapshot())
    assert copy.vacancies.since == {ID: 5, "r#2": USED} and copy.digest() == told.wiring.digest()
    copy.apply(InUse("r#2", "b1", 1, False), 6)
    assert copy.vacancies.waits() == {(ID, 5): 3, ("r#2", 6): 3}
    older = Wiring.restore(told.wiring.snapshot()[:8])
    assert not older.vacancies.since
    older.apply(used("b2"), 7)
    assert older.vacancies.since == {ID: USED}, "by its declaration it is known"


def test_how_long_it_waits():
    told = Told()
    told.tell(DeclareQueue("r", {"manta.auto_delete": True}), InUse("r#2", "b1", 1, True), InUse("r#2", "b1", 1, False))
    assert told.waits == {("r#2", 4): AUTO_DELETE_TIMEOUT_S}


def test_an_event_of_an_older_program():
    assert decode_event(bytes.fromhex("9621a171a0000" + "0a0")) == DeleteQueue("q")
