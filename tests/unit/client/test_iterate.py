"""Iterating a receiver, with an end that is known beforehand; and looking at a whole queue."""

from __future__ import annotations

import asyncio
import threading

import pytest
from fake_broker import FakeBroker
from mantamq.client import ConnectionLost, Deleted, Invalid, NotFound, connect, connect_async
from mantamq.protocol.wire.client_frames import Detach

pytestmark = pytest.mark.timeout(20)
BODIES = [b"0", b"1", b"2", b"3", b"4"]


@pytest.fixture
def cluster():
    with FakeBroker() as cluster:
        yield cluster


@pytest.fixture
def connection(cluster):
    with connect(cluster.address, reconnect_s=0) as connection:
        connection.declare_queue("q")
        sender = connection.session().sender("q")
        for body in BODIES:
            sender.send(body)
        sender.sync(5)
        yield connection


@pytest.mark.parametrize("capacity", [0, 2, 100])
def test_it_ends_when_nothing_came_for_the_timeout(connection, capacity):
    session = connection.session()
    receiver = session.receiver("q", capacity, timeout=0.2)
    for turn in ([b"5"], []):  # and begins again
        got = []
        for message in receiver:
            got.append(message.body)
            session.acknowledge(message)
        assert got == (BODIES if turn else [b"5"])
        if turn:
            sender = connection.session().sender("q")
            sender.send(turn[0])
            sender.sync(5)
    assert list(receiver) == []


def test_closing_ends_it_without_an_error(connection):
    session = connection.session()
    receiver = session.receiver("q")
    got = []
    for message in receiver:
        got.append(message.body)
        if len(got) == 3:
            receiver.close()
    assert got == BODIES[:3] and list(receiver) == []


@pytest.mark.parametrize("what", ["receiver", "session", "connection"])
def test_another_thread_closes_what_it_belongs_to(cluster, connection, what):
    connection.declare_queue("empty")
    with connect(cluster.address) as other:
        session = other.session()
        receiver = session.receiver("empty")
        closing = threading.Timer(0.05, {"receiver": receiver, "session": session, "connection": other}[what].close)
        closing.start()
        assert list(receiver) == []
        closing.join()


def test_any_other_end_is_raised(cluster, connection):
    receiver = connection.session().receiver("q", timeout=10)
    iterator = iter(receiver)
    next(iterator)
    connection.delete_queue("q")
    with pytest.raises(Deleted):
        list(iterator)
    connection.declare_queue("q")
    receiver = connection.session().receiver("q", timeout=10)
    cluster.kick()
    with pytest.raises(ConnectionLost):
        list(receiver)


@pytest.mark.parametrize("wrong", [-1, float("nan"), "1", True])
def test_a_timeout_is_checked_before_anything_is_attached(connection, wrong):
    with pytest.raises(Invalid, match="0 seconds or more, or None"):
        connection.session().receiver("q", timeout=wrong)
    assert connection.queue("q")["consumers"] == 0


@pytest.mark.parametrize("capacity", [0, 2, 1000])
def test_browsing_ends_at_the_end_of_the_queue_and_takes_nothing(cluster, connection, capacity):
    session = connection.session()
    assert [message.body for message in session.browse("q", capacity)] == BODIES
    assert [message.body for message in session.browse("q", capacity)] == BODIES  # each from its beginning
    assert connection.queue("q")["available"] == 5
    assert len(cluster.said(Detach)) == 2 and session._receivers == []
    connection.purge("q")
    assert list(session.browse("q", capacity)) == []
    with pytest.raises(NotFound):
        next(session.browse("missing"))


def test_browsing_may_be_left(cluster, connection):
    session = connection.session()
    browsing = session.browse("q")
    assert next(browsing).body == b"0"
    browsing.close()
    assert len(cluster.said(Detach)) == 1


async def test_the_asyncio_twin(cluster, connection):
    async with connect_async(cluster.address, reconnect_s=0) as other:
        session = other.session()
        assert [message.body async for message in session.browse("q")] == BODIES
        browsing = session.browse("q", 0)
        assert (await anext(browsing)).body == b"0"
        await browsing.aclose()
        assert len(cluster.said(Detach)) == 2 and session._receivers == []
        receiver = await session.receiver("q", timeout=0.1)
        got = []
        async for message in receiver:
            got.append(message.body)
            await session.acknowledge(message)
        assert got == BODIES
        await session.sync(5)
        loop = asyncio.get_running_loop()
        for what in ("receiver", "connection"):
            waiting = await session.receiver("q")
            end = waiting if what == "receiver" else other
            loop.call_later(0.05, lambda end=end: asyncio.ensure_future(end.close()))
            assert [message async for message in waiting] == []


async def test_the_asyncio_twin_raises_any_other_end(cluster, connection):
    async with connect_async(cluster.address) as other:
        waiting = await other.session().receiver("q", capacity=0)
        await anext(aiter(waiting))
        task = asyncio.ensure_future(anext(aiter(waiting)))
        await other.delete_queue("q")
        with pytest.raises(Deleted):
            while True:
                await task
                task = asyncio.ensure_future(anext(aiter(waiting)))
