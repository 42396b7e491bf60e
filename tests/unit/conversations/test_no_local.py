"""Who sent a message travels with it: through a power cut, a checkpoint and an update, and a client cannot say it."""

from __future__ import annotations

import pytest
from cluster_in_memory import Client, MemoryCluster
from mantamq.protocol.errors import UNAVAILABLE
from mantamq.protocol.limits import Limits
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Completed,
    Delivery,
    Detached,
    Flow,
    Transfer,
)
from mantamq.protocol.wire.log_frames import UpdateStart
from mortal_cluster import MortalCluster
from stored_cluster import StoredCluster

from .test_stored_queues import ALL, alike, queues

BODY = b"\x91\xc4\x01"


def send(cluster: MemoryCluster, broker: str, name: str, *bodies: bytes, next: int = 1) -> Client:
    client = cluster.client(broker, name=name)
    client.send(AttachSender(1, "", "q", next))
    client.send(*(Transfer(1, number, [BODY + body]) for number, body in enumerate(bodies, next)))
    cluster.pass_time(1000)
    assert client.take(Completed)
    return client


def got(cluster: MemoryCluster, broker: str, name: str, **more) -> list[bytes]:
    """What a browser of that client is shown."""
    client = cluster.client(broker, name=name)
    client.send(AttachReceiver(1, "q", "browse", no_local=True, **more), Flow(1, 100))
    cluster.pass_time(1000)
    bodies = [blob[-1:] for frame in client.take(Delivery) for blob in frame.blobs]
    client.vanish()
    return bodies


@pytest.mark.parametrize("how", ["log", "checkpoint", "stop"])
def test_a_power_cut_of_all(how):
    cluster = StoredCluster()
    assert not cluster.client("b1").command("declare_queue", name="q", durable=True).code
    send(cluster, "b1", "ann", b"1", b"2").vanish()
    send(cluster, "b2", "bob", b"3").vanish()
    send(cluster, "b3", "ann", b"4", next=3).vanish()
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
    for broker in ALL:
        assert got(cluster, broker, "ann") == [b"3"] and got(cluster, broker, "bob") == [b"1", b"2", b"4"]
        assert got(cluster, broker, "eve") == [b"1", b"2", b"3", b"4"]


def test_a_copy_that_was_updated_knows_as_well():
    cluster = MortalCluster(limits=Limits(retained_entries=0, retained_bytes=0))
    assert not cluster.client("b1").command("declare_queue", name="q").code
    send(cluster, "b1", "ann", b"1").vanish()
    send(cluster, "b1", "bob", b"2").vanish()
    cluster.kill("b3")
    cluster.pass_time(3000)
    cluster.traffic.clear()
    cluster.add_broker("b3")
    cluster.pass_time(3000)
    assert any(isinstance(frame, UpdateStart) for _, _, frame in cluster.traffic)
    assert got(cluster, "b3", "ann") == [b"2"] and got(cluster, "b3", "bob") == [b"1"]


def test_a_client_that_the_broker_has_named_has_its_own_as_well():
    cluster = MemoryCluster()
    cluster.pass_time(1000)
    assert not cluster.client("b1").command("declare_queue", name="q").code
    client = send(cluster, "b1", "", b"1")
    send(cluster, "b1", "", b"2")
    client.send(AttachReceiver(2, "q", no_local=True), Flow(2, 100))
    cluster.pass_time(1000)
    assert [blob[-1:] for frame in client.take(Delivery) for blob in frame.blobs] == [b"2"]


def test_while_a_member_is_older_there_are_none():
    cluster = MemoryCluster()
    cluster.pass_time(1000)
    assert not cluster.client("b1").command("declare_queue", name="q").code
    for broker in cluster.members:
        cluster.machines[broker].cluster.versions.least = 8
    client = cluster.client("b1")
    for handle, mode in enumerate(("consume", "browse"), 1):
        client.send(AttachReceiver(handle, "q", mode, no_local=True))
        (refused,) = client.take(Detached)
        assert refused.code == UNAVAILABLE and "upgrade all members" in refused.text
    client.send(AttachReceiver(3, "q"))
    assert client.take(Attached)
