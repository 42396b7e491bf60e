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

    def attach(self, handle: int = 1, mode: str = "consume", queue: str = "q") -> None:
        self.receivers.attach(self.session, AttachReceiver(handle, queue, mode))

    def used(self, event: InUse = ON) -> None:
        """What the broker has asked for is applied."""
        self.consumers.applied(event, self.bench.apply(event).code != "")

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
