"""Since when nobody uses a queue that goes when it is not used, as a function of the cluster stream."""

from __future__ import annotations

from mantamq.protocol.wire.events import AnyEvent, DeclareQueue, DeleteQueue, Evict, InUse
from mantamq.protocol.wiring.idle_queues import sooner
from mantamq.protocol.wiring.wiring import Outcome, Wiring

ID = "q#1"
GOES = {"x-expires": 3000}


class Told:
    """A wiring with the queue "q", which goes when nobody uses it."""

    def __init__(self, **more: object) -> None:
        self.wiring = Wiring()
        self.index = 0
        self.tell(DeclareQueue("q", GOES | more))

    def tell(self, *events: AnyEvent) -> Outcome:
        outcome = Outcome()
        for event in events:
            self.index += 1
            outcome = self.wiring.apply(event, self.index)
        return outcome

    def goes(self, vacant: int) -> bool:
        return self.tell(DeleteQueue("q", id=ID, vacant=vacant)).changed

    @property
    def left(self) -> dict[tuple[str, int], float]:
        return self.wiring.left()


def used(broker: str, on: bool = True) -> InUse:
    return InUse(ID, broker, 1, on)


def test_its_time_begins_with_its_declaration():
    told = Told()
    assert told.left == {(ID, 1): 3.0}
    assert told.goes(1) and told.wiring.queue("q") is None and not told.left
    assert not told.goes(1), "once"


def test_and_anew_with_each_declaration_that_agrees():
    told = Told()
    told.tell(DeclareQueue("q", GOES))
    assert told.left == {(ID, 2): 3.0} and not told.goes(1)
    told.tell(DeclareQueue("q", {"x-expires": 4000}))
    assert told.left == {(ID, 2): 3.0}, "one that is refused is no use"


def test_while_it_has_consumers_it_is_used_and_when_the_last_has_gone_it_is_not():
    told = Told()
    told.tell(used("b1"), used("b2"))
    assert not told.left and not told.goes(1)
    told.tell(DeclareQueue("q", GOES))
    assert not told.left, "it is used all the same"
    told.tell(used("b1", False), Evict("b2", 1))
    assert told.left == {(ID, 7): 3.0} and told.goes(7)


def test_a_snapshot_has_it():
    told = Told()
    told.tell(used("b1"), used("b1", False))
    other = Wiring.restore(told.wiring.snapshot())
    assert other.left() == told.left == {(ID, 3): 3.0} and other.digest() == told.wiring.digest()
    assert not Wiring.restore(told.wiring.snapshot()[:10]).left(), "an older program has not told it"


def test_of_two_reasons_the_sooner_counts():
    told = Told(**{"manta.auto_delete": True, "qpid.auto_delete_timeout": 1})
    told.tell(used("b1"), used("b1", False))
    assert told.left == {(ID, 3): 1}
    assert sooner({("q", 1): 5}, {("q", 1): 2, ("r", 1): 7}) == {("q", 1): 2, ("r", 1): 7}
