"""Which messages of a queue may expire now, and by which broker, alone."""

from __future__ import annotations

from mantamq.protocol.limits import Limits
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica.dues import rank
from mantamq.protocol.replica.expiry import Expiries
from mantamq.protocol.replica.own_events import OwnEvents
from mantamq.protocol.replica.timetable import Timetable
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.events import Acquire, Enqueue, Expire, Own, Purge, Release

from tests.unit.replica_outbox import KeptOutbox


def expiries(owner: str = "") -> tuple[Expiries, Dispatcher, KeptOutbox]:
    """Three messages, of which the first two expire at 2000 and 3000."""
    state, outbox = QueueState("q#1"), KeptOutbox(now_ms=2500)
    if owner:
        state.apply(Own(owner, 1))
    done = state.apply(Enqueue("c", [1, 3], [b"a", b"b", b"c"], [0, 2000, 1, 3000]))
    policies = policies_of(state, QueueSettings())
    dispatcher = Dispatcher(state, policies.order, policies.allocator)
    found = Expiries(state, dispatcher, OwnEvents("q#1", outbox), outbox)
    found.note(done.positions)
    return found, dispatcher, outbox


def test_the_owner_has_what_is_due_ordered_to_expire():
    found, dispatcher, outbox = expiries("b1")
    found.sweep()
    assert outbox.events() == [Expire(2500, [1, 1])] and outbox.timers == {"q#1": 3000}
    assert list(dispatcher.expiring) == [(1, 1)], "it is not delivered meanwhile"
    found.sweep()
    assert outbox.events() == [], "once"


def test_nobody_else_does():
    found, _, outbox = expiries("b2")
    found.sweep()
    assert outbox.events() == [] and outbox.timers == {}


def test_of_an_unowned_queue_the_first_broker_does_and_each_next_one_later():
    found, _, _ = expiries()
    assert (rank("b1"), rank("b12"), rank("broker")) == (1, 12, 0)
    assert found.due("b30", 2500) == ([], 2000 + 30 * DEFAULT_TIMING.expiry_rank_ms)
    assert found.due("b1", 2500) == ([1, 1], 3000 + DEFAULT_TIMING.expiry_rank_ms)


def test_of_an_unowned_queue_nobody_does_while_another_broker_is_at_it():
    found, dispatcher, _ = expiries()
    long_ms, wait_ms = 60_000, 2 * DEFAULT_TIMING.expiry_rank_ms
    found.applied(Expire(2500, [1, 1]), True)
    assert found.due("b2", long_ms) == ([1, 2], 0), "what it has asked for itself keeps it from nothing"
    found, dispatcher, outbox = expiries()
    outbox.now_ms = long_ms
    dispatcher.expiring.add(1, 1)
    found.applied(Expire(long_ms, [1, 1]), False)
    assert list(dispatcher.expiring) == []
    assert found.due("b2", long_ms + wait_ms - 1) == ([], long_ms + wait_ms)
    assert found.due("b2", long_ms + wait_ms) == ([1, 2], 0)


def test_a_message_that_is_with_a_consumer_expires_if_it_comes_back():
    found, dispatcher, _ = expiries("b1")
    dispatcher.taken.add(1, 1)
    assert found.due("b1", 2500) == ([], 3000)
    dispatcher.taken.remove(1, 1)
    assert found.due("b1", 3000) == ([2, 2], 2500 + DEFAULT_TIMING.expiry_held_ms)
    assert found.due("b1", 2500 + DEFAULT_TIMING.expiry_held_ms) == ([1, 1], 0)


def test_what_was_acquired_before_its_expiry_was_ordered_expires_if_it_comes_back():
    found, _, _ = expiries("b2")
    state, held_ms = found._state, DEFAULT_TIMING.expiry_held_ms
    assert found.due("b2", 2500)[0] == [1, 1]
    assert state.apply(Acquire("b2", 1, 1, [1, 1, 1])).effective  # ordered before it
    expire = Expire(2500, [1, 1])
    state.apply(expire)
    found.applied(expire, True)
    assert state.apply(Release("b2", 1, [1, 1, 1])).effective
    assert found.due("b2", 2500 + held_ms) == ([1, 2], 0)


def test_what_a_consumer_has_for_long_is_looked_at_once_in_a_while():
    found, dispatcher, _ = expiries("b1")
    dispatcher.taken.add(1, 2)
    hour_ms = 3_600_000
    assert found.due("b1", hour_ms) == ([], hour_ms + DEFAULT_TIMING.expiry_held_ms), "not for each second of it"


def test_of_many_that_have_gone_before_their_time_nothing_is_kept_and_few_are_looked_at_in_one_go():
    state, outbox = QueueState("q#1"), KeptOutbox(now_ms=5000)
    state.apply(Own("b1", 1))
    policies = policies_of(state, QueueSettings())
    dispatcher = Dispatcher(state, policies.order, policies.allocator)
    found = Expiries(state, dispatcher, OwnEvents("q#1", outbox), outbox, limits=Limits(expire_messages=2))
    blobs = [b"m"] * 4000
    found.note(state.apply(Enqueue("", [], blobs, [n for i in range(4000) for n in (i, 1000 + i)])).positions)
    state.apply(Purge(1500))
    assert found.due("b2", 4500) == ([], 0) and len(found.times) == 3980, "also by who is not at it"
    for left in range(3960, 2499, -20):
        found.sweep()
        assert outbox.events() == [] and len(found.times) == left
        outbox.now_ms = outbox.timers["q#1"]
    found.sweep()
    assert outbox.events() == [Expire(outbox.now_ms, [1501, 1502])]
    state.apply(Purge(2400))
    outbox.now_ms = outbox.timers["q#1"]
    found.sweep()
    assert len(found.times) <= 100, "and the rest is known"


def test_who_only_asks_how_far_the_stream_is_is_not_at_it():
    found, _, outbox = expiries()
    outbox.now_ms = 60_000
    found.applied(Expire(60_000, []), False)
    assert found.due("b1", 60_000) == ([1, 2], 0)


def test_an_update_brings_what_expires_with_it():
    found, _, _ = expiries("b1")
    found.times = Timetable()
    found.restart()
    assert list(found.times) == [(2000, 1), (3000, 2)]


def test_many_that_are_due_at_once_go_in_slices_and_others_are_served_between_them():
    state, outbox = QueueState("q#1"), KeptOutbox(now_ms=2500)
    state.apply(Own("b1", 1))
    done = state.apply(Enqueue("c", [1, 5], [b"m"] * 5, [item for n in range(5) for item in (n, 2000)]))
    policies = policies_of(state, QueueSettings())
    dispatcher = Dispatcher(state, policies.order, policies.allocator)
    found = Expiries(state, dispatcher, OwnEvents("q#1", outbox), outbox, limits=Limits(expire_messages=2))
    found.note(done.positions)
    slices = list[Expire]()
    for _ in range(2 * DEFAULT_TIMING.expiry_slice_ms):
        found.sweep()
        slices += outbox.events()
        outbox.now_ms += 1
    assert [event.ranges for event in slices] == [[1, 2], [3, 4]], "the next one waits for its time"
    outbox.now_ms += DEFAULT_TIMING.expiry_slice_ms
    found.sweep()
    assert [event.ranges for event in outbox.events()] == [[5, 5]]
