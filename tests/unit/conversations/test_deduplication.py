"""Which message ids a queue knows outlives a power cut, a checkpoint, a stop, and the broker that everybody used."""

from __future__ import annotations

import pytest
from cluster_in_memory import Client, MemoryCluster
from mantamq.protocol.errors import UNAVAILABLE
from mantamq.protocol.limits import Limits
from mantamq.protocol.wire.client_frames import AttachSender, Completed, Transfer
from mantamq.protocol.wire.log_frames import UpdateStart
from mantamq.protocol.wire.message import Header, encode
from mortal_cluster import MortalCluster
from stored_cluster import StoredCluster

from .test_stored_queues import ALL, alike, queues

WINDOW = {"manta.dedupe_window_s": 3600}


def declare(cluster: MemoryCluster, **more) -> None:
    reply = cluster.client("b1").command("declare_queue", name="q", arguments=WINDOW, **more)
    assert not reply.code, reply


def send(cluster: MemoryCluster, broker: str, *ids: str) -> Client:
    """Each completes, whatever becomes of it."""
    client = cluster.client(broker)
    client.send(AttachSender(1, "", "q"))
    client.send(Transfer(1, 1, [encode(Header(b"x", message_id=id)) for id in ids]))  # type: ignore[arg-type]
    cluster.pass_time(1000)
    assert [frame.ranges for frame in client.take(Completed)] == [[1, len(ids)]]
    return client


def told(cluster: MemoryCluster, broker: str) -> tuple[int, int]:
    """How many are in the queue, and how many were duplicates."""
    client = cluster.client(broker)
    value = client.command("queue", name="q").value
    return value["messages"], value["duplicates"]


@pytest.mark.parametrize("how", ["log", "checkpoint", "stop"])
def test_a_power_cut_of_all(how):
    cluster = StoredCluster()
    declare(cluster, durable=True)
    send(cluster, "b1", "1", "2").vanish()
    send(cluster, "b2", "2", "3").vanish()
    alike(cluster)
    if how == "stop":
        cluster.stop_clean()
        cluster.start_again(*ALL)
    else:
        if how == "checkpoint":
            for copy in queues(cluster).values():
                copy._wanted = True
                copy.serve()
            cluster.client("b1").vanish()  # something happens, so what they have written goes on its way
            alike(cluster)
        assert all(copy.checkpoints._low for copy in queues(cluster).values()) == (how == "checkpoint")
        cluster.blackout(*ALL)
    assert not cluster.retired, cluster.retired
    assert told(cluster, "b3") == (3, 1)
    send(cluster, "b3", "1", "4", "3")
    assert told(cluster, "b1") == (4, 3)


def test_a_copy_that_was_updated_knows_as_well():
    cluster = MortalCluster(limits=Limits(retained_entries=0, retained_bytes=0))
    declare(cluster)
    send(cluster, "b1", "1", "2").vanish()
    cluster.kill("b3")
    cluster.pass_time(3000)
    cluster.traffic.clear()
    cluster.add_broker("b3")
    cluster.pass_time(3000)
    assert any(isinstance(frame, UpdateStart) for _, _, frame in cluster.traffic)
    cluster.kill("b1")
    cluster.pass_time(5000)
    send(cluster, "b3", "2", "3", "1")
    assert told(cluster, "b2") == (3, 2)


def test_while_a_member_is_older_none_is_declared():
    cluster = MemoryCluster()
    cluster.pass_time(1000)
    for broker in cluster.members:
        cluster.machines[broker].cluster.versions.least = 11
    reply = cluster.client("b1").command("declare_queue", name="q", arguments=WINDOW)
    assert reply.code == UNAVAILABLE and "upgrade all members" in reply.text
