"""Queues with a single active consumer as their users see them, through both clients."""

from __future__ import annotations

import msgspec
import pytest
from fake_broker import wait_until
from mantamq.client import Empty, Exists, Invalid, NotAllowed, Unavailable, connect, connect_async
from mantamq.protocol.wire.client_frames import Open

pytestmark = pytest.mark.timeout(20)


PATIENT_MS = 2000
"""Heartbeats so rare that a busy machine makes no client reconnect, which would change who is first in line."""


@pytest.fixture
def session(connection):
    assert connection.declare_queue("q", single_active=True)
    return connection.session()


@pytest.fixture
def other(cluster, session):
    """A session of another connection, at another broker."""
    with connect(cluster.addresses["b2"], reconnect_s=10, heartbeat_ms=PATIENT_MS) as connection:
        yield connection.session()


def send(session, *bodies):
    sender = session.sender("q")
    for body in bodies:
        sender.send(body)
    sender.sync(5)


def fetched(receiver, most=100):
    found = []
    while len(found) < most:
        try:
            found.append(receiver.fetch(0.2).body.decode())
        except Empty:
            break
    return found


def test_the_first_gets_all_and_the_next_in_order_takes_over(session, other):
    first, second, third = session.receiver("q"), other.receiver("q"), session.receiver("q")
    send(other, "1", "2", "3")
    assert fetched(first) == ["1", "2", "3"] and not fetched(second) and not fetched(third)
    with pytest.raises(Empty):
        second.get(0.5)
    session.acknowledge()
    session.sync(5)
    first.close()
    send(session, "4")
    assert fetched(second) == ["4"] and not fetched(third)
    second.close()
    assert fetched(third) == ["4"], "it was not settled"


def test_what_it_held_comes_to_the_next_before_what_is_behind_it(cluster, session, other):
    with connect(cluster.address, reconnect_s=0) as holder:
        first = holder.session().receiver("q", 2)
        second = other.receiver("q")
        send(session, "1", "2", "3", "4")
        assert fetched(first, 2) == ["1", "2"]
    assert fetched(second) == ["1", "2", "3", "4"]


def test_a_client_that_comes_back_elsewhere_is_in_line_again(cluster, session, other, connection):
    first, second = session.receiver("q"), other.receiver("q")
    cluster.shut("b1")
    wait_until(lambda: connection.reconnects == 1)
    send(other, "1", "2")
    got = fetched(first) or fetched(second)
    assert got == ["1", "2"], "whichever its broker has heard of first"
    second.close()
    send(other, "3")
    assert "3" in fetched(first)


def test_browsers_see_it_and_nobody_is_exclusive(session):
    send(session, "1")
    session.receiver("q")
    assert [message.body for message in session.browse("q")] in ([b"1"], [])
    with pytest.raises(NotAllowed, match="one consumer at a time"):
        session.receiver("q", exclusive=True)


def test_arguments(connection, cluster):
    assert connection.declare_queue("a", single_active=True)
    assert not connection.declare_queue("a", arguments={"x-single-active-consumer": True})
    assert not connection.declare_queue("a", arguments={"x-single-active-consumer": "true"})
    with pytest.raises(Exists):
        connection.declare_queue("a")
    assert connection.declare_queue("b", single_active=False) and not connection.declare_queue("b")
    for bad in (1, "yes", None, [True]):
        with pytest.raises(Invalid, match="give true, or leave it out"):
            connection.declare_queue("c", arguments={"x-single-active-consumer": bad})
    cluster.cluster.machines["b1"].cluster.versions.least = 7
    with pytest.raises(Unavailable, match="upgrade all members"):
        connection.declare_queue("c", single_active=True)


def test_frames_of_older_programs_are_understood():
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(["c", "", 7, 0, 0, False]), type=Open).life == 0


async def test_the_asyncio_twin(cluster):
    async with connect_async(cluster.address) as connection:
        assert await connection.declare_queue("q", single_active=True)
        session = connection.session()
        first, second = await session.receiver("q"), await session.receiver("q")
        sender = await session.sender("q")
        await sender.send("x")
        assert (await first.fetch(5)).body == b"x"
        with pytest.raises(Empty):
            await second.fetch(0.1)
        await first.close()
        assert (await second.fetch(5)).body == b"x"
