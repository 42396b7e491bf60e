"""What a consumer says of messages that it gives back: part of the queue's state, and of its own order."""

from __future__ import annotations

from itertools import count

import msgspec
import pytest
from mantamq.client import Message
from mantamq.protocol.limits import ANNOTATIONS_BYTES
from mantamq.protocol.queue.credit import UNLIMITED
from mantamq.protocol.queue.delivery_counts import DeliveryCounts
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.snapshot import read_snapshot
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.queue.undeliverable import LOOK_AFTER, Without, leave_out
from mantamq.protocol.ranges import RangeSet
from mantamq.protocol.replica.dead_letters import piece
from mantamq.protocol.wire.events import Accept, Acquire, Enqueue, Evict, Modify, Own, Reject, Release
from mantamq.protocol.wire.message import annotated, decode, encode


def queue_of(messages: int, alternate: str = "", **settings: object) -> QueueState:
    state = QueueState("q#1", alternate)
    for policy in policies_of(state, QueueSettings(**settings)).of_state:  # type: ignore[arg-type]
        state.include(policy)
    state.apply(Own("b1", 1))
    state.apply(Enqueue("", [], [encode(Message(b"%d" % n)) for n in range(1, messages + 1)]))
    return state


def counts(state: QueueState) -> dict[int, int]:
    column = state.deliveries.column([(1, 60)])
    return {1 + index: count for index, count in zip(column[::2], column[1::2], strict=True)}


def modify(state: QueueState, first: int, last: int, failed: bool = False, **annotations: object) -> None:
    acquisition = state.index
    state.apply(Acquire("b1", 1, state.grant, [acquisition, first, last]))
    done = state.apply(Modify("b1", 1, [acquisition, first, last], failed, annotations))
    assert done.effective and not done.lost and done.positions == [(first, last)]


def test_only_what_failed_is_counted_and_all_have_been_acquired():
    state = queue_of(4)
    modify(state, 1, 2)
    assert counts(state) == {1: 0, 2: 0} and state.available.flat() == [1, 4]
    modify(state, 2, 3, failed=True)
    assert counts(state) == {1: 0, 2: 1, 3: 1}
    modify(state, 1, 3)
    assert counts(state) == {1: 0, 2: 1, 3: 1}
    modify(state, 1, 3, failed=True)
    assert counts(state) == {1: 1, 2: 2, 3: 2}


def test_who_may_have_seen_it_counts_once():
    state = queue_of(4)
    modify(state, 1, 1)
    modify(state, 2, 2, failed=True)
    state.apply(Evict("b1", 1))
    assert counts(state) == {1: 1, 2: 1, 3: 1, 4: 1}


def test_annotations_are_merged_and_go_with_their_message():
    state = queue_of(3, by := "lost")
    assert state.alternate == by
    modify(state, 1, 3, tries=1, why="slow")
    modify(state, 2, 2, tries=2)
    noted = state.deliveries.noted
    assert decode(noted(1, state.blobs[1]), Message).annotations == {"tries": 1, "why": "slow"}
    assert decode(noted(2, state.blobs[2]), Message).annotations == {"tries": 2, "why": "slow"}
    assert decode(state.blobs[2], Message).annotations == {}, "the message itself is as it was sent"
    state.apply(Acquire("b1", 1, 1, [99, 1, 3]))
    state.apply(Reject("b1", 1, [99, 2, 2]))
    blobs, more = piece(state, state.index, 0, 1000)
    assert decode(blobs.pop(2), Message).annotations == {"tries": 2, "why": "slow"} and not (blobs or more)
    assert len(piece(state, state.index, 0, 10)[0]) == 1, "its size is that with its annotations"
    state.apply(Accept("b1", 1, [99, 1, 1, 99, 3, 3]))
    assert sorted(state.deliveries.annotations) == [2], "what is gone is forgotten"


def test_annotations_that_are_too_much_are_left_out_and_the_rest_stays():
    state = queue_of(2)
    modify(state, 1, 2, a="x" * (ANNOTATIONS_BYTES - 100))
    modify(state, 1, 1, b="y" * 100)
    modify(state, 2, 2, b="y" * 10)
    assert state.deliveries.annotations[1].keys() == {"a"} and state.deliveries.annotations[2].keys() == {"a", "b"}
    modify(state, 1, 1, a="short")
    modify(state, 1, 1, b="y" * 100)
    assert state.deliveries.annotations[1] == {"a": "short", "b": "y" * 100}


def test_an_update_brings_all_of_it():
    state = queue_of(5)
    modify(state, 1, 2, note="n")
    modify(state, 2, 3, failed=True, other=[1, {"b": b"c"}])
    again = QueueState("q#1")
    again.restore(read_snapshot(msgspec.msgpack.decode(msgspec.msgpack.encode(state.snapshot()))))
    again.fill(dict(state.blobs))
    assert again.digest() == state.digest() and counts(again) == counts(state)
    assert again.deliveries.annotations == state.deliveries.annotations
    before = again.digest()
    modify(again, 3, 3, other=2)
    assert again.digest() != before
    modify(state, 3, 3, other=2)
    assert again.digest() == state.digest()


def test_what_is_not_held_is_lost_and_notes_nothing():
    state = queue_of(2)
    done = state.apply(Modify("b1", 1, [7, 1, 2], True, {"a": 1}))
    assert done.lost == [7, 1, 2] and not state.deliveries and not state.deliveries.annotations


