"""Queues that one client has for itself: kept from others at every broker, and gone with its connection, once."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_in_memory import Client, MemoryCluster
from mantamq.protocol.broker.auto_deletion import PARTED
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Command,
    Completed,
    Delivery,
    Detached,
    Flow,
    Open,
    Reply,
    Transfer,
)
from mantamq.protocol.wire.log_frames import Request
from mantamq.protocol.wire.version import KNOWS_WHO_ASKS, MINOR
from mortal_cluster import MortalCluster

WAIT_S = 8
BEAT_MS = DEFAULT_TIMING.heartbeat_ms


def connected(cluster: MemoryCluster, broker: str, life: int, name: str = "c") -> Client:
    client = cluster.client(broker, opened=False)
    client.send(Open(name, life=life))
    return client


def declare(client: Client, **more: Any) -> str:
    arguments = {"manta.exclusive": True, "qpid.auto_delete_timeout": WAIT_S}
    return client.command("declare_queue", name="q", arguments=arguments | more).code


def there(cluster: MemoryCluster) -> set[bool]:
    return {cluster.machines[b].wiring.queue("q") is not None for b in cluster.members if b in cluster.machines}


@pytest.mark.parametrize("broker", ["b1", "b2"])
def test_others_may_send_to_it_and_nothing_else(broker):
    cluster = MemoryCluster()
    owner = connected(cluster, "b1", 1)
    assert declare(owner) == ""
    other = cluster.client(broker)
    for command, arguments in (
        ("declare_queue", {"name": "q", "passive": True}), ("purge", {"name": "q"}), ("delete_queue", {"name": "q"}),
        ("delete_queue", {"name": "q", "if_unused": True}), ("bind", {"exchange": "amq.fanout", "queue": "q"}),
        ("unbind", {"exchange": "amq.fanout", "queue": "q"}),
    ):  # fmt: skip
        refused = other.command(command, **arguments)
        assert refused.code == "in-use" and "exclusive to another connection" in refused.text, command
    assert declare(other) == "in-use"
    for mode in ("consume", "browse"):
        other.send(AttachReceiver(9, "q", mode))
        assert [one.code for one in other.take(Detached)] == ["in-use"]
    other.send(AttachSender(1, "", "q"), Transfer(1, 1, [b"m"]))
    assert other.take(Completed)
    assert other.command("queue", name="q").value["messages"] == 1
    owner.send(AttachReceiver(1, "q", "consume"), Flow(1, 10))
    assert [delivery.blobs for delivery in owner.take(Delivery)] == [[b"m"]]
    assert owner.command("bind", exchange="amq.fanout", queue="q").code == "" == declare(owner)
    assert owner.command("delete_queue", name="q").code == "" and there(cluster) == {False}


@pytest.mark.parametrize("least", [11, MINOR])
def test_a_broker_that_has_not_heard_of_it_yet_keeps_it_all_the_same(least):
    """It cannot tell whose the queue is: that is looked at where the command applies, if all members do so."""
    cluster = MemoryCluster()
    owner, other = connected(cluster, "b1", 1), cluster.client("b2")
    cluster.machines["b2"].cluster.versions.least = least
    held = cluster.hold(Request)
    arguments = {"manta.exclusive": True}
    owner.send(Command(1, "declare_queue", {"name": "q", "arguments": arguments}))
    commands = [
        ("bind", {"exchange": "amq.fanout", "queue": "q"}),
        ("unbind", {"exchange": "amq.fanout", "queue": "q"}),
    ]
    for number, (name, more) in enumerate([*commands, ("delete_queue", {"name": "q"})], 1):
        other.send(Command(number, name, more))
    cluster.let_go(held)
    codes = [reply.code for reply in sorted(other.take(Reply), key=lambda reply: reply.number)]
    assert codes == (["in-use"] * 3 if least >= KNOWS_WHO_ASKS else [""] * 3)
    assert there(cluster) == {least >= KNOWS_WHO_ASKS}


def test_it_goes_when_its_connection_has_been_gone_for_so_long():
    cluster = MemoryCluster()
    owner = connected(cluster, "b2", 1)
    declare(owner)
    cluster.pass_time(60_000)
    assert there(cluster) == {True}
    sender = cluster.client("b1")
    sender.send(AttachSender(1, "", "q"))
    owner.vanish()
    cluster.pass_time(WAIT_S * 1000 - BEAT_MS)
    assert there(cluster) == {True}
    cluster.pass_time(3 * BEAT_MS)
    assert there(cluster) == {False}
    assert [PARTED in one.text for one in sender.take(Detached)] == [True]


def test_at_once_when_it_was_closed():
    cluster = MemoryCluster()
    owner = connected(cluster, "b2", 1)
    declare(owner)
    owner.send(Command(9, "leave", {}))
    cluster.pass_time(WAIT_S * 1000)
    assert there(cluster) == {True}, "it is still there"
    owner.vanish()
    cluster.pass_time(2 * BEAT_MS)
    assert there(cluster) == {False}


@pytest.mark.parametrize("broker", ["b1", "b2"])
@pytest.mark.parametrize("noticed", ["before", "behind", "never"])
def test_a_client_that_comes_back_has_it_still(broker, noticed):
    cluster = MemoryCluster()
    owner = connected(cluster, "b1", 1)
    declare(owner)
    if noticed == "before":
        owner.vanish()
    back = connected(cluster, broker, 2)
    if noticed == "behind" and broker != "b1":
        owner.vanish()
    cluster.pass_time(60_000)
    assert there(cluster) == {True} and declare(back) == ""
    back.send(AttachReceiver(1, "q", "consume"))
    assert back.take(Attached)
    back.vanish()
    cluster.pass_time((WAIT_S + 2) * 1000)
    assert there(cluster) == {False}


def test_a_broker_that_dies_takes_the_connection_along():
    cluster = MortalCluster()
    declare(connected(cluster, "b3", 1))
    cluster.kill("b3")
    cluster.pass_time(5000)
    back = connected(cluster, "b2", 2)
    cluster.pass_time(60_000)
    assert there(cluster) == {True}
    cluster.add_broker("b3")
    cluster.pass_time(5000)
    cluster.kill("b1")
    cluster.pass_time(5000)
    assert len({cluster.machines[b].wiring.digest() for b in ("b2", "b3")}) == 1
    back.vanish()
    cluster.pass_time((WAIT_S + 2) * 1000)
    assert there(cluster) == {False}


def test_a_connection_that_ends_before_its_declaration_is_ordered():
    cluster = MemoryCluster()
    owner = connected(cluster, "b2", 1)
    held = cluster.hold(Request)
    owner.send(Command(1, "declare_queue", {"name": "q", "arguments": {"manta.exclusive": True}}))
    owner.vanish()
    cluster.let_go(held)
    assert there(cluster) == {True}
    cluster.pass_time(45_000)
    assert there(cluster) == {False}


def test_a_client_that_has_come_back_before_its_declaration_is_ordered_has_it():
    cluster = MemoryCluster()
    owner = connected(cluster, "b2", 1)
    held = cluster.hold(Request)
    owner.send(Command(1, "declare_queue", {"name": "q", "arguments": {"manta.exclusive": True}}))
    owner.vanish()
    connected(cluster, "b3", 2)
    cluster.let_go(held)
    cluster.pass_time(60_000)
    assert there(cluster) == {True}


def test_while_a_member_is_of_an_older_version_there_is_none():
    cluster = MemoryCluster()
    client = connected(cluster, "b1", 1)
    cluster.machines["b1"].cluster.versions.least = 10
    assert declare(client) == "unavailable"
