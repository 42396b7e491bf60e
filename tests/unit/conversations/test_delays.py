"""Delayed messages in a whole cluster: they come when they are due, whoever dies, and not before."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_in_memory import MemoryCluster
from mantamq.client import Message
from mantamq.protocol.wire.client_frames import (
    AttachReceiver,
    AttachSender,
    Completed,
    Delivery,
    Dispose,
    Flow,
    Transfer,
)
from mantamq.protocol.wire.message import encode
from mantamq.protocol.wire.queue_frames import MODIFY, Modification
from mortal_cluster import MortalCluster
from stored_cluster import StoredCluster


def sent(cluster: Any, *delays_ms: int, durable: bool = False) -> None:
    """A queue at b1 with a message for each delay, 0 for none."""
    cluster.pass_time(1000)
    client = cluster.client("b1")
    assert not client.command("declare_queue", name="q", durable=durable).code
    client.send(AttachSender(1, "", "q"))
    blobs = [encode(Message(str(number))) for number in range(1, len(delays_ms) + 1)]
    delays = [(index, ms, False) for index, ms in enumerate(delays_ms) if ms]
    client.send(Transfer(1, 1, blobs, delays=delays))
    cluster.pass_time(500)
    assert client.take(Completed)


def consumer(cluster: Any, broker: str) -> Any:
    client = cluster.client(broker)
    client.send(AttachReceiver(1, "q"), Flow(1, 100))
    return client


@pytest.mark.parametrize("broker", ["b1", "b2", "b3"])
def test_whoever_consumes_gets_each_when_it_is_due(broker):
    cluster = MemoryCluster()
    sent(cluster, 3000, 0, 2000, 2001)
    client = consumer(cluster, broker)
    cluster.pass_time(1400)
    assert client.positions() == [2], "2000 ms are not over"
    cluster.pass_time(150)
    assert client.positions() == [3, 4], "in the order in which they are due"
    cluster.pass_time(1050)
    assert client.positions() == [1]
    cluster.pass_time(5000)
    assert client.positions() == []


def test_a_queue_that_nobody_owns_has_them_too():
    cluster = MemoryCluster()
    sent(cluster, 1000)
    assert [state.available.count for state in cluster.queue_states("q")] == [0, 0, 0]
    cluster.pass_time(1000)
    assert [state.available.count for state in cluster.queue_states("q")] == [1, 1, 1]


def test_they_survive_a_takeover_and_an_update():
    cluster = MortalCluster()
    sent(cluster, 20_000, 0, 30_000)
    first = consumer(cluster, "b2")
    cluster.pass_time(500)
    assert first.positions() == [2]
    cluster.add_sequencer()
    cluster.kill("sequencer", "b2")
    cluster.pass_time(3000)
    cluster.add_broker("b2")
    for _ in range(20):
        cluster.pass_time(300)
    states = cluster.queue_states("q")  # that at b2 has it from an update
    assert len(states) == 3 and len({state.digest() for state in states}) == 1
    assert [sorted(state.delayed.due) for state in states] == [[1, 3]] * 3
    second = consumer(cluster, "b3")
    cluster.pass_time(1000)
    assert second.positions() == [2]
    cluster.pass_time(12_000)
    assert second.positions() == [1]
    cluster.pass_time(10_000)
    assert second.positions() == [3]


def test_they_survive_a_power_cut():
    cluster = StoredCluster()
    sent(cluster, 60_000, 0, durable=True)
    cluster.blackout("b3", "b1")
    assert not cluster.retired, cluster.retired
    client = consumer(cluster, "b3")
    cluster.pass_time(3000)
    assert client.positions() == [2]
    cluster.pass_time(60_000)
    assert client.positions() == [1]


def test_one_that_is_given_back_for_later_does_not_come_before_though_its_consumer_dies():
    cluster = MortalCluster()
    sent(cluster, 0, 0)
    client = consumer(cluster, "b2")
    cluster.pass_time(500)
    (delivery,) = client.take(Delivery)
    client.send(Dispose(1, 1, MODIFY, [delivery.acquisition, 1, 1], Modification(True, delay_ms=10_000)))
    cluster.pass_time(500)
    cluster.kill("b2")
    cluster.pass_time(3000)
    other = consumer(cluster, "b3")
    cluster.pass_time(1000)
    assert other.positions() == [2]
    cluster.pass_time(6000)
    assert other.positions() == [1]
