"""One consumer has a queue alone, whichever brokers the others ask and whoever dies in the middle."""

from __future__ import annotations

import pytest
from cluster_in_memory import Client, MemoryCluster
from mantamq.protocol.machine import SEQUENCER
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Delivery,
    Detach,
    Detached,
    Flow,
    Transfer,
)
from mantamq.protocol.wire.log_frames import Request
from mortal_cluster import MortalCluster


def consumer(cluster: MemoryCluster, broker: str, exclusive: int = 1, name: str = "") -> Client:
    client = cluster.client(broker, name=name)
    client.send(AttachReceiver(1, "q", exclusive=exclusive))
    return client


def told(client: Client) -> list[str]:
    """What an attach is answered: "" for attached, or the code of the refusal."""
    return [""] * len(client.take(Attached)) + [frame.code for frame in client.take(Detached)]


def declared(cluster: MemoryCluster) -> None:
    cluster.pass_time(1000)
    assert cluster.client("b1").command("declare_queue", name="q").code == ""


def test_two_that_ask_at_once_at_two_brokers():
    cluster = MemoryCluster()
    declared(cluster)
    held = cluster.hold(Request)
    clients = [consumer(cluster, broker) for broker in ("b1", "b2", "b3")]
    assert len(held) == 3 and not any(told(client) for client in clients)
    cluster.let_go(held)
    assert sorted(word for client in clients for word in told(client)) == ["", "in-use", "in-use"]
    assert told(consumer(cluster, "b2", 0)) == ["in-use"]


@pytest.mark.parametrize("how", ["detaches", "vanishes"])
def test_who_goes_leaves_it_to_the_next(how):
    cluster = MemoryCluster()
    declared(cluster)
    holder = consumer(cluster, "b1")
    assert told(holder) == [""] and told(consumer(cluster, "b3")) == ["in-use"]
    if how == "detaches":
        holder.send(Detach(1))
    else:
        holder.vanish()
    assert told(consumer(cluster, "b3")) == [""]


def test_the_claim_goes_with_the_broker_and_not_with_the_sequencer_or_the_replica():
    cluster = MortalCluster()
    declared(cluster)
    cluster.add_sequencer()
    assert told(consumer(cluster, "b3")) == [""]
    cluster.kill(SEQUENCER)
    cluster.pass_time(5000)
    assert told(consumer(cluster, "b1")) == ["in-use"]
    cluster.kill("b1")
    cluster.pass_time(5000)
    cluster.add_broker("b1")
    cluster.pass_time(5000)
    assert told(consumer(cluster, "b1", 0)) == ["in-use"], "a broker that comes back knows it too"
    cluster.kill("b3")
    cluster.pass_time(5000)
    assert told(consumer(cluster, "b1")) == [""] and told(consumer(cluster, "b2", 0)) == ["in-use"]


def test_who_comes_back_at_another_broker_has_it_still_before_the_old_one_notices():
    cluster = MemoryCluster()
    declared(cluster)
    old = consumer(cluster, "b1", 1, "me")
    old.send(Flow(1, 1))
    assert told(old) == [""]
    new = consumer(cluster, "b2", 2, "me")
    new.send(Flow(1, 10))
    assert told(new) == [""] and told(old) == ["in-use"]
    sender = cluster.client("b3")
    sender.send(AttachSender(1, "", "q"), Transfer(1, 1, [b"x", b"y"]))
    assert not old.take(Delivery) and new.positions() == [1, 2]
    old.vanish()
    assert told(consumer(cluster, "b3")) == ["in-use"]


def test_a_member_of_an_older_version_would_let_others_in():
    cluster = MemoryCluster()
    declared(cluster)
    for broker in cluster.members:
        cluster.machines[broker].cluster.versions.least = 7
    client = consumer(cluster, "b1")
    (refused,) = client.take(Detached)
    assert refused.code == "unavailable" and "upgrade all members" in refused.text
    assert told(consumer(cluster, "b1", 0)) == [""]
