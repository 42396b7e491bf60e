"""Queues and exchanges that are made when somebody attaches, in a whole cluster: who comes at once, comes back, or goes
meanwhile."""

from __future__ import annotations

import pytest
from cluster_in_memory import Client, MemoryCluster
from mantamq.protocol.wire.client_frames import Attached, AttachReceiver, AttachSender, Command, Detach, Detached, Open
from mantamq.protocol.wire.log_frames import Request
from mantamq.protocol.wire.version import MINOR


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


def connected(cluster: MemoryCluster, broker: str) -> Client:
    client = cluster.client(broker, opened=False)
    client.send(Open(client.name, minor=MINOR, life=1))
    return client


def add(client: Client, name: str = "p", pattern: str = "^q", makes: str = "queue", **more: object) -> None:
    assert client.command("add_pattern", name=name, pattern=pattern, makes=makes, **more).code == ""


def queues(client: Client) -> list[str]:
    return [one["id"] for one in client.command("queues").value]


def test_two_that_attach_at_once_get_one_queue(cluster):
    one, two = connected(cluster, "b1"), connected(cluster, "b2")
    add(one)
    for client, frame in (
        (one, AttachReceiver(1, "q")),
        (two, AttachSender(1, "", "q")),
        (two, AttachReceiver(2, "q")),
    ):
        cluster.post(client.name, client.broker, frame)
    cluster.settle()
    assert [frame.handle for frame in one.take(Attached)] == [1]
    assert sorted(frame.handle for frame in two.take(Attached)) == [1, 2]
    assert len(queues(one)) == 1


def test_policies_count_for_what_is_made(cluster):
    one = connected(cluster, "b1")
    add(one)
    one.command("add_policy", name="p", pattern="^q", arguments={"qpid.max_count": 7})
    one.send(AttachReceiver(1, "q"))
    assert one.take(Attached)
    (made,) = one.command("queues").value
    assert (made["definition"]["max_count"], made["policy"]) == (7, "p")


@pytest.mark.parametrize("frame", [AttachSender(1, "", "q", 5), AttachReceiver(1, "q", back=True)])
def test_who_comes_back_makes_nothing(cluster, frame):
    one = connected(cluster, "b1")
    add(one)
    one.send(frame)
    assert [end.code for end in one.take(Detached)] == ["not-found"] and queues(one) == []


@pytest.mark.parametrize(("minor", "life", "made"), [(11, 1, True), (11, 2, False), (7, 0, False), (MINOR, 2, True)])
def test_of_an_older_client_its_first_connection_alone_makes_something(cluster, minor, life, made):
    add(cluster.client("b2"))
    one = cluster.client("b1", opened=False)
    one.send(Open("c", minor=minor, life=life))
    one.send(AttachReceiver(1, "q"))
    assert bool(one.take(Attached)) == made == bool(queues(one))


def test_what_is_made_for_a_handle_that_is_detached_meanwhile_stays_and_nobody_is_attached(cluster):
    one = connected(cluster, "b1")
    add(one)
    held = cluster.hold(Request)
    one.send(AttachReceiver(1, "q"), Detach(1))
    assert [(end.handle, end.code) for end in one.take(Detached)] == [(1, "")]
    one.send(AttachReceiver(1, "q", mode="browse"))
    cluster.let_go(held)
    assert len(one.take(Attached)) == 1 and not one.take(Detached) and len(queues(one)) == 1


def test_a_handle_is_attached_once_also_while_something_is_made_for_it(cluster):
    one = connected(cluster, "b1")
    add(one)
    cluster.hold(Request)
    one.send(AttachReceiver(1, "q"), AttachSender(1, "", "q"))
    assert one.closed is not None and "handle 1 is attached already" in one.closed[1]


def test_one_that_is_declared_otherwise_meanwhile_is_attached_to(cluster):
    one, two = connected(cluster, "b1"), connected(cluster, "b2")
    add(one, arguments={"qpid.max_count": 5})
    held = cluster.hold(Request)
    two.send(Command(1, "declare_queue", {"name": "q"}))
    one.send(AttachSender(1, "", "q"))
    cluster.let_go(held)
    assert one.take(Attached) and len(queues(one)) == 1


def test_a_client_that_goes_meanwhile_leaves_the_queue_and_nothing_else(cluster):
    one, two = connected(cluster, "b1"), connected(cluster, "b2")
    add(one)
    held = cluster.hold(Request)
    one.send(AttachReceiver(1, "q"))
    one.vanish()
    cluster.let_go(held)
    assert len(queues(two)) == 1
    assert two.command("delete_queue", name="q", if_unused=True).code == ""


def test_an_exchange_is_made_for_a_sender_alone(cluster):
    one = connected(cluster, "b1")
    add(one, pattern="^e", makes="exchange", type="fanout")
    one.send(AttachReceiver(1, "e"), AttachSender(2, "", "e"))
    assert [end.code for end in one.take(Detached)] == ["not-found"] * 2
    one.send(AttachSender(3, "e", None))
    assert one.take(Attached) and one.command("resolve", name="e").value == {"kind": "exchange"}
    one.send(AttachSender(4, "", "e"))
    assert [end.code for end in one.take(Detached)] == ["not-found"], "the name is an exchange's now"
    assert one.command("resolve", name="other").code == "not-found"
