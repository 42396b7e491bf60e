"""Queues that say how long their messages live, as their users see them, through both clients."""

from __future__ import annotations

from typing import Any

import pytest
from fake_broker import FakeBroker, wait_until
from mantamq.client import Exists, Invalid, Message, Unavailable, connect_async

pytestmark = pytest.mark.timeout(20)


def pass_time(cluster: FakeBroker, seconds: float) -> None:
    """The cluster's clock stands still but for this."""
    cluster.call(lambda: (cluster.cluster.pass_time(round(seconds * 1000)), cluster.pump()))


def send(session: Any, *messages: Any, queue: str = "q") -> None:
    sender = session.sender(queue)
    for message in messages:
        sender.send(message)
    sender.sync(5)


def bodies(connection: Any, queue: str = "q") -> list[bytes]:
    return [message.body for message in connection.session().browse(queue)]


def test_each_message_expires_so_long_after_it_came_or_earlier_by_its_own(cluster, connection):
    assert connection.declare_queue("q", message_ttl_s=2)
    session = connection.session()
    send(session, "1", Message(b"2", ttl=1), Message(b"3", ttl=100))
    pass_time(cluster, 1.5)
    assert bodies(connection) == [b"1", b"3"], "also behind one that stays"
    send(session, "4")
    pass_time(cluster, 1)
    assert bodies(connection) == [b"4"]
    assert connection.queue("q")["expired"] == 3


@pytest.mark.parametrize(
    "typed", [{"priorities": 3}, {"group_key": "c"}, {"fair_key": "c"}, {"last_value_key": "n"}], ids=str
)
def test_in_every_kind_of_queue(cluster, connection, typed):
    connection.declare_queue("q", message_ttl_s=10, **typed)
    send(
        connection.session(),
        *(Message(b"%d" % n, ttl=1 if n % 2 else None, priority=n, properties={"c": n % 3, "n": n}) for n in range(6)),
    )
    pass_time(cluster, 2)
    assert bodies(connection) == [b"0", b"2", b"4"]
    pass_time(cluster, 9)
    assert bodies(connection) == []


def test_what_comes_back_when_its_time_is_over_goes_then(cluster, connection):
    connection.declare_queue("q", message_ttl_s=1)
    session = connection.session()
    send(session, "1")
    receiver = session.receiver("q")
    message = receiver.fetch(5)
    pass_time(cluster, 5)
    assert connection.queue("q")["messages"] == 1, "while somebody has it, it stays"
    receiver.stop()
    session.release(message)
    session.sync(5)
    pass_time(cluster, 1.5)
    assert connection.queue("q")["messages"] == 0


def test_a_dead_letter_lives_anew_where_it_comes_to(cluster, connection):
    connection.declare_exchange("lost", "fanout")
    connection.declare_queue("dead", message_ttl_s=3)
    connection.bind("lost", "dead")
    connection.declare_queue("q", message_ttl_s=1, alternate="lost")
    send(connection.session(), "1")
    pass_time(cluster, 2)
    (letter,) = connection.session().browse("dead")
    assert letter.properties["manta.death_cause"] == "expired"
    pass_time(cluster, 1.5)
    assert bodies(connection, "dead") == [b"1"]
    pass_time(cluster, 2)
    assert bodies(connection, "dead") == []


def test_with_0_a_consumer_that_waits_gets_it_and_otherwise_it_goes(cluster, connection):
    connection.declare_queue("q", message_ttl_s=0)
    session = connection.session()
    receiver = session.receiver("q", capacity=1, window="unaccepted")
    pass_time(cluster, 1)
    send(session, "1")
    assert receiver.fetch(5).body == b"1"
    send(session, "2")
    wait_until(lambda: (pass_time(cluster, 0.01), connection.queue("q")["expired"] == 1)[1])


def test_arguments(connection, cluster):
    assert connection.declare_queue("a", message_ttl_s=1.5)
    assert connection.queue("a")["definition"] == {"message_ttl_s": 1.5}
    assert not connection.declare_queue("a", arguments={"x-message-ttl": "1500"})
    for other in ({}, {"message_ttl_s": 2}):
        with pytest.raises(Exists):
            connection.declare_queue("a", **other)
    assert connection.declare_queue("b", message_ttl_s=0.0001)
    assert connection.queue("b")["definition"] == {"message_ttl_s": 0.001}, "something is never nothing"
    for bad in (-1, "soon", True, float("nan"), float("inf")):
        with pytest.raises(Invalid, match=r"message_ttl_s=.* give a number of seconds"):
            connection.declare_queue("c", message_ttl_s=bad)
    with pytest.raises(Invalid, match="give a number of milliseconds"):
        connection.declare_queue("c", arguments={"x-message-ttl": -1})
    cluster.cluster.machines["b1"].cluster.versions.least = 11
    with pytest.raises(Unavailable, match="upgrade all members"):
        connection.declare_queue("c", message_ttl_s=1)


async def test_the_asyncio_twin(cluster):
    async with connect_async(cluster.address) as connection:
        assert await connection.declare_queue("q", message_ttl_s=1)
        session = connection.session()
        sender = await session.sender("q")
        await sender.send("1")
        await sender.sync(5)
        pass_time(cluster, 2)
        assert (await connection.queue("q"))["expired"] == 1
