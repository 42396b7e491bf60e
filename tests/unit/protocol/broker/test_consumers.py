"""A broker's receivers, and its use of queues (`protocol/broker/receivers.py`, `consumers.py`), without a machine."""

from __future__ import annotations

import pytest
from mantamq.protocol.broker.consumers import Consumers
from mantamq.protocol.broker.receivers import Receivers
from mantamq.protocol.errors import PeerError
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    Delivery,
    Detached,
    Dispose,
    Disposed,
    Flow,
    FlowDrained,
)
from mantamq.protocol.wire.events import Condemn, InUse, Lift
from mantamq.protocol.wire.log_frames import Heartbeat
from mantamq.protocol.wire.queue_frames import (
    Cancel,
    Cancelled,
    Consume,
    Credit,
    Deliver,
    Drained,
    Settle,
    Settled,
)
from mantamq.protocol.wire.version import KNOWS_EXCLUSIVE

from tests.unit.broker_bench import Bench

ON, OFF = InUse("q#1", "b1", 5, True), InUse("q#1", "b1", 5, False)
REPLICA = "b1.r0"


class Alone:
    """Receivers and consumers of a broker whose replica keeps the queue "q"; "r" has none."""

    def __init__(self) -> None:
        self.bench = made = Bench("q", "r")
        self.consumers = Consumers(made.outbox, made.cluster, made.requests)
        self.receivers = Receivers(made.outbox, made.cluster, self.consumers, made.sessions, {"q#1": REPLICA})
        self.session = made.session()

    def attach(self, handle: int = 1, mode: str = "consume", queue: str = "q", exclusive: int = 0) -> None:
        self.receivers.attach(self.session, AttachReceiver(handle, queue, mode, exclusive=exclusive))

    def used(self, event: InUse = ON) -> None:
        """What the broker has asked for is applied."""
        self.receivers.used(event, self.bench.apply(event))

    def consuming(self) -> None:
        self.attach()
        self.used()
        self.bench.take()


def test_the_first_consumer_is_attached_when_its_broker_is_known_to_use_the_queue():
    alone = Alone()
    alone.attach()
    alone.receivers.flow(alone.session, Flow(1, 10))
    assert alone.bench.ordered() == [ON]
    alone.used()
    consume, attached, credit = alone.bench.take()
    assert consume == (REPLICA, Consume("q#1", 1, "consume", True))
    assert attached == ("c1", Attached(1, queue="q#1")) and credit == (REPLICA, Credit("q#1", 1, 10, -1, False, True))
    alone.attach(2)
    assert [type(frame) for _, frame in alone.bench.take()] == [Consume, Attached], "the second waits for nothing"


def test_a_browser_is_attached_at_once_and_uses_nothing():
    alone = Alone()
    alone.attach(mode="browse")
    assert [type(frame) for _, frame in alone.bench.take()] == [Consume, Attached]


@pytest.mark.parametrize(
    ("mode", "queue", "rescue", "code"),
    [
        ("consume", "none", False, "not-found"), ("take", "q", False, "invalid"), ("consume", "q", True, "not-allowed"),
        ("consume", "r", False, "unavailable"),
    ],
)  # fmt: skip
def test_an_attach_that_cannot_be_is_refused(mode, queue, rescue, code):
    alone = Alone()
    alone.session.rescue = rescue
    alone.attach(mode=mode, queue=queue)
    ((peer, frame),) = alone.bench.take()
    assert (peer, type(frame), frame.code) == ("c1", Detached, code) and not alone.receivers.subs
    alone.receivers.detach(alone.session, 1)  # it crosses the refusal
    assert alone.bench.take() == []


def test_the_last_consumer_is_gone_when_that_counts_everywhere():
    alone = Alone()
    alone.consuming()
    alone.receivers.detach(alone.session, 1)
    assert alone.bench.take() == [(REPLICA, Cancel("q#1", 1, True))]
    alone.receivers.detach(alone.session, 1)
    assert alone.bench.take() == [], "once"
    alone.receivers.cancelled(REPLICA, Cancelled("q#1", 1))
    assert alone.bench.ordered() == [OFF]
    alone.used(OFF)
    assert alone.bench.take() == [("c1", Detached(1))] and not alone.session.receivers
    with pytest.raises(PeerError):
        alone.receivers.detach(alone.session, 1)


def test_a_consumer_of_a_condemned_queue_waits_until_that_is_decided():
    alone = Alone()
    alone.bench.apply(Condemn("q#1", "b2", 1, 1, True, False))
    alone.attach()
    assert alone.bench.take() == []
    alone.bench.apply(Lift("q#1", "b2", 1, 1))
    alone.consumers.resumed()
    assert alone.bench.ordered() == [ON]


def test_a_refused_use_is_asked_for_again_when_the_queue_stays():
    alone = Alone()
    alone.attach()
    alone.bench.apply(Condemn("q#1", "b2", 1, 1, True, False))  # before what was asked
    alone.bench.take()
    alone.used()
    assert alone.bench.take() == []
    alone.bench.apply(Lift("q#1", "b2", 1, 1))
    alone.consumers.resumed()
    assert alone.bench.ordered() == [ON]