def test_a_blob_with_annotations_is_the_same_message():
    full = Message(b"b", "s", {"p": 1}, 5, 3, "c", "r", True, "t", "m")
    found = decode(annotated(encode(full), {"a": 1}), Message)
    for name in (
        "body",
        "subject",
        "properties",
        "ttl",
        "priority",
        "correlation_id",
        "reply_to",
        "durable",
        "message_id",
    ):
        assert getattr(found, name) == getattr(full, name)
    assert found.annotations == {"a": 1}
    assert decode(annotated(annotated(encode(full), {"a": 1, "b": 2}), {"a": 3}), Message).annotations == {
        "a": 3,
        "b": 2,
    }
    short = annotated(encode(Message(b"b")), {"a": 1})
    assert (decode(short, Message).durable, decode(short, Message).message_id) == (False, None)
    for foreign in (b"", b"\x00", b"\xc1", msgspec.msgpack.encode([1, 2]), msgspec.msgpack.encode({"a": 1})):
        assert annotated(foreign, {"a": 1}) == foreign


# ---- undeliverable here


class Served:
    """A queue whose lock b1 holds, and dispatch there."""

    def __init__(self, state: QueueState, settings: QueueSettings | None = None) -> None:
        self.state = state
        policies = policies_of(state, settings or QueueSettings())
        self.dispatcher = Dispatcher(state, policies.order, policies.allocator)
        self.acquisitions = count(1)

    def consumer(self, id: int, credit: int = 100) -> None:
        self.dispatcher.subscribe(id, False, True).credit.grant(credit, UNLIMITED)

    def give(self) -> dict[int, list[int]]:
        """Subscription -> positions that it is given, in order."""
        found: dict[int, list[int]] = {}
        for one in self.dispatcher.run(True, self.acquisitions)[0]:
            positions = [p for a, b in one.parts for p in range(a, b + 1)]
            found[one.subscription.id] = found.get(one.subscription.id, []) + positions
            self.state.apply(Acquire("b1", 1, 1, [n for a, b in one.ranges for n in (one.acquisition, a, b)]))
            for a, b in one.ranges:
                self.dispatcher.taken.remove(a, b)
        return found

    def back(self, id: int, first: int, last: int, here: bool) -> None:
        """A consumer gives these back."""
        held = self.dispatcher.subscriptions[id].held
        if here:
            leave_out(self.dispatcher, id, [(first, last)])
        runs = [n for a, parts in held.items() for x, y in parts.within(first, last) for n in (a, x, y)]
        for parts in held.values():
            parts.remove(first, last)
        self.dispatcher.returned(self.state.apply(Release("b1", 1, runs)).positions)


def test_undeliverable_here_is_another_consumers():
    queue = Served(queue_of(6))
    queue.consumer(1)
    assert queue.give() == {1: [1, 2, 3, 4, 5, 6]}
    queue.back(1, 2, 3, here=True)
    queue.back(1, 5, 5, here=False)
    assert queue.give() == {1: [5]}
    assert not queue.dispatcher.wants(), "the lock is of no use to it"
    queue.dispatcher.subscriptions[1].drain(False)
    assert [s.id for s in queue.dispatcher.drained(True)[0]] == [1], "that is all there is for it"
    queue.consumer(2)
    assert queue.give() == {2: [2, 3]}
    queue.back(2, 2, 3, here=False)
    assert queue.give() == {2: [2, 3]}


@pytest.mark.parametrize("settings", [{"priorities": 10}, {"fair_key": "t"}])
def test_it_is_so_in_any_order(settings):
    state = QueueState("q#1")
    policies = policies_of(state, QueueSettings(**settings))
    for policy in policies.of_state:
        state.include(policy)
    queue = Served.__new__(Served)
    queue.state, queue.acquisitions = state, count(1)
    queue.dispatcher = Dispatcher(state, policies.order, policies.allocator)
    state.apply(Own("b1", 1))
    for n, (priority, tenant) in enumerate([(1, "a"), (9, "b"), (1, "a"), (9, "a"), (5, "c")], 1):
        state.apply(Enqueue("", [], [encode(Message(b"%d" % n, properties={"t": tenant}, priority=priority))]))
    queue.consumer(1)
    assert sorted(queue.give()[1]) == [1, 2, 3, 4, 5]
    queue.back(1, 1, 5, here=False)
    leave_out(queue.dispatcher, 1, [(4, 4), (1, 1)])
    again = queue.give()[1]
    assert sorted(again) == [2, 3, 5]
    if "priorities" in settings:
        assert again == [2, 5, 3]
    queue.consumer(2)
    assert sorted(queue.give()[2]) == [1, 4]


def test_what_is_gone_is_forgotten_of_a_consumer_that_is_given_little():
    state = queue_of(1000)
    order = Without(state, policies_of(state, QueueSettings()).order)
    for position in range(1, 1001, 2):
        order.add([(position, position)])
    assert len(order.positions) == 500
    state.discard([(1, 990)])
    for position in range(990 + 2 * LOOK_AFTER, 3000, 2):
        order.add([(position, position)])
        if len(order.positions) < 500:
            break
    assert order.positions == RangeSet([991, 991, 993, 993, 995, 995, 997, 997, 999, 999])


def test_what_is_counted_for_the_first_time_counts_nothing_beside_it():
    counts = DeliveryCounts([1, 1, 5, 6, 9, 9], [], [5, 6])
    counts.back(1, 9)
    assert (counts.repeated, counts.marks.flat(), counts.uncounted.flat()) == ({1: 2, 9: 2}, [1, 9], [])
