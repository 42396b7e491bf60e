"""Senders with names whose queue is deleted, and declared anew: the numbers of the one that has gone are not the other's."""

from __future__ import annotations

import pytest
from cluster_in_memory import Client, MemoryCluster
from mantamq.protocol.errors import DELETED
from mantamq.protocol.wire.client_frames import Attached, AttachSender, Command, Completed, Detached, Transfer
from mantamq.protocol.wire.queue_frames import QueueReply, SenderNamed

BODY = b"\x91\xc4\x01x"


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.fixture
def admin(cluster: MemoryCluster) -> Client:
    admin = cluster.client("b3")
    admin.command("declare_queue", name="dead")
    admin.command("bind", exchange="amq.fanout", queue="dead")
    declare(admin)
    return admin


def declare(admin: Client, alternate: str = "") -> None:
    assert not admin.command("declare_queue", name="q", alternate=alternate).code


def declare_anew(admin: Client) -> None:
    assert not admin.command("delete_queue", name="q").code
    declare(admin)


def begun(cluster: MemoryCluster, broker: str = "b1", name: str = "") -> tuple[Client, Attached]:
    client = cluster.client(broker, name=name)
    client.send(AttachSender(1, "", "q", name="import"))
    (attached,) = client.take(Attached)
    return client, attached


def ends(client: Client) -> list[tuple[int, str, str]]:
    return [(frame.handle, frame.code, frame.text) for frame in client.take(Detached)]


GONE = [(1, DELETED, "queue 'q' was deleted")]


def test_who_comes_back_to_another_queue_of_the_name_hears_that_its_own_is_gone(cluster, admin):
    client, attached = begun(cluster, name="program")
    client.send(Transfer(1, 1, [BODY] * 3))
    assert [frame.ranges for frame in client.take(Completed)] == [[1, 3]]
    client.vanish()
    for anew in (False, True):
        if anew:
            declare_anew(admin)
        client = cluster.client("b2", name="program")
        client.send(AttachSender(1, "", "q", 4, name="import", queue=attached.queue), Transfer(1, 4, [BODY]))
        cluster.pass_time(1000)
        assert ends(client) == (GONE if anew else [])
        assert [frame.ranges for frame in client.take(Completed)] == ([] if anew else [[4, 4]])
        client.vanish()
    assert admin.command("queue", name="q").value["messages"] == 0
    _, again = begun(cluster)
    assert again.next == 1 and again.queue != attached.queue


def test_a_pattern_makes_no_queue_for_who_comes_back(cluster, admin):
    _, attached = begun(cluster)
    admin.command("add_pattern", name="p", pattern="^q", makes="queue")
    assert not admin.command("delete_queue", name="q").code
    client = cluster.client("b2")
    client.send(AttachSender(1, "", "q", name="import", queue=attached.queue))
    assert [handle for handle, *_ in ends(client)] == [1]
    assert [queue["id"].partition("#")[0] for queue in admin.command("queues").value] == ["dead"]


@pytest.mark.parametrize("anew", [False, True])
def test_what_a_queue_has_answered_before_it_was_deleted_begins_nothing(cluster, admin, anew):
    assert not admin.command("delete_queue", name="q").code
    declare(admin, "amq.fanout")  # so that it goes on answering
    begun(cluster)[0].send(Transfer(1, 1, [BODY] * 3))
    held = cluster.hold(QueueReply)
    client = cluster.client("b1")
    client.send(AttachSender(1, "", "q", name="import"))
    cluster.post(admin.name, admin.broker, Command(99, "delete_queue", {"name": "q"}))
    cluster.settle()
    if anew:
        cluster.post(admin.name, admin.broker, Command(100, "declare_queue", {"name": "q"}))
        cluster.settle()
    cluster.let_go(held)
    assert (ends(client), client.take(Attached)) == (GONE, [])


def test_who_has_begun_in_the_queue_before_ends_nobody_in_the_new_one(cluster, admin):
    held = cluster.hold(SenderNamed)
    begun(cluster, "b1")
    declare_anew(admin)
    second, _ = begun(cluster, "b2")
    cluster.let_go(held)
    assert ends(second) == []
