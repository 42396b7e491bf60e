"""Who is held back stays so, and goes on, whatever process dies: the queue's word on a transfer outlives its replica."""

from __future__ import annotations

import pytest
from cluster_in_memory import Client
from mantamq.protocol.wire.client_frames import Attached, AttachReceiver, AttachSender, Completed, Failed, Transfer
from mortal_cluster import MortalCluster


def held_back(cluster: MortalCluster, **arguments: int) -> Client:
    """A client of b1 that has sent three messages, of which the queue has let none complete."""
    client = cluster.client("b1")
    given = {"qpid.flow_stop_count": 1, "qpid.flow_resume_count": 1} | {
        f"qpid.{name}": value for name, value in arguments.items()
    }
    assert client.command("declare_queue", name="q", arguments=given).code == ""
    client.send(AttachSender(1, "", "q"))
    client.take(Attached)
    client.send(Transfer(1, 1, [b"1", b"2", b"3"]))
    cluster.pass_time(1000)
    assert not client.take(Completed) and not client.take(Failed)
    return client


@pytest.mark.parametrize("dies", ["b1's replica", "the consumers' broker"])
def test_a_process_dies_meanwhile(dies):
    cluster = MortalCluster(replicas=2)
    client = held_back(cluster, max_count=2)
    other = cluster.client("b2")
    if dies == "b1's replica":
        cluster.kill(cluster.replica("b1", "q"))
    else:
        consumer = cluster.client("b3")
        consumer.send(AttachReceiver(1, "q", "consume"))
        cluster.kill("b3")
    cluster.pass_time(10_000)
    assert not client.take(Completed) and not client.take(Failed)
    assert other.command("queue", name="q").value["flowStopped"] is True
    assert other.command("purge", name="q").code == ""
    cluster.pass_time(1000)
    (completed,), (failed,) = client.take(Completed), client.take(Failed)
    assert (completed.ranges, failed.ranges, failed.code) == ([1, 2], [3, 3], "resource-limit-exceeded")
