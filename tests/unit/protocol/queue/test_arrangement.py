"""Queues that change in the middle of their streams, and what is in them then."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from mantamq.protocol.queue.arrangement import Arrangement
from mantamq.protocol.queue.ring import Ring
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.snapshot import read_snapshot
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.wire.deletion_events import Dissolve
from mantamq.protocol.wire.events import (
    Accept,
    Acquire,
    Configure,
    DeadLetterDone,
    Enqueue,
    Evict,
    Own,
    Reject,
    Rejoin,
    Release,
    decode_event,
    encode_event,
)
from mantamq.protocol.wire.settings import plain

COUNT, SIZE, OVERFLOW = "qpid.max_count", "qpid.max_size", "qpid.policy_type"


class Queue:
    """A queue, and another replica of it that has been brought up to date now and then."""

    def __init__(self, settings: QueueSettings | None = None) -> None:
        self.settings = settings or QueueSettings()
        self.state = QueueState("q#1", self.settings.alternate)
        self.arrangement = Arrangement(self.state, self.settings)
        self.sent = 0

    def apply(self, event: Any) -> Any:
        before = self.again()
        event = decode_event(encode_event(event))
        done = self.state.apply(event)
        other = before.state.apply(event)
        assert (done, self.state.digest()) == (other, before.state.digest())
        return done

    def again(self) -> Queue:
        """The same at a replica that an update has brought there."""
        found = Queue(self.settings)
        snapshot = msgspec.msgpack.decode(msgspec.msgpack.encode(self.state.snapshot()))
        found.state.restore(read_snapshot(snapshot))
        found.state.fill(dict(self.state.blobs))
        assert found.arrangement.settings == self.arrangement.settings
        return found

    def send(self, *blobs: bytes, judged: bool = True, **fields: Any) -> Any:
        numbers = [self.sent + 1, self.sent + len(blobs)]
        self.sent += len(blobs)
        return self.apply(Enqueue("c", numbers, list(blobs), judged=judged, **fields))

    def configure(self, index: int, alternate: str = "", brokers: Sequence[str] = (), **arguments: Any) -> Any:
        spelled = {{"count": COUNT, "size": SIZE, "overflow": OVERFLOW}.get(n, n): v for n, v in arguments.items()}
        return self.apply(Configure(index, plain(self.settings, {}) | spelled, alternate, "b1", index, list(brokers)))

    def blobs(self) -> bytes:
        return b"".join(self.state.blobs[position] for position in sorted(self.state.blobs))


@pytest.fixture
def queue() -> Queue:
    found = Queue()
    found.send(b"1", b"2", b"3", b"4", judged=False)
    return found


def test_the_oldest_go_at_once_from_what_becomes_a_smaller_ring(queue):
    queue.apply(Own("b1", 1))
    queue.apply(Acquire("b1", 0, 1, [1, 1, 1]))
    done = queue.configure(7, count=2, overflow="ring")
    assert (done.dropped, queue.blobs()) == ([(1, 1, True), (2, 2, False)], b"34")
    assert queue.apply(Accept("b1", 0, [1, 1, 1])).lost == [1, 1, 1], "it is gone from under its consumer"
    queue.send(b"5")
    assert queue.blobs() == b"45"


def test_nothing_goes_from_a_smaller_strict_ring_for_a_message_that_has_come_before(queue):
    queue.configure(7, count=2, overflow="ring-strict")
    queue.apply(Enqueue("c", [1, 2], [b"1", b"2"], judged=True))
    assert queue.blobs() == b"1234"
    queue.send(b"5")
    assert queue.blobs() == b"45"


def test_what_becomes_a_smaller_queue_that_refuses_keeps_what_it_has(queue):
    assert not queue.configure(7, count=2, overflow="reject").dropped
    assert queue.send(b"5").dropped == [(5, 5, False)] and queue.blobs() == b"1234"
    assert queue.state.refusals.within("c", 5, 5)


def test_what_comes_from_a_broker_that_did_not_know_is_not_refused(queue):
    queue.configure(7, count=2, overflow="reject")
    queue.send(b"5", judged=False)
    assert (queue.blobs(), queue.state.refused) == (b"12345", 0), "it is complete by what its broker knows"


def test_nothing_is_refused_before_every_broker_knows_that_it_may_be_or_is_out(queue):
    full: dict[str, Any] = {"count": 2, "overflow": "reject", "brokers": ("b1", "b2", "b3")}
    queue.configure(7, **full)
    queue.send(b"5")
    assert queue.blobs() == b"12345", "it could be sent again at b2, which does not know what became of it"
    queue.apply(Evict("b3", 0))
    for since, blob in ((0, b"6"), (7, b"7")):
        queue.send(blob)
        assert not queue.apply(Configure(7, {}, "", "b2", since)).effective
    assert queue.send(b"8").dropped == [(8, 8, False)] and queue.blobs() == b"1234567"
    queue.apply(Rejoin("b3", 1))
    queue.send(b"9")
    queue.configure(9, **full)
    queue.send(b"a")
    assert queue.blobs() == b"12345679a", "b3 is back, and has not said that it knows"
    queue.apply(Configure(9, {}, "", "b3", 7))
    assert queue.send(b"b").dropped


def test_without_the_policy_it_is_what_it_was(queue):
    queue.configure(7, count=2, overflow="ring")
    queue.configure(9)
    assert queue.arrangement.settings == queue.settings
    assert len(queue.state.policies) == 1, "as plain as before"
    queue.send(b"5", b"6", b"7")
    assert queue.blobs() == b"34567"


def test_each_event_of_the_clusters_stream_counts_once_and_none_that_is_older(queue):
    assert queue.configure(7, count=3, overflow="ring").effective
    assert not queue.configure(7, count=1, overflow="ring").effective, "another broker said it before"
    assert not queue.configure(6, count=1, overflow="ring").effective
    assert queue.blobs() == b"234"


def test_the_times_to_live_are_of_what_comes_from_there_on(queue):
    queue.configure(7, **{"x-message-ttl": 50})
    queue.send(b"5", at_ms=1000)
    assert dict(queue.state.expiry) == {5: 1050}
    queue.configure(8)
    queue.send(b"6", at_ms=1000)
    assert dict(queue.state.expiry) == {5: 1050}, "what is there keeps its time"


def test_producers_are_held_back_by_the_thresholds_there_are_now(queue):
    queue.configure(7, **{"qpid.flow_stop_count": 3})
    assert (queue.state.flow_stopped, queue.state.flow_stopped_count) == (True, 1)
    queue.configure(8, **{"qpid.flow_stop_count": 30, "qpid.flow_resume_count": 20})
    assert not queue.state.flow_stopped
    queue.configure(9, **{"qpid.flow_stop_count": 2})
    assert queue.state.flow_stopped
    queue.configure(10)
    assert not queue.state.flow_stopped


def test_a_limit_of_deliveries_and_where_its_dead_letters_go(queue):
    queue.configure(7, alternate="dead", **{"manta.delivery_limit": 1})
    queue.apply(Own("b1", 1))
    queue.apply(Acquire("b1", 0, 1, [1, 1, 2]))
    queue.apply(Release("b1", 0, [1, 1, 1]))
    queue.apply(Acquire("b1", 0, 1, [2, 1, 1]))
    done = queue.apply(Release("b1", 0, [2, 1, 1]))
    assert done.aside == [(1, 1)]
    queue.apply(Reject("b1", 0, [1, 2, 2]))
    assert len(queue.state.batches) == 2
    queue.configure(8)
    assert (queue.state.alternate, queue.state.configured.letters) == ("", "dead"), "what is on its way goes there"
    queue.apply(DeadLetterDone(next(iter(queue.state.batches))))
    assert len(queue.state.batches) == 1


def test_what_waits_for_a_smaller_limit_goes_to_the_alternate_at_once(queue):
    done = queue.configure(7, alternate="dead", count=1, overflow="dead-letter")
    assert done.aside == [(1, 3)] and list(queue.state.available) == [(4, 4)]


def test_one_that_destroys_itself_counts_what_it_refuses_from_there_on(queue):
    queue.configure(7, count=4, overflow="reject")
    queue.send(b"5")
    assert queue.state.refused == 1
    queue.configure(8, count=4, overflow="self-destruct")
    assert queue.blobs() == b"1234"
    queue.send(b"6")
    assert (queue.blobs(), queue.state.refused) == (b"", 2)
    assert not queue.configure(9).effective, "it is over"


def test_a_queue_that_is_deleted_stays_what_it_was():
    queue = Queue(QueueSettings("dead", dead_letters="all"))
    queue.send(b"1")
    queue.apply(Dissolve("b1"))
    assert not queue.configure(7, count=1, overflow="ring").effective


@pytest.mark.parametrize(
    "kind", [{"priorities": 3}, {"last_value_key": "k"}, {"fair_key": "k"}, {"group_key": "k"}, {"dedupe_window_s": 9}]
)
def test_a_queue_stays_of_its_kind(kind):
    queue = Queue(QueueSettings(**kind))
    before = [policy for policy in queue.state.policies if policy is not queue.arrangement]
    queue.send(b"1", b"2", b"3")
    queue.configure(7, count=2, overflow="ring")
    assert set(map(type, queue.state.policies)) > set(map(type, before))
    assert any(isinstance(policy, Ring) for policy in queue.state.policies)
    queue.send(b"4", b"5", b"6")
    assert len(queue.state.blobs) <= 2
    queue.configure(8)
    queue.send(b"7", b"8", b"9")
    assert list(map(type, queue.state.policies[:-1])) == list(map(type, before))
