"""One queue's consumers at a broker, alone: which of their events nobody waits for."""

from __future__ import annotations

import pytest
from mantamq.protocol.lock.holder import LockHolder
from mantamq.protocol.queue.arrangement import Arrangement
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.ranges import RangeSet
from mantamq.protocol.replica.consumers import QueueConsumers
from mantamq.protocol.replica.own_events import OwnEvents
from mantamq.protocol.wire.events import Accept, Acquire, Reject
from mantamq.protocol.wire.queue_frames import ACCEPT, REJECT, Consume, Settle

from tests.unit.replica_outbox import KeptOutbox


def asked(settings: QueueSettings, kind: int = ACCEPT, stopped: bool = False) -> list[type]:
    """The kinds of events that nobody waits for, of a consumer of such a queue that settles what it has just got."""
    state, outbox = QueueState("q#1"), KeptOutbox()
    policies = Arrangement(state, settings).policies
    state.flow_stopped = stopped
    dispatcher = Dispatcher(state, policies.order, policies.allocator)
    own = OwnEvents("q#1", outbox)  # type: ignore[arg-type]
    consumers = QueueConsumers(state, 4, dispatcher, LockHolder(), own, outbox, patient=policies.patient)  # type: ignore[arg-type]
    consumers.consume(Consume("q#1", 1, "consume", True))
    dispatcher.subscriptions[1].held[7] = RangeSet([1, 1])
    consumers.settlements.acquires += (7, 1, 1)
    consumers.settle(Settle("q#1", 1, 1, kind, [7, 1, 1]))
    consumers.gather()
    assert len(outbox.submitted) == 2
    return [type(event) for event in outbox.patient]


def test_nobody_waits_for_an_accept():
    assert asked(QueueSettings()) == [Acquire, Accept]


def test_somebody_may_wait_for_the_end_of_what_is_rejected():
    assert asked(QueueSettings(), REJECT) == [Acquire] and Reject not in asked(QueueSettings(), REJECT)


@pytest.mark.parametrize("stopped", [False, True])
def test_producers_that_are_held_back_wait_for_accepts(stopped):
    settings = QueueSettings(flow_stop_count=10, flow_resume_count=5)
    assert asked(settings, stopped=stopped) == [Acquire] + [Accept] * (not stopped)


def test_another_consumer_may_wait_for_the_group_that_an_accept_frees():
    assert asked(QueueSettings(group_key="customer")) == []