def test_what_is_used_is_said_again_when_the_brokers_are_asked_to():
    alone = Alone()
    alone.consuming()
    alone.consumers.recount()
    assert alone.bench.ordered() == [ON]


def test_receivers_end_with_their_queue_and_those_that_wait_find_none():
    alone = Alone()
    alone.consuming()
    alone.attach(2, mode="browse")
    alone.receivers.detach_all("other#1", "", "")
    alone.bench.take()
    alone.receivers.undeclared("q#1", "deleted", "it was deleted")
    assert alone.bench.take() == [("c1", Detached(h, "deleted", "it was deleted")) for h in (1, 2)]
    waiting = Alone()
    waiting.attach()
    waiting.bench.take()
    waiting.receivers.undeclared("q#1", "deleted", "it was deleted")
    assert [frame.code for _, frame in waiting.bench.take()] == ["not-found"]
    assert not alone.receivers.subs and not waiting.receivers.subs


def test_a_connection_that_is_over_gives_back_what_it_held():
    alone = Alone()
    alone.consuming()
    alone.receivers.ended(alone.session)
    said = alone.bench.take()
    assert said[0] == (REPLICA, Cancel("q#1", 1, True)) and len(said) == 2, "and its use of the queue ends"
    alone.receivers.deliver(REPLICA, Deliver("q#1", 1, 1, [1, 1], [b"m"]))
    alone.receivers.cancelled(REPLICA, Cancelled("q#1", 1))
    assert alone.bench.take() == []


def test_deliveries_settlements_and_drains_pass_between_client_and_replica():
    alone = Alone()
    alone.consuming()
    alone.receivers.flow(alone.session, Flow(1, 2, drain=True))
    alone.receivers.deliver(REPLICA, Deliver("q#1", 1, 7, [1, 1], [b"m"]))
    assert alone.session.receivers[1].credit == 1
    alone.receivers.dispose(alone.session, Dispose(1, 1, 1, [7, 1, 1]))
    alone.receivers.settled(REPLICA, Settled("q#1", 1, 1, []))
    alone.receivers.drained(REPLICA, Drained("q#1", 1))
    assert alone.session.receivers[1].credit == 0
    assert alone.bench.take() == [
        (REPLICA, Credit("q#1", 1, 2, -1, True, True)),
        ("c1", Delivery(1, 7, [1, 1], [b"m"], [])),
        (REPLICA, Settle("q#1", 1, 1, 1, [7, 1, 1])),
        ("c1", Disposed(1, 1, [])),
        ("c1", FlowDrained(1)),
    ]


def test_who_only_looks_is_never_told_for_sure():
    alone = Alone()
    alone.session.rescue = True
    alone.attach(mode="browse")
    alone.bench.take()
    alone.receivers.flow(alone.session, Flow(1, 1, drain=True))
    assert alone.bench.take() == [(REPLICA, Credit("q#1", 1, 1, -1, True, False))]


CLAIMED = InUse("q#1", "b1", 5, True, "c/1", 1)


def alone() -> Alone:
    made = Alone()
    made.bench.cluster.versions.heard("s", Heartbeat((1, 1), 1, 1, [], least=KNOWS_EXCLUSIVE))
    return made


def refusals(alone: Alone) -> list[str]:
    return [f"{frame.code}: {frame.text}" for _, frame in alone.bench.take() if type(frame) is Detached]


def test_an_exclusive_receiver_claims_the_queue_and_nobody_comes_beside_it():
    one = alone()
    one.attach(exclusive=1)
    assert one.bench.ordered() == [CLAIMED]
    one.attach(2)
    one.receivers.flow(one.session, Flow(2, 1))
    assert not one.bench.take(), "its claim may yet be refused"
    one.used(CLAIMED)
    assert [type(frame) for _, frame in one.bench.take()] == [Consume, Attached, Detached]
    for exclusive in (0, 1):
        one.attach(3, exclusive=exclusive)
        assert "alone (exclusive, at b1)" in refusals(one)[0]
    one.attach(4, mode="browse")
    assert [type(frame) for _, frame in one.bench.take()] == [Consume, Attached]
    one.receivers.detach(one.session, 1)
    one.receivers.cancelled(REPLICA, Cancelled("q#1", 1))
    one.bench.take()
    one.used(OFF)
    one.bench.take()
    one.attach(5)
    assert one.bench.ordered() == [ON], "the next may share"


def test_a_queue_with_consumers_is_nobodys_alone():
    one = alone()
    one.consuming()
    one.attach(2, exclusive=1)
    assert "in-use: queue 'q' has consumers already (at b1)" in refusals(one)[0]
    one = alone()
    one.bench.apply(InUse("q#1", "b2", 1, True))
    one.attach(exclusive=1)
    one.bench.take()
    one.used(CLAIMED)
    assert "has consumers already (at b2)" in refusals(one)[0]
    assert not one.receivers.subs and not one.session.receivers
    one.attach(2)
    assert one.bench.ordered() == [ON], "and this broker begins anew"


