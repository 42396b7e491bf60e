"""A broker's consumers of a queue that gives to one at a time (`protocol/broker/single_active.py`)."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.protocol.broker.consumers import Consumers
from mantamq.protocol.broker.receivers import Receivers
from mantamq.protocol.queue.resumption import ANYBODY
from mantamq.protocol.wire.client_frames import Attached, AttachReceiver, Detached, Flow, FlowDrained
from mantamq.protocol.wire.events import Condemn, DeclareQueue, Evict, InUse, Lift
from mantamq.protocol.wire.log_frames import Request
from mantamq.protocol.wire.queue_frames import Cancel, Cancelled, Consume, Credit

from tests.unit.broker_bench import Bench

ID, REPLICA = "q#1", "b1.r0"


def place(sub: int, on: bool = True, life: int = 1) -> InUse:
    """The consumer `sub` of this broker: that of handle `sub` of client "c"."""
    return InUse(ID, "b1", 5, on, f"c/{sub}", life, sub)


def elsewhere(sub: int, on: bool = True, broker: str = "b2", claim: str = "", life: int = 1) -> InUse:
    return InUse(ID, broker, 1, on, claim or f"d/{sub}", life, sub)


class Line:
    """Receivers of broker b1, whose replica keeps the queue."""

    def __init__(self) -> None:
        self.bench = made = Bench()
        made.apply(DeclareQueue("q", {"x-single-active-consumer": True}))
        self.consumers = Consumers(made.outbox, made.cluster, made.requests)
        self.receivers = Receivers(made.outbox, made.cluster, self.consumers, made.sessions, {ID: REPLICA})
        self.session = made.session()
        self.session.life = 1

    def attach(self, handle: int, **options: Any) -> None:
        self.receivers.attach(self.session, AttachReceiver(handle, "q", **options))

    def tell(self, *events: Any) -> list[Any]:
        """Events are applied; returns what follows, but for requests."""
        self.bench.take()
        for event in events:
            self.receivers.applied(event, self.bench.apply(event))
        return [(peer, frame) for peer, frame in self.bench.take() if type(frame) is not Request]

    def goes(self, sub: int) -> None:
        self.receivers.detach(self.session, sub)
        self.receivers.cancelled(REPLICA, Cancelled(ID, sub))


def test_the_first_gets_messages_and_the_next_when_it_has_gone():
    line = Line()
    line.attach(1)
    assert line.bench.ordered() == [place(1)]
    consume = Consume(ID, 1, "consume", True, [ANYBODY])
    assert line.tell(place(1)) == [("c1", Attached(1, queue=ID)), (REPLICA, consume)]
    line.attach(2)
    line.receivers.flow(line.session, Flow(2, 10))
    line.receivers.flow(line.session, Flow(2, 5, 70))
    assert line.tell(place(2)) == [("c1", Attached(2, queue=ID))]
    line.receivers.flow(line.session, Flow(2, 1, 30))
    line.goes(1)
    assert (REPLICA, Cancel(ID, 1, True)) in line.bench.take()
    assert line.tell(place(1, False)) == [
        ("c1", Detached(1)), (REPLICA, Consume(ID, 2, "consume", True, [ANYBODY])), (REPLICA, Credit(ID, 2, 16, 100)),
    ]  # fmt: skip


def test_of_two_brokers_the_first_in_the_order_of_the_cluster():
    line = Line()
    line.attach(1)
    assert line.tell(elsewhere(1), place(1)) == [("c1", Attached(1, queue=ID))]
    (consume,) = line.tell(elsewhere(1, False))
    assert consume == (REPLICA, Consume(ID, 1, "consume", True, [ANYBODY])), "it waits for what is held"


def test_the_next_comes_when_a_broker_is_evicted():
    line = Line()
    line.attach(1)
    line.tell(elsewhere(1), place(1))
    assert [frame.before for _, frame in line.tell(Evict("b2", 1))] == [[ANYBODY]]


def test_who_comes_from_another_broker_waits_for_what_others_held_as_well():
    line = Line()
    line.attach(1, before=[("b2", 7, [])])
    line.tell(elsewhere(1), place(1))
    assert line.tell(elsewhere(1, False))[0][1].before == [("b2", 7, []), ANYBODY]


def test_who_is_not_first_hears_at_once_that_there_is_nothing_for_it():
    line = Line()
    line.attach(1)
    line.receivers.flow(line.session, Flow(1, 10, drain=True))
    assert line.tell(elsewhere(1), place(1)) == [("c1", Attached(1, queue=ID)), ("c1", FlowDrained(1))]
    assert line.session.receivers[1].credit == 0
    line.receivers.flow(line.session, Flow(1, 3))
    assert line.bench.take() == []
    line.receivers.flow(line.session, Flow(1, 1, drain=True))
    assert line.bench.take() == [("c1", FlowDrained(1))]
    line.receivers.flow(line.session, Flow(1, 2))
    assert [frame.messages for _, frame in line.tell(elsewhere(1, False)) if type(frame) is Credit] == [2]


def test_the_place_of_a_connection_that_is_over_goes_when_what_it_held_is_back():
    line = Line()
    line.attach(1)
    line.attach(2)
    line.tell(place(1), place(2))
    line.receivers.ended(line.session)
    said = line.bench.take()
    ordered = [frame for _, frame in said if type(frame) is Request]
    assert len(ordered) == 1, "that of the one that was not first"
    line.receivers.cancelled(REPLICA, Cancelled(ID, 1))
    assert line.bench.ordered() == [place(1, False)]


def test_a_replica_that_is_lost_gives_nothing_back_that_could_be_waited_for():
    line = Line()
    line.attach(1)
    line.tell(place(1))
    line.receivers.ended(line.session)
    line.bench.take()
    line.receivers.detach_all(ID, "unavailable", "it has gone")
    assert line.bench.ordered() == [place(1, False)]


def test_a_newer_connection_elsewhere_has_the_place():
    line = Line()
    line.attach(1)
    line.tell(place(1))
    cancel, ended = line.tell(elsewhere(4, claim="c/1", life=2))
    assert cancel == (REPLICA, Cancel(ID, 1, True)) and ended[1].code == "in-use"
    late = Line()
    late.tell(elsewhere(4, claim="c/1", life=2))
    late.attach(1)
    ((_, ended),) = late.tell(place(1))
    assert ended.code == "in-use" and "has come back at b2" in ended.text and not late.receivers.subs


def test_a_queue_that_may_be_about_to_go_is_waited_for():
    line = Line()
    line.bench.apply(Condemn(ID, "b2", 1, 1, True, False))
    line.attach(1)
    assert line.bench.take() == []
    line.bench.apply(Lift(ID, "b2", 1, 1))
    line.consumers.resumed()
    assert line.bench.ordered() == [place(1)]
    line.bench.apply(Condemn(ID, "b2", 1, 2, True, False))
    assert line.tell(place(1)) == []
    line.bench.apply(Lift(ID, "b2", 1, 2))
    line.consumers.resumed()
    assert line.bench.ordered() == [place(1)]
    assert len(line.tell(place(1))) == 2


@pytest.mark.parametrize("there", [True, False])
def test_they_end_with_their_queue(there):
    line = Line()
    line.attach(1)
    if there:
        line.tell(place(1))
    line.bench.take()
    line.receivers.undeclared(ID, "deleted", "it was deleted")
    assert [frame.code for _, frame in line.bench.take()] == ["deleted" if there else "not-found"]
    assert not line.receivers.subs and not line.consumers.lines.undeclared(ID)


def test_places_are_said_again_when_the_brokers_are_asked_to():
    line = Line()
    line.attach(1)
    line.tell(place(1))
    line.consumers.recount()
    assert line.bench.ordered() == [place(1)] and line.tell(place(1)) == []


def test_browsers_do_not_stand_in_line_and_nobody_is_alone():
    line = Line()
    line.attach(1, mode="browse")
    assert [type(frame) for _, frame in line.bench.take()] == [Consume, Attached]
    line.attach(2, exclusive=1)
    ((_, refused),) = line.bench.take()
    assert refused.code == "not-allowed" and "leave exclusive away" in refused.text
