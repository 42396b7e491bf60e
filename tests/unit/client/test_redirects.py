"""Redirected queues, as their users see them, through both clients."""

from __future__ import annotations

import pytest
from mantamq.client import Exists, InUse, Invalid, NotAllowed, NotFound, Unavailable, connect, connect_async

pytestmark = [pytest.mark.timeout(20), pytest.mark.usefixtures("time_passes")]


@pytest.fixture
def session(connection):
    for name in ("orders", "orders-2"):
        connection.declare_queue(name)
    return connection.session()


def bodies(session, queue):
    return [message.body.decode() for message in session.browse(queue)]


def test_what_is_sent_comes_into_the_target(cluster, connection, session):
    connection.declare_exchange("all", "fanout")
    connection.bind("all", "orders")
    sender = session.sender("orders")
    sender.send("before")
    sender.sync(5)
    assert connection.redirect_queue("orders", "orders-2")
    assert not connection.redirect_queue("orders", "orders-2"), "again"
    with connect(cluster.addresses["b2"]) as other:
        elsewhere = other.session().sender("all")
        elsewhere.send("by an exchange")
        elsewhere.sync(5)
    sender.send("behind")
    sender.sync(5)
    target = session.sender("orders-2")
    target.send("own")
    target.sync(5)
    assert bodies(session, "orders") == ["before"]
    assert bodies(session, "orders-2") == ["by an exchange", "behind", "own"]
    connection.end_redirect("orders")
    sender.send("again")
    sender.sync(5)
    assert bodies(session, "orders") == ["before", "again"], "and what has come into the other stays there"
    assert len(bodies(session, "orders-2")) == 3


def test_consumers_go_on_with_what_is_there(connection, session):
    sender = session.sender("orders")
    for n in range(3):
        sender.send(f"{n}")
    sender.sync(5)
    early = session.receiver("orders")
    first = early.fetch(5)
    connection.redirect_queue("orders", "orders-2")
    sender.send("new")
    sender.sync(5)
    session.acknowledge(first)
    assert (first.body, early.fetch(5).body) == (b"0", b"1")
    early.close()
    later = session.receiver("orders")
    assert {later.fetch(5).body, later.fetch(5).body} == {b"1", b"2"}, "those that come later get of the source, too"
    assert session.receiver("orders-2").fetch(5).body == b"new"


def test_a_move_and_dead_letters_come_into_the_target(connection, session):
    connection.declare_exchange("dead", "fanout")
    connection.bind("dead", "orders")
    connection.declare_queue("work", alternate="dead")
    connection.redirect_queue("orders", "orders-2")
    sender = session.sender("work")
    for n in range(3):
        sender.send(f"{n}")
    sender.sync(5)
    receiver = session.receiver("work", capacity=1)
    session.reject(receiver.fetch(5))
    session.sync(5)
    receiver.close()
    moved = connection.move("work", "orders")
    assert moved.moved == 2 and sorted(bodies(session, "orders-2")) == ["0", "1", "2"]
    with pytest.raises(Invalid, match="queue 'orders-2' is where they are"):
        connection.move("orders-2", "orders")


def test_either_queue_takes_it_along(connection, session):
    sender = session.sender("orders")
    connection.redirect_queue("orders", "orders-2")
    connection.delete_queue("orders-2")
    sender.send("back")
    sender.sync(5)
    assert bodies(session, "orders") == ["back"]
    with pytest.raises(NotFound, match="queue 'orders' is not redirected"):
        connection.end_redirect("orders")
    connection.declare_queue("orders-2")
    connection.redirect_queue("orders", "orders-2")
    connection.delete_queue("orders")
    connection.declare_queue("orders")
    assert "redirected_to" not in connection.queue("orders")


def test_a_named_sender_stays_with_the_queue_that_keeps_its_numbers(connection, session):
    sender = session.sender("orders", name="line 1")
    sender.send("one")
    sender.sync(5)
    connection.redirect_queue("orders", "orders-2")
    sender.send("two")
    sender.sync(5)
    sender.close()
    again = session.sender("orders", name="line 1")
    assert again.last_completed == 2
    again.send("two", number=2)
    again.send("three", number=3)
    again.sync(5)
    assert bodies(session, "orders") == ["one", "two", "three"] and bodies(session, "orders-2") == []


def test_what_there_is(connection, session):
    connection.declare_queue("orders-3")
    connection.redirect_queue("orders", "orders-2")
    connection.redirect_queue("orders-3", "orders-2")
    found = {one["name"]: one for one in connection.queues()}
    assert found["orders"]["redirected_to"] == "orders-2" and "redirected_from" not in found["orders"]
    assert found["orders-2"]["redirected_from"] == ["orders", "orders-3"]
    assert connection.queue("orders")["redirected_to"] == "orders-2"
    document = connection.definitions()
    assert document["manta"] == 2
    assert document["redirects"] == [
        {"source": "orders", "target": "orders-2"}, {"source": "orders-3", "target": "orders-2"}
    ]  # fmt: skip


def test_what_is_refused(cluster, connection, session):
    connection.declare_queue("orders-3")
    for pair, error, why in [
        (("orders", "orders"), Invalid, "cannot be redirected to itself"),
        (("orders", ""), Invalid, "or end its redirection by end_redirect"),
        (("orders", "nobody"), NotFound, "there is no queue 'nobody'"),
        (("nobody", "orders"), NotFound, "there is no queue 'nobody'"),
    ]:
        with pytest.raises(error, match=why):
            connection.redirect_queue(*pair)
    connection.redirect_queue("orders", "orders-2")
    with pytest.raises(Exists, match="queue 'orders' is redirected to 'orders-2': end that first"):
        connection.redirect_queue("orders", "orders-3")
    with pytest.raises(NotAllowed, match="queue 'orders' is itself redirected"):
        connection.redirect_queue("orders-3", "orders")
    with pytest.raises(NotAllowed, match="queue 'orders' is redirected to 'orders-2': end that first"):
        connection.redirect_queue("orders-2", "orders-3")
    with connect(cluster.addresses["b2"]) as other:
        other.declare_queue("mine", exclusive=True)
        for pair in (("mine", "orders-3"), ("orders-3", "mine")):
            with pytest.raises(InUse, match="queue 'mine' is exclusive to another connection"):
                connection.redirect_queue(*pair)
        assert other.redirect_queue("mine", "orders-3")
        assert "mine" not in str(other.definitions()), "it goes with its client"


def test_older_members_have_none(cluster, connection, session):
    cluster.cluster.machines["b1"].cluster.versions.least = 11
    with pytest.raises(Unavailable, match="upgrade all members first"):
        connection.redirect_queue("orders", "orders-2")


async def test_the_asyncio_twin(cluster):
    async with connect_async(cluster.address) as connection:
        for name in ("a", "b"):
            await connection.declare_queue(name)
        assert await connection.redirect_queue("a", "b")
        sender = await connection.session().sender("a")
        await sender.send("new")
        await sender.sync(5)
        assert (await (await connection.session().receiver("b")).fetch(5)).body == b"new"
        await connection.end_redirect("a")
        assert "redirected_to" not in await connection.queue("a")
