"""Which delayed messages of a queue are to be available now, where some of them expire as well."""

from __future__ import annotations

from typing import Any

from mantamq.protocol.limits import Limits
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica.expiry import Expiries
from mantamq.protocol.replica.own_events import OwnEvents
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.events import Acquire, AnyEvent, Due, Enqueue, Expire, Own

from tests.unit.replica_outbox import KeptOutbox

SLICE_MS, HELD_MS = DEFAULT_TIMING.expiry_slice_ms, DEFAULT_TIMING.expiry_held_ms


class Queue:
    """Owned by this broker, at 1000 ms; what it orders applies when a test says so."""

    def __init__(self, limits: Limits | None = None, owner: str = "b1", **settings: Any) -> None:
        self.state, self.outbox = QueueState("q#1"), KeptOutbox(now_ms=1000)
        policies = policies_of(self.state, QueueSettings(**settings))
        for policy in policies.of_state:
            self.state.include(policy)
        self.state.apply(Own(owner, 1))
        dispatcher = Dispatcher(self.state, policies.order, policies.allocator)
        own, ttl_ms = OwnEvents("q#1", self.outbox), settings.get("message_ttl_ms", -1)
        self.expiries = Expiries(self.state, dispatcher, own, self.outbox, limits=limits or Limits(), ttl_ms=ttl_ms)

    def come(self, delays: list[int], count: int = 1, expiry: list[int] | None = None) -> None:
        event = Enqueue("", [], [b"m"] * count, expiry or [], delays=delays, at_ms=self.outbox.now_ms)
        self.expiries.note(self.state.apply(event).positions)

    def at(self, now_ms: int) -> list[AnyEvent]:
        """What it orders at that time."""
        self.outbox.now_ms = now_ms
        self.expiries.sweep()
        return list(self.outbox.events())


def test_what_has_expired_does_not_become_due_as_well():
    """The store was away, say: both are over when somebody looks."""
    queue = Queue()
    queue.come([0, 1500, 1, 1500, 2, 1500], 3, expiry=[0, 1400, 1, 1500, 2, 1600])
    assert queue.at(1550) == [Due(1550, [3, 3]), Expire(1550, [1, 2])]
    for event in (Due(1550, [3, 3]), Expire(1550, [1, 2])):
        queue.state.apply(event)
    assert queue.state.available.flat() == [3, 3] and not queue.state.delayed
    assert queue.at(1600) == [Expire(1600, [3, 3])]


def test_what_is_due_comes_between_slices_of_what_expires():
    queue = Queue(Limits(expire_messages=2), message_ttl_ms=100)
    queue.come([], 5)
    queue.outbox.now_ms = 1050
    queue.come([0, 1101])
    assert queue.at(1100) == [Expire(1100, [1, 2])]
    assert queue.at(1101) == [Due(1101, [6, 6])], "it waits for no slice"
    assert queue.outbox.timers["q#1"] == 1100 + SLICE_MS
    assert queue.at(1100 + SLICE_MS) == [Expire(1100 + SLICE_MS, [3, 4])]


def test_a_delayed_one_that_expires_is_looked_at_again_and_not_without_end():
    """It may have become due by an event that was on its way, and be with a consumer."""
    queue = Queue()
    queue.come([0, 90_000], expiry=[0, 2000])
    assert queue.at(60_000) == [Expire(60_000, [1, 1])]
    assert queue.outbox.timers["q#1"] == 90_000 and queue.at(60_001) == []
    queue.state.apply(Due(90_000, [1, 1]))
    queue.state.apply(Acquire("b1", 1, 1, [1, 1, 1]))
    queue.state.apply(expire := Expire(60_000, [1, 1]))
    queue.expiries.applied(expire, True)
    assert 1 in queue.state.expiry and queue.at(60_001 + HELD_MS) == [], "it is the consumer's"
    assert queue.outbox.timers["q#1"] == 60_001 + 2 * HELD_MS


def test_where_the_queue_gives_no_time_a_delayed_one_goes_at_once():
    queue = Queue(message_ttl_ms=0)
    queue.come([0, 5000])
    assert queue.at(1000) == [] and queue.at(1001) == [Expire(1001, [1, 1])]


def test_who_does_not_own_the_queue_orders_neither():
    queue = Queue(owner="b2", message_ttl_ms=100)
    queue.come([0, 1050, 1, 9000], 2)
    assert queue.at(3000) == []


def test_what_is_on_its_way_to_another_queue_expires_if_it_comes_back():
    queue = Queue(message_ttl_ms=100)
    queue.come([], 2)
    queue.expiries._dispatcher.expiring.add(1, 1)  # a move has asked for it
    assert queue.at(1100) == [Expire(1100, [2, 2])]
    queue.state.apply(Expire(1100, [2, 2]))
    queue.expiries._dispatcher.expiring.remove(1, 1)
    assert queue.at(1100 + HELD_MS) == [Expire(1100 + HELD_MS, [1, 1])]
