"""Queues that end consumers which hold a message for too long, as their users see them, through both clients."""

from __future__ import annotations

from typing import Any

import pytest
from fake_broker import FakeBroker, wait_until
from mantamq.client import Empty, Exists, Invalid, LinkClosed, TimedOut, Unavailable, connect, connect_async

pytestmark = pytest.mark.timeout(20)


def pass_time(cluster: FakeBroker, seconds: float) -> None:
    """The cluster's clock stands still but for this."""
    cluster.call(lambda: (cluster.cluster.pass_time(round(seconds * 1000)), cluster.pump()))


def send(session: Any, *bodies: str) -> None:
    sender = session.sender("q")
    for body in bodies:
        sender.send(body)
    sender.sync(5)


def test_who_holds_a_message_for_longer_is_sent_away_and_others_get_it(cluster, connection):
    assert connection.declare_queue("q", consumer_timeout_s=2)
    session = connection.session()
    slow = session.receiver("q", capacity=1, window="unaccepted")
    send(session, "1", "2")
    assert slow.fetch(5).body == b"1"
    pass_time(cluster, 1.5)
    with pytest.raises(Empty):
        slow.fetch(0.1)
    pass_time(cluster, 1)
    with pytest.raises(TimedOut, match=r"not settled within 2 s \(consumer_timeout_s\)"):
        slow.fetch(5)
    other = session.receiver("q")
    found = [other.fetch(5), other.fetch(5)]
    assert [(message.body, message.delivery_count) for message in found] == [(b"1", 1), (b"2", 0)]


def test_who_settles_in_time_stays(cluster, connection):
    connection.declare_queue("q", consumer_timeout_s=2)
    session = connection.session()
    receiver = session.receiver("q", capacity=1, window="unaccepted")
    for body in (b"1", b"2", b"3"):
        send(session, body.decode())
        message = receiver.fetch(5)
        assert message.body == body
        pass_time(cluster, 1.5)
        session.acknowledge(message)
        session.sync(5)
    pass_time(cluster, 30)
    with pytest.raises(Empty):
        receiver.fetch(0.1)
    assert not session.lost


def test_who_settles_late_finds_that_in_lost(cluster, connection):
    connection.declare_queue("q", consumer_timeout_s=1)
    session = connection.session()
    receiver = session.receiver("q", capacity=2, window="unaccepted")
    send(session, "1", "2")
    first, second = receiver.fetch(5), receiver.fetch(5)
    session.acknowledge(first)
    session.sync(5)
    pass_time(cluster, 2)
    with pytest.raises(TimedOut):
        receiver.fetch(5)
    session.acknowledge(second)
    assert session.lost == [("q", second.position)]
    assert connection.queue("q")["messages"] == 1
    assert issubclass(TimedOut, LinkClosed)


def test_what_was_not_even_fetched_counts(cluster, connection):
    connection.declare_queue("q", consumer_timeout_s=1)
    session = connection.session()
    receiver = session.receiver("q")
    send(session, "1")
    wait_until(lambda: receiver.available == 1)
    pass_time(cluster, 2)
    wait_until(lambda: receiver.available == 0)  # that it is over is heard beside this thread
    with pytest.raises(TimedOut):
        receiver.fetch(5)
    assert connection.queue("q")["available"] == 1


def test_at_whatever_broker_it_is(cluster, connection):
    connection.declare_queue("q", consumer_timeout_s=1)
    with connect(cluster.addresses["b2"]) as other:
        receiver = other.session().receiver("q")
        send(connection.session(), "1")
        assert receiver.fetch(5).body == b"1"
        pass_time(cluster, 2)
        with pytest.raises(TimedOut):
            receiver.fetch(5)
    assert connection.session().receiver("q").fetch(5).redelivered


def test_it_counts_for_the_limit_of_deliveries(cluster, connection):
    connection.declare_queue("q", consumer_timeout_s=1, delivery_limit=1)
    session = connection.session()
    send(session, "1")
    for _ in range(2):
        receiver = session.receiver("q")
        assert receiver.fetch(5).body == b"1"
        pass_time(cluster, 2)
    assert connection.queue("q")["messages"] == 0


def test_who_browses_or_need_not_settle_is_let_alone(cluster, connection):
    connection.declare_queue("q", consumer_timeout_s=1)
    session = connection.session()
    browser, taker = session.receiver("q", mode="browse"), session.receiver("q", accept=False)
    send(session, "1")
    assert taker.fetch(5).body == b"1"
    pass_time(cluster, 30)
    for receiver in (browser, taker):
        with pytest.raises(Empty):
            receiver.fetch(0.1)
            receiver.fetch(0.1)


def test_arguments(connection, cluster):
    assert connection.declare_queue("a", consumer_timeout_s=30)
    assert connection.queue("a")["definition"] == {"consumer_timeout_s": 30}
    assert not connection.declare_queue("a", arguments={"x-consumer-timeout": "30000"})
    with pytest.raises(Exists):
        connection.declare_queue("a")
    with pytest.raises(Invalid, match=r"'x-consumer-timeout' \(consumer_timeout_s\) is 0: give a number of milli"):
        connection.declare_queue("c", consumer_timeout_s=0)
    cluster.cluster.machines["b1"].cluster.versions.least = 11
    with pytest.raises(Unavailable, match="upgrade all members"):
        connection.declare_queue("c", consumer_timeout_s=1)


async def test_the_asyncio_twin(cluster):
    async with connect_async(cluster.address) as connection:
        assert await connection.declare_queue("q", consumer_timeout_s=1)
        session = connection.session()
        sender = await session.sender("q")
        await sender.send("1")
        await sender.sync(5)
        receiver = await session.receiver("q")
        message = await receiver.fetch(5)
        pass_time(cluster, 2)
        with pytest.raises(TimedOut):
            await receiver.fetch(5)
        await session.acknowledge(message)
        assert session.lost == [("q", message.position)]


def test_where_what_comes_back_waits_so_does_what_was_held_for_too_long(cluster, connection):
    connection.declare_queue("q", consumer_timeout_s=2, retry_delay_s=[3])
    session = connection.session()
    slow = session.receiver("q", capacity=2, window="unaccepted")
    send(session, "1", "2")
    assert slow.fetch(5).body == b"1"
    pass_time(cluster, 2.5)
    wait_until(lambda: slow.available == 0)
    with pytest.raises(TimedOut):
        slow.fetch(5)
    wait_until(lambda: connection.queue("q")["delayed"] == 2)
    other = session.receiver("q")
    pass_time(cluster, 2)
    with pytest.raises(Empty):
        other.fetch(0.1)
    pass_time(cluster, 1.5)
    assert [(message.body, message.delivery_count) for message in (other.fetch(5), other.fetch(5))] == [
        (b"1", 1),
        (b"2", 1),
    ]
