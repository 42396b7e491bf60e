"""Queues that go with their last consumer: in time, once, at all members, whoever dies in the middle."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_in_memory import Client, MemoryCluster
from mantamq.protocol.broker.auto_deletion import VACANT
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Completed,
    Delivery,
    Detach,
    Detached,
    Flow,
    Transfer,
)
from mantamq.protocol.wire.events import DeleteQueue, decode_event
from mantamq.protocol.wire.log_frames import Request
from mortal_cluster import MortalCluster

WAIT_S = 8
"""Longer than a broker that dies may be missed."""
BEAT_MS = DEFAULT_TIMING.heartbeat_ms
RANK_MS = DEFAULT_TIMING.auto_delete_rank_ms


def declared(cluster: MemoryCluster, wait_s: int = WAIT_S, broker: str = "b1", **more: Any) -> Client:
    client = cluster.client(broker)
    arguments = {"manta.auto_delete": True, "qpid.auto_delete_timeout": wait_s}
    assert client.command("declare_queue", name="q", arguments=arguments, **more).code == ""
    return client


def consumer(cluster: MemoryCluster, broker: str, mode: str = "consume", name: str = "") -> Client:
    client = cluster.client(broker, name=name)
    client.send(AttachReceiver(1, "q", mode))
    assert client.take(Attached)
    return client


def there(cluster: MemoryCluster) -> set[bool]:
    """Whether the queue is there, by all brokers."""
    return {cluster.machines[b].wiring.queue("q") is not None for b in cluster.members if b in cluster.machines}


def ordered(cluster: MemoryCluster) -> list[str]:
    """Brokers that have asked for its deletion, since it was left."""
    return [
        source
        for source, _, frame in cluster.traffic
        if isinstance(frame, Request)
        for _, parts in frame.parts
        if (event := decode_event(parts if isinstance(parts, bytes) else parts[0])) is not None
        and isinstance(event, DeleteQueue)
        and event.vacant
    ]


@pytest.mark.parametrize("last", ["b1", "b2", "b3"])
def test_it_goes_when_its_last_consumer_in_the_cluster_has_gone_for_so_long(last):
    cluster = MemoryCluster()
    declared(cluster)
    cluster.pass_time(60_000)
    assert there(cluster) == {True}, "one that never had a consumer stays"
    consumers = {broker: consumer(cluster, broker) for broker in cluster.members}
    browser = consumer(cluster, "b1", "browse")
    for broker in cluster.members:
        if broker != last:
            consumers[broker].send(Detach(1))
    cluster.pass_time(60_000)
    assert there(cluster) == {True}
    consumers[last].vanish()
    cluster.pass_time(WAIT_S * 1000 - BEAT_MS)
    assert there(cluster) == {True}
    cluster.pass_time(3 * BEAT_MS)
    assert there(cluster) == {False} and ordered(cluster) == ["b1"], "the first of the voters, once"
    (ended,) = browser.take(Detached)
    assert ended.code == "deleted" and VACANT in ended.text


def test_at_once_if_it_is_not_to_wait():
    cluster = MemoryCluster()
    declared(cluster, 0)
    consumer(cluster, "b2").send(Detach(1))
    cluster.pass_time(2 * BEAT_MS)
    assert there(cluster) == {False}


def test_who_comes_again_in_time_finds_it_and_its_messages():
    cluster = MemoryCluster()
    admin = declared(cluster)
    consumer(cluster, "b2", name="c").vanish()
    admin.send(AttachSender(1, "", "q"), Transfer(1, 1, [b"m"]))
    assert admin.take(Completed)
    cluster.pass_time(WAIT_S * 1000 - 2 * BEAT_MS)
    back = consumer(cluster, "b3", name="c")
    back.send(Flow(1, 10))
    assert [delivery.blobs for delivery in back.take(Delivery)] == [[b"m"]]
    cluster.pass_time(60_000)
    assert there(cluster) == {True} and not ordered(cluster)
    back.vanish()
    cluster.pass_time(WAIT_S * 1000 - BEAT_MS)
    assert there(cluster) == {True}, "the time begins anew"
    cluster.pass_time(3 * BEAT_MS)
    assert there(cluster) == {False}


def test_who_comes_while_the_deletion_is_on_its_way_keeps_it():
    cluster = MemoryCluster()
    declared(cluster)
    consumer(cluster, "b2").vanish()
    held = cluster.hold(Request)
    cluster.pass_time((WAIT_S + 1) * 1000)
    assert [name for name, _ in held], "it has been asked for"
    deletion = list(held)
    held.clear()
    client = cluster.client("b3")
    client.send(AttachReceiver(1, "q", "consume"))
    first = list(held)
    cluster.let_go(first + deletion)
    assert client.take(Attached) and there(cluster) == {True}
    cluster.pass_time(60_000)
    assert there(cluster) == {True}


def test_who_comes_behind_the_deletion_hears_that_there_is_none():
    cluster = MemoryCluster()
    declared(cluster)
    consumer(cluster, "b2").vanish()
    held = cluster.hold(Request)
    cluster.pass_time((WAIT_S + 1) * 1000)
    client = cluster.client("b3")
    client.send(AttachReceiver(1, "q", "consume"))
    cluster.let_go(held)
    assert not client.take(Attached) and [one.code for one in client.take(Detached)] == ["not-found"]
    assert there(cluster) == {False}


@pytest.mark.parametrize("dies", [["b1"], ["b2"]])
@pytest.mark.parametrize("after_ms", [0, WAIT_S * 500, WAIT_S * 1000 - BEAT_MS])
def test_whoever_dies_meanwhile_it_goes_no_earlier_and_not_much_later(dies, after_ms):
    cluster = MortalCluster()
    declared(cluster, broker="b3")
    consumer(cluster, "b2").send(Detach(1))
    cluster.pass_time(after_ms)
    cluster.kill(*dies)
    cluster.pass_time(WAIT_S * 1000 - BEAT_MS - after_ms)
    assert there(cluster) == {True}
    cluster.pass_time(RANK_MS + 3 * BEAT_MS)
    assert there(cluster) == {False}


def test_a_consumer_of_a_broker_that_dies_is_waited_for_from_its_eviction():
    cluster = MortalCluster()
    declared(cluster)
    consumer(cluster, "b3")
    cluster.kill("b3")
    cluster.pass_time(WAIT_S * 1000)
    assert there(cluster) == {True}
    consumer(cluster, "b2").vanish()
    cluster.pass_time(WAIT_S * 1000 - BEAT_MS)
    assert there(cluster) == {True}
    cluster.pass_time(3 * BEAT_MS)
    assert there(cluster) == {False}


def test_a_broker_that_comes_back_counts_anew_and_knows_what_was_left():
    cluster = MortalCluster()
    declared(cluster)
    consumer(cluster, "b2").vanish()
    cluster.kill("b1")
    cluster.pass_time(5000)
    cluster.add_broker("b1")
    cluster.pass_time(1000)
    assert len({cluster.machines[b].wiring.digest() for b in cluster.members}) == 1
    cluster.kill("b2")
    cluster.pass_time(WAIT_S * 1000 - 1000)
    assert there(cluster) == {False}, "the others have counted on"


def test_a_takeover_in_the_middle_of_the_deletion_changes_nothing():
    cluster = MortalCluster()
    declared(cluster)
    cluster.add_sequencer()
    consumer(cluster, "b2").vanish()
    held = cluster.hold(Request)
    cluster.pass_time(WAIT_S * 1000 + BEAT_MS)
    assert held
    cluster.hold()
    cluster.kill("sequencer")
    cluster.pass_time(5000)
    assert there(cluster) == {False}


def test_while_a_member_is_of_an_older_version_none_is_declared_and_none_goes():
    cluster = MemoryCluster()
    admin = declared(cluster)
    consumer(cluster, "b2").vanish()
    for broker in cluster.members:
        cluster.machines[broker].cluster.versions.heard = lambda *_: None
        cluster.machines[broker].cluster.versions.least = 10
    refused = admin.command("declare_queue", name="r", arguments={"manta.auto_delete": True})
    assert refused.code == "unavailable" and "upgrade all members" in refused.text
    cluster.pass_time(60_000)
    assert there(cluster) == {True}
    for broker in cluster.members:
        cluster.machines[broker].cluster.versions.least = 11
    cluster.pass_time(BEAT_MS)
    assert there(cluster) == {False}


def test_a_queue_of_that_name_that_is_declared_again_is_another():
    cluster = MemoryCluster()
    admin = declared(cluster)
    consumer(cluster, "b2").vanish()
    held = cluster.hold(Request)
    cluster.pass_time((WAIT_S + 1) * 1000)
    late, held[:] = list(held), []
    cluster.hold()
    assert admin.command("delete_queue", name="q").code == ""
    declared(cluster)
    cluster.let_go(late)
    cluster.pass_time(60_000)
    assert there(cluster) == {True}
