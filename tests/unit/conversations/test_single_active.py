"""One consumer at a time gets messages of a queue, whichever broker it asks and whoever dies in the middle."""

from __future__ import annotations

import pytest
from cluster_in_memory import Client, MemoryCluster
from mantamq.protocol.machine import SEQUENCER
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Detach,
    Detached,
    Dispose,
    Disposed,
    Flow,
    FlowDrained,
    Open,
    Transfer,
)
from mantamq.protocol.wire.queue_frames import ACCEPT, Cancel
from mortal_cluster import MortalCluster


def consumer(cluster: MemoryCluster, broker: str, name: str = "", life: int = 1, credit: int = 100) -> Client:
    client = cluster.client(broker, opened=False)
    client.send(Open(name or client.name, life=life), AttachReceiver(1, "q"), Flow(1, credit))
    assert client.take(Attached)
    return client


def declared(cluster: MemoryCluster) -> Client:
    """A client that sends."""
    cluster.pass_time(1000)
    client = cluster.client("b1")
    assert client.command("declare_queue", name="q", arguments={"x-single-active-consumer": True}).code == ""
    client.send(AttachSender(1, "", "q"))
    return client


def send(client: Client, number: int, count: int = 1) -> None:
    client.send(Transfer(1, number, [b"m"] * count))


@pytest.mark.parametrize("how", ["detaches", "vanishes"])
def test_the_first_that_came_gets_all_at_whatever_broker(how):
    cluster = MemoryCluster()
    sender = declared(cluster)
    line = [consumer(cluster, broker) for broker in ("b2", "b3", "b1", "b2")]
    send(sender, 1, 3)
    cluster.pass_time(100)
    assert [client.positions() for client in line] == [[1, 2, 3], [], [], []]
    if how == "detaches":
        line[0].send(Detach(1))
    else:
        line[0].vanish()
    cluster.pass_time(100)
    assert [client.positions() for client in line[1:]] == [[1, 2, 3], [], []], "in the order of their coming"


def test_who_waits_in_line_and_leaves_is_told_what_became_of_all_it_has_settled():
    """It held nothing: its settlement and its end come to the replica at once, and neither is known there."""
    cluster = MemoryCluster()
    declared(cluster)
    consumer(cluster, "b2")
    waits = consumer(cluster, "b3")
    waits.send(Dispose(1, 1, ACCEPT, [7, 1, 1]), Detach(1))
    cluster.pass_time(100)
    assert [type(frame) for frame in waits.got if isinstance(frame, Disposed | Detached)] == [Disposed, Detached]
    assert waits.take(Disposed) == [Disposed(1, 1, [7, 1, 1])]


def test_the_next_comes_when_a_broker_dies_and_not_when_a_sequencer_does():
    cluster = MortalCluster()
    sender = declared(cluster)
    cluster.add_sequencer()
    first, second, third = (consumer(cluster, broker) for broker in ("b3", "b2", "b1"))
    cluster.kill(SEQUENCER)
    cluster.pass_time(5000)
    send(sender, 1)
    cluster.pass_time(100)
    assert first.positions() == [1] and not second.positions()
    cluster.kill("b3")
    cluster.pass_time(5000)
    send(sender, 2)
    cluster.pass_time(100)
    assert second.positions() == [1, 2] and not third.positions(), "what the first one held, too"


def test_who_comes_back_elsewhere_before_its_broker_notices_is_first_still():
    cluster = MemoryCluster()
    sender = declared(cluster)
    old, other = consumer(cluster, "b1", "me"), consumer(cluster, "b3")
    new = consumer(cluster, "b2", "me", 2)
    assert [frame.code for frame in old.take(Detached)] == ["in-use"]
    send(sender, 1)
    cluster.pass_time(100)
    assert new.positions() == [1] and not other.positions() and not old.positions()


@pytest.mark.parametrize("at", ["b1", "b3"])
def test_the_next_waits_for_what_the_one_before_it_waited_for_and_never_had(at):
    """What its client held at b2 is not back when it leaves b1 as well. b3 has come since, and knows only of b1."""
    cluster = MortalCluster()
    sender = declared(cluster)
    consumer(cluster, "b2", "me", credit=2)
    send(sender, 1, 4)
    cluster.kill("b3")
    cluster.pass_time(5000)
    assert [state.owner for state in cluster.queue_states("q")] == [""] * 2, "b2 has given the lock up"
    held = cluster.hold(Cancel)
    again = consumer(cluster, "b1", "me", 2, credit=0)
    cluster.add_broker("b3")
    cluster.pass_time(5000)
    following = consumer(cluster, at)
    again.send(Detach(1))
    (at_b2,) = [one for one in held if one[0].startswith("b2")]
    cluster.let_go([one for one in held if one is not at_b2])
    cluster.pass_time(1000)
    assert again.take(Detached) and not following.positions()
    cluster.let_go([at_b2])
    cluster.pass_time(100)
    assert following.positions() == [1, 2, 3, 4]


@pytest.mark.parametrize("first", [True, False])
def test_one_that_wants_none_of_what_waits_hears_so_at_once(first):
    """By its selector it has no use for the lock, but to know that nobody holds anything."""
    cluster = MemoryCluster()
    sender = declared(cluster)
    former = [] if first else [consumer(cluster, "b2", credit=0)]
    send(sender, 1)
    client = cluster.client("b3")
    client.send(AttachReceiver(1, "q", selector="JMSPriority > 8"))
    for one in former:
        one.send(Detach(1))
    client.send(Flow(1, 1, drain=True))
    cluster.pass_time(100)
    assert client.take(FlowDrained) and not client.positions()


def test_who_is_not_first_is_told_at_once_that_there_is_nothing():
    cluster = MemoryCluster()
    sender = declared(cluster)
    consumer(cluster, "b1", credit=0)
    second = consumer(cluster, "b2")
    send(sender, 1)
    second.send(Flow(1, 1, drain=True))
    assert second.take(FlowDrained) and not second.positions()


def test_a_queue_with_somebody_in_line_is_in_use_and_ends_under_all():
    cluster = MemoryCluster()
    sender = declared(cluster)
    line = [consumer(cluster, broker) for broker in ("b2", "b3")]
    assert sender.command("delete_queue", name="q", if_unused=True).code == "in-use"
    assert sender.command("delete_queue", name="q").code == ""
    assert [[frame.code for frame in client.take(Detached)] for client in line] == [["deleted"], ["deleted"]]
