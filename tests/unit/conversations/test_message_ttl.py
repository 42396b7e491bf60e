"""A queue's own time to live in a whole cluster: the same at every broker, through takeovers, updates and power cuts."""

from __future__ import annotations

from typing import Any

from mantamq.client import Message
from mantamq.protocol.wire.client_frames import AttachSender, Transfer
from mantamq.protocol.wire.message import encode
from mortal_cluster import MortalCluster
from stored_cluster import StoredCluster


def sent(cluster: Any, **declared: Any) -> None:
    """A queue whose messages live for a minute, with one, and another half a minute later."""
    arguments = {"x-message-ttl": 60_000}
    assert not cluster.client("b1").command("declare_queue", name="q", arguments=arguments, **declared).code
    for broker in ("b1", "b2"):
        sender = cluster.client(broker)
        sender.send(AttachSender(1, "", "q"), Transfer(1, 1, [encode(Message(b"m"))]))
        cluster.pass_time(30_000)


def left(cluster: Any) -> list[list[int]]:
    return [list(state.blobs) for state in cluster.queue_states("q")]


def test_it_survives_a_takeover_and_an_update():
    cluster = MortalCluster()
    sent(cluster)
    cluster.pass_time(3_000)
    assert left(cluster) == [[2]] * 3
    cluster.add_sequencer()
    cluster.kill("sequencer", "b1")
    cluster.pass_time(10_000)
    cluster.add_broker("b1")
    for _ in range(20):
        cluster.pass_time(300)
    states = cluster.queue_states("q")
    assert len({state.digest() for state in states}) == 1 and left(cluster) == [[2]] * 3
    cluster.kill("b2")
    cluster.pass_time(20_000)
    assert left(cluster) == [[], []], "also by one that has it from an update"


def test_it_survives_a_power_cut_of_all():
    cluster = StoredCluster()
    sent(cluster, durable=True)
    cluster.blackout("b3", "b1")
    assert not cluster.retired, cluster.retired
    cluster.pass_time(3_000)
    assert left(cluster) == [[2], [2]]
    cluster.pass_time(40_000)
    assert left(cluster) == [[], []]