def test_consumers_that_wait_are_refused_where_another_broker_was_first():
    one = alone()
    one.attach()
    one.attach(2)
    one.bench.take()
    one.bench.apply(InUse("q#1", "b2", 1, True, "d/1", 1))
    one.used()
    assert len(found := refusals(one)) == 2 and all("alone (exclusive, at b2)" in text for text in found)
    one.bench.apply(InUse("q#1", "b2", 1, False))
    one.attach(3)
    assert one.bench.ordered() == [ON]


def test_who_was_behind_one_that_is_refused_comes_instead_of_it():
    """What waited here for a queue that is another's did not stand in the way of that one's return."""
    one = alone()
    one.bench.apply(InUse("q#1", "b2", 1, True, "c/2", 1))
    one.attach(1)
    one.attach(2, exclusive=2)
    one.receivers.flow(one.session, Flow(2, 7))
    one.attach(3, exclusive=1)
    assert one.bench.ordered() == [ON]
    one.used()
    claimed = InUse("q#1", "b1", 5, True, "c/2", 2)
    said = one.bench.take()
    assert [frame.code for _, frame in said if type(frame) is Detached] == ["in-use"]
    one.used(claimed)
    consume, attached, credit, refused = one.bench.take()
    assert attached[1] == Attached(2, queue="q#1") and credit[1].messages == 7
    assert refused[1].handle == 3 and "alone (exclusive, at b1)" in refused[1].text


@pytest.mark.parametrize("goes", ["detached", "over"])
def test_who_was_behind_one_that_goes_comes_instead_of_it(goes):
    one = alone()
    one.attach(exclusive=1)
    other = one.bench.session("c2", "d")
    one.receivers.attach(other, AttachReceiver(1, "q"))
    one.receivers.attach(other, AttachReceiver(2, "q"))
    one.receivers.detach(other, 1)
    one.receivers.cancelled(REPLICA, Cancelled("q#1", 2))
    one.bench.take()
    if goes == "over":
        one.receivers.ended(one.session)
    else:
        one.receivers.detach(one.session, 1)
        one.receivers.cancelled(REPLICA, Cancelled("q#1", 1))
    one.bench.take()
    for event in (CLAIMED, OFF):
        one.used(event)
    assert [type(f) for _, f in one.bench.take() if type(f) is not Detached] == []
    one.used()
    assert ("c2", Attached(2, queue="q#1")) in one.bench.take()


def test_who_has_come_back_elsewhere_is_over_here():
    one = alone()
    one.attach(exclusive=1)
    one.used(CLAIMED)
    one.bench.take()
    for event in (InUse("q#1", "b2", 1, True, "c/1", 1), InUse("q#1", "b2", 1, True, "d/1", 7)):
        assert one.bench.apply(event).code == "in-use"
    newer = InUse("q#1", "b2", 1, True, "c/1", 2)
    assert one.bench.apply(newer).code == ""
    one.receivers.taken_over(newer)
    cancel, off, detached = one.bench.take()
    assert cancel == (REPLICA, Cancel("q#1", 1, True)) and type(detached[1]) is Detached
    assert detached[1].code == "in-use" and "come back at b2" in detached[1].text
    one.used(OFF)
    assert one.bench.cluster.wiring.uses.claims["q#1"].broker == "b2", "whose claim stands all the same"
    one.receivers.taken_over(InUse("q#1", "b3", 1, True, "c/1", 3))
    assert one.bench.take() == []


def test_a_claim_is_said_again_when_the_brokers_are_asked_to():
    one = alone()
    one.attach(exclusive=1)
    one.used(CLAIMED)
    one.bench.take()
    one.consumers.recount()
    assert one.bench.ordered() == [CLAIMED]
    one.used(CLAIMED)
    assert one.bench.take() == [] and one.session.receivers


@pytest.mark.parametrize(
    ("mode", "exclusive", "least", "code"),
    [("browse", 1, 8, "invalid"), ("consume", -1, 8, "invalid"), ("consume", 1 << 62, 8, "invalid"),
     ("consume", 1, 7, "unavailable")],
)  # fmt: skip
def test_a_claim_that_cannot_be_is_refused(mode, exclusive, least, code):
    one = alone()
    one.bench.cluster.versions.least = least
    one.attach(mode=mode, exclusive=exclusive)
    assert refusals(one)[0].startswith(code) and not one.receivers.subs


def test_a_priority_goes_to_the_replica_and_a_browser_has_none():
    one = alone()
    one.receivers.attach(one.session, AttachReceiver(1, "q", priority=-7))
    one.used()
    assert one.bench.take()[1] == (REPLICA, Consume("q#1", 1, "consume", True, priority=-7))
    for frame in (AttachReceiver(2, "q", "browse", priority=1), AttachReceiver(2, "q", priority=1 << 31)):
        one.receivers.attach(one.session, frame)
        assert "invalid: a receiver that consumes may have a priority of" in refusals(one)[0]
