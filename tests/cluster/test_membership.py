"""Brokers join and leave a running cluster, with clients at work; and the Supervisor dies in the middle of it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from mantamq.actors.cluster import Cluster, start_cluster
from mantamq.actors.ray_control.local_ray import wait_gone
from mantamq.actors.ray_control.placement import Placement
from mantamq.client import Connection, connect
from mantamq.protocol.errors import LocalError
from mantamq.protocol.wire.client_frames import MembersChanged
from mantamq.protocol.wire.link_frames import Refused

from tests.cluster.shared import GONE_S, ray_children
from tests.cluster.test_reconnect import Consumer, Producer, wait_until
from tests.cluster.wire import RawClient

DEPTH = 3000
WHOLE_S = 30.0


@contextmanager
def three(**options: Any) -> Iterator[Cluster]:
    with start_cluster(brokers=3, **options) as cluster:
        yield cluster
        pids = list(cluster.actor_pids().values())
    assert wait_gone(pids, GONE_S) == []
    assert ray_children() == []


@contextmanager
def producing(connection: Connection) -> Iterator[Producer]:
    """A producer at work until the end; then all it has sent is complete."""
    producer = Producer(connection)
    producer.start()
    try:
        yield producer
    finally:
        producer.stop.set()
        producer.join(WHOLE_S)
    assert producer.failure is None and producer.complete == producer.sent


def whole(cluster: Cluster) -> list[str]:
    """What is still wrong after a while."""
    until = time.monotonic() + WHOLE_S
    while (wrong := cluster.health()["unhealthy"]) and time.monotonic() < until:
        time.sleep(0.05)
    return wrong


def digests(cluster: Cluster, queue: str) -> dict[str, Any]:
    """Broker -> (how far, checksum) of a queue at rest, once all its replicas are as far."""
    placement = Placement(cluster.namespace)
    until = time.monotonic() + WHOLE_S
    while True:
        found: dict[str, Any] = {}
        for actor in cluster.status()["actors"]:
            handle = placement.find(actor["name"]) if actor["role"] == "QueueReplica" else None
            for id, digest in (handle.call_now("digests") if handle is not None else {}).items():
                if id.rpartition("#")[0] == queue:
                    found[actor["name"].split(".")[0]] = tuple(digest)
        if len({applied for applied, _ in found.values()}) == 1 or time.monotonic() > until:
            return found
        time.sleep(0.05)


def owner(cluster: Cluster) -> str:
    """The broker that holds the consume lock of the only queue, by the replica that has applied the most."""
    replicas = [actor for actor in cluster.status()["actors"] if actor["role"] == "QueueReplica"]
    reports = [queue for replica in replicas for queue in replica["machine"].values()]
    return max(reports, key=lambda queue: queue["applied"])["owner"]


def take_all(consumer: Consumer, watching: Connection) -> None:
    """Let it take until the queue is empty, and end it."""
    wait_until(lambda: consumer.failure or watching.queue("q")["messages"] == 0, "everything is taken and accepted")
    consumer.stop.set()
    consumer.join(WHOLE_S)
    assert consumer.failure is None


@pytest.mark.timeout(150)
def test_a_broker_joins_and_another_leaves_under_load() -> None:
    with three() as cluster, connect(cluster.addresses["b1"]) as sending, connect(cluster.addresses["b2"]) as watching:
        sending.declare_queue("q")
        with producing(sending) as producer:
            wait_until(lambda: producer.complete >= DEPTH, "there is something to copy")
            told: list[dict[str, Any]] = []
            assert cluster.add_broker(progress=told.append) == "b4"
            assert {now["broker"] for now in told} == {"b4"} and told[0]["stage"]
            assert sorted(cluster.addresses) == ["b1", "b2", "b3", "b4"]
            wait_until(lambda: sending.members == cluster.addresses, "clients hear of the new member")
            assert whole(cluster) == []
            [critical] = cluster.quorum_critical("b4").values()
            assert critical["reasons"] == []  # three of four are left
        same = digests(cluster, "q")
        assert sorted(same) == ["b1", "b2", "b3", "b4"] and len(set(same.values())) == 1, same

        with connect(cluster.addresses["b4"], reconnect_s=0) as receiving:
            consumer = Consumer(receiving)
            consumer.start()
            take_all(consumer, watching)
            assert set(consumer.accepted) == set(range(producer.sent)), "the newcomer lacks something"

        # The newcomer owns the queue and carries the clients; now it goes.
        leaver = connect(cluster.addresses["b4"])
        with leaver as receiving, connect(cluster.addresses["b4"]) as other:
            with producing(other) as producer:
                consumer = Consumer(receiving)
                consumer.start()
                wait_until(lambda: len(consumer.accepted) > 1000, "messages are accepted")
                # An owner whose consumers have no credit for a moment (`lock_idle_ms`) gives the lock up, as it should.
                wait_until(lambda: owner(cluster) == "b4", "the newcomer owns the queue")
                gone = [pid for name, pid in cluster.actor_pids().items() if name.split(".")[0] == "b4"]
                with RawClient(cluster.addresses["b4"]) as idle:
                    cluster.remove_broker("b4")
                    assert "b4" not in idle.hear(MembersChanged).members
                    assert "leaves the cluster" in idle.hear(Refused).text
                assert sorted(cluster.addresses) == ["b1", "b2", "b3"]
                assert wait_gone(gone, GONE_S) == []
                more = len(consumer.accepted) + 1000
                wait_until(lambda: consumer.failure or len(consumer.accepted) > more, "messages are accepted again")
                assert receiving.broker != "b4" and other.broker != "b4"
                assert whole(cluster) == []
            take_all(consumer, watching)
            assert set(consumer.places) == set(range(producer.sent)), "a complete message was lost"
        time.sleep(2)  # as long as a death takes to be noticed: nobody heals it back
        assert sorted(cluster.status()["brokers"]) == ["b1", "b2", "b3"] and whole(cluster) == []
        assert not any(name.startswith("b4") for name in cluster.actor_pids())
        same = digests(cluster, "q")
        assert sorted(same) == ["b1", "b2", "b3"] and len(set(same.values())) == 1, same


@pytest.mark.timeout(120)
def test_what_may_not_be_is_refused_and_why() -> None:
    with start_cluster(brokers=2, spares=1) as cluster:
        with pytest.raises(LocalError, match="there is no broker 'b9'"):
            cluster.remove_broker("b9")
        with pytest.raises(LocalError, match="no Ray nodes are called 'nowhere'"):
            cluster.add_broker("nowhere")
        cluster.remove_broker("b1")
        assert list(cluster.addresses) == ["b2"] and whole(cluster) == []
        with pytest.raises(LocalError, match="the last broker"):
            cluster.remove_broker("b2")
        with connect(cluster.nearest()) as connection:  # one alone goes on
            connection.declare_queue("q")
            connection.session().sender("q").send(b"x")

        def one_at_a_time(now: dict[str, Any]) -> None:
            if not refused:
                with pytest.raises(LocalError, match="members change one at a time"):
                    cluster.remove_broker("b2")
                refused.append(now["stage"])

        refused: list[str] = []
        assert cluster.add_broker(progress=one_at_a_time) == "b3"  # a name is never used twice
        assert refused
        assert sorted(cluster.addresses) == ["b2", "b3"] and whole(cluster) == []

        with connect(cluster.nearest()) as connection:
            sender = connection.session().sender("q")
            for _ in range(500):
                sender.send(bytes(100_000))  # three seconds of an update
            sender.sync()
        assert cluster.add_broker(whole=False) == "b4"
        assert "b4" in cluster.addresses and any("b4" in reason for reason in cluster.health()["unhealthy"])
        cluster.remove_broker("b4")
        assert sorted(cluster.refresh()) == ["b2", "b3"] and whole(cluster) == []


@pytest.mark.timeout(170)
def test_the_next_supervisor_finishes_what_one_began() -> None:
    with three(detached=True) as cluster:
        with connect(cluster.addresses["b1"]) as sending:
            sending.declare_queue("q")
        with connect(list(cluster.addresses.values())) as sending, producing(sending) as producer:
            wait_until(lambda: producer.complete >= DEPTH, "there is something to copy")
            assert during(cluster, "add_broker") == "b4"
            assert sorted(cluster.refresh()) == ["b1", "b2", "b3", "b4"] and whole(cluster) == []
            during(cluster, "remove_broker", "b2")
            assert sorted(cluster.refresh()) == ["b1", "b3", "b4"] and whole(cluster) == []
            assert not any(name.split(".")[0] == "b2" for name in cluster.actor_pids())
        same = digests(cluster, "q")
        assert sorted(same) == ["b1", "b3", "b4"] and len(set(same.values())) == 1, same


def during(cluster: Cluster, method: str, *args: str) -> Any:
    """Ask for a change, and kill the Supervisor as soon as it has begun."""
    killed: list[int] = []

    def kill(now: dict[str, Any]) -> None:
        if not killed:
            killed.append(cluster.actor_pids()["supervisor"])
            os.kill(killed[0], signal.SIGKILL)

    answer = getattr(cluster, method)(*args, progress=kill, timeout_s=60)
    assert killed and cluster.actor_pids()["supervisor"] != killed[0]
    return answer
