"""A redirected queue in a whole cluster: through power cuts and updates, and for what is on its way when it begins."""

from __future__ import annotations

import pytest
from cluster_in_memory import Client, MemoryCluster
from mantamq.protocol.limits import Limits
from mantamq.protocol.wire.client_frames import AttachSender, Completed, Transfer
from mantamq.protocol.wire.log_frames import UpdateStart
from mortal_cluster import MortalCluster
from stored_cluster import StoredCluster

from .test_stored_queues import ALL, alike

BODY = b"\x91\xc4\x01x"


def redirected(cluster: MemoryCluster, **more) -> Client:
    client = cluster.client("b1")
    for name in ("a", "b"):
        assert not client.command("declare_queue", name=name, **more).code
    reply = client.command("redirect_queue", name="a", target="b")
    assert (reply.value, reply.code) == ({"changed": True}, "")
    return client


def send(cluster: MemoryCluster, broker: str, count: int = 1) -> Client:
    client = cluster.client(broker)
    client.send(AttachSender(1, "", "a"), Transfer(1, 1, [BODY] * count))
    cluster.pass_time(1000)
    assert [frame.ranges for frame in client.take(Completed)] == [[1, count]]
    return client


def held(cluster: MemoryCluster, broker: str) -> list[int]:
    cluster.pass_time(1000)
    client = cluster.client(broker)
    return [client.command("queue", name=name).value["messages"] for name in ("a", "b")]


@pytest.mark.parametrize("how", ["log", "stop"])
def test_it_survives_a_power_cut_of_all(how):
    cluster = StoredCluster()
    redirected(cluster, durable=True).vanish()
    send(cluster, "b2").vanish()
    alike(cluster, "b")
    if how == "stop":
        cluster.stop_clean()
        cluster.start_again(*ALL)
    else:
        cluster.blackout(*ALL)
    assert not cluster.retired, cluster.retired
    send(cluster, "b3", 2)
    assert held(cluster, "b1") == [0, 3]
    assert not cluster.client("b2").command("redirect_queue", name="a").code
    send(cluster, "b3", 4)
    assert held(cluster, "b1") == [4, 3]


def test_a_broker_that_was_updated_knows_of_it():
    cluster = MortalCluster(limits=Limits(retained_entries=0, retained_bytes=0))
    redirected(cluster).vanish()
    cluster.kill("b3")
    cluster.pass_time(3000)
    cluster.traffic.clear()
    cluster.add_broker("b3")
    cluster.pass_time(3000)
    assert any(isinstance(frame, UpdateStart) for _, _, frame in cluster.traffic)
    send(cluster, "b3", 2)
    assert held(cluster, "b3") == [0, 2]
    assert cluster.client("b3").command("queue", name="a").value["redirected_to"] == "b"


def test_what_is_sent_again_is_in_each_queue_once():
    cluster = MemoryCluster()
    client = cluster.client("b1")
    for name in ("a", "b"):
        client.command("declare_queue", name=name)
    sender = cluster.client("b1", name="program")
    sender.send(AttachSender(1, "", "a"), Transfer(1, 1, [BODY] * 2))
    sender.vanish()
    client.command("redirect_queue", name="a", target="b")
    for broker in ("b2", "b3"):  # its client has heard of none of them
        again = cluster.client(broker, name="program")
        again.send(AttachSender(1, "", "a", 1), Transfer(1, 1, [BODY] * 3))
        cluster.pass_time(1000)
        assert [frame.ranges for frame in again.take(Completed)] == [[1, 3]]
        again.vanish()
    assert held(cluster, "b1") == [2, 3], "in each once, whichever broker it is sent to again"


def test_a_move_goes_where_what_is_sent_then_comes():
    cluster = MemoryCluster()
    client = cluster.client("b1")
    for name in ("a", "b", "from"):
        client.command("declare_queue", name=name)
    client.send(AttachSender(1, "", "from"), Transfer(1, 1, [BODY] * 3))
    cluster.pass_time(1000)
    assert not client.command("move", name="from", token="t", key="a", by="").code
    cluster.pass_time(1000)
    assert held(cluster, "b2") == [3, 0]
    client.command("redirect_queue", name="a", target="b")
    client.send(Transfer(1, 4, [BODY]))
    cluster.pass_time(1000)
    assert not client.command("move", name="from", token="u", key="a", by="").code
    assert held(cluster, "b2") == [3, 1]
