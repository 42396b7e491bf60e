"""Which message ids a queue knows outlives a power cut, a checkpoint, a stop, and the broker that everybody used."""

from __future__ import annotations

import pytest
from cluster_in_memory import Client, MemoryCluster
from mantamq.protocol.errors import IN_USE, UNAVAILABLE
from mantamq.protocol.limits import Limits
from mantamq.protocol.wire.client_frames import Attached, AttachSender, Completed, Detached, Transfer
from mantamq.protocol.wire.log_frames import UpdateStart
from mantamq.protocol.wire.message import Header, encode
from mortal_cluster import MortalCluster
from stored_cluster import StoredCluster

from .test_stored_queues import ALL, alike, queues

BODY = b"\x91\xc4\x01x"
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


# ---- named senders


def begins(cluster: MemoryCluster, broker: str) -> tuple[Client, int]:
    """Another life of the program, and where it goes on."""
    client = cluster.client(broker)
    client.send(AttachSender(1, "", "q", name="import"))
    cluster.pass_time(1000)
    (attached,) = client.take(Attached)
    return client, attached.next


@pytest.mark.parametrize("how", ["log", "checkpoint", "stop"])
def test_a_named_sender_goes_on_after_a_power_cut_of_all(how):
    cluster = StoredCluster()
    assert not cluster.client("b1").command("declare_queue", name="q", durable=True).code
    client, next = begins(cluster, "b1")
    assert next == 1
    client.send(Transfer(1, 1, [BODY] * 3), Transfer(1, 7, [BODY]))
    cluster.pass_time(1000)
    client.vanish()
    alike(cluster)
    if how == "stop":
        cluster.stop_clean()
        cluster.start_again(*ALL)
    else:
        if how == "checkpoint":
            for copy in queues(cluster).values():
                copy._wanted = True
                copy.serve()
            cluster.client("b1").vanish()
            alike(cluster)
        cluster.blackout(*ALL)
    assert not cluster.retired, cluster.retired
    assert begins(cluster, "b3")[1] == 8


def test_a_named_sender_is_over_at_every_broker_and_stays_so_when_it_comes_back():
    cluster = MemoryCluster()
    cluster.pass_time(1000)
    assert not cluster.client("b1").command("declare_queue", name="q").code
    old, _ = begins(cluster, "b1")
    old.send(Transfer(1, 1, [BODY]))
    cluster.pass_time(1000)
    assert old.take(Completed)
    new, next = begins(cluster, "b2")
    assert next == 2
    (over,) = old.take(Detached)
    assert over.code == IN_USE and "another sender of the name 'import'" in over.text
    back = cluster.client("b3", name=old.name)
    back.send(AttachSender(1, "", "q", 2, name="import"))
    cluster.pass_time(1000)
    (over,) = back.take(Detached)
    assert over.code == IN_USE
    new.send(Transfer(1, 2, [BODY]))
    cluster.pass_time(1000)
    assert new.take(Completed) and not new.take(Detached)


def test_a_copy_that_was_updated_knows_named_senders():
    cluster = MortalCluster(limits=Limits(retained_entries=0, retained_bytes=0))
    assert not cluster.client("b1").command("declare_queue", name="q").code
    client, _ = begins(cluster, "b1")
    client.send(Transfer(1, 1, [BODY] * 4))
    cluster.pass_time(1000)
    cluster.kill("b3")
    cluster.pass_time(3000)
    cluster.add_broker("b3")
    cluster.pass_time(3000)
    cluster.kill("b1")
    cluster.pass_time(5000)
    assert begins(cluster, "b3")[1] == 5


def test_while_a_member_is_older_no_sender_has_a_name():
    cluster = MemoryCluster()
    cluster.pass_time(1000)
    assert not cluster.client("b1").command("declare_queue", name="q").code
    for broker in cluster.members:
        cluster.machines[broker].cluster.versions.least = 11
    client = cluster.client("b1")
    client.send(AttachSender(1, "", "q", name="import"))
    (refused,) = client.take(Detached)
    assert refused.code == UNAVAILABLE and "upgrade all members" in refused.text
