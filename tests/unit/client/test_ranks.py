"""Priorities of receivers as their users see them, through both clients."""

from __future__ import annotations

import time

import msgspec
import pytest
from fake_broker import wait_until
from mantamq.client import Empty, Invalid, NotAllowed, connect, connect_async
from mantamq.protocol.broker import connections
from mantamq.protocol.wire.client_frames import AttachReceiver, Opened
from mantamq.protocol.wire.queue_frames import Consume
from msgspec.structs import replace

pytestmark = pytest.mark.timeout(20)


def send(session, count):
    sender = session.sender("q")
    for n in range(count):
        sender.send(str(n))
    sender.sync(5)


def fetched(receiver, most=100):
    found = []
    while len(found) < most:
        try:
            found.append(receiver.fetch(0.2).body)
        except Empty:
            break
    return found


def speak_1_7(monkeypatch):
    monkeypatch.setattr(connections, "Opened", lambda *fields: replace(Opened(*fields), minor=7))


def test_the_higher_one_gets_all_while_it_has_credit(session):
    low, high = session.receiver("q"), session.receiver("q", 3, window="unaccepted", priority=5)
    lowest = session.receiver("q", priority=-5)
    for _ in range(3):
        send(session, 1)
        assert high.fetch(5)
    send(session, 2)
    assert len(fetched(low)) == 2 and not fetched(high) and not fetched(lowest), "its window is full"
    session.acknowledge()
    send(session, 2)
    assert len(fetched(high)) == 2 and not fetched(low)


def test_another_broker_is_told(cluster, connection, session):
    low, high = session.receiver("q"), session.receiver("q", priority=5)
    cluster.kick()
    wait_until(lambda: connection.reconnects == 1)
    send(session, 4)
    assert len(fetched(high)) == 4 and not fetched(low)


def test_bad_ones_are_refused(cluster, session, connection, monkeypatch):
    for bad in ("5", 1.5, True, 1 << 31, -(1 << 31) - 1):
        with pytest.raises(Invalid, match="whole number of 32 bits"):
            session.receiver("q", priority=bad)
    with pytest.raises(Invalid, match="only a receiver that consumes"):
        session.receiver("q", mode="browse", priority=1)
    assert session.receiver("q", priority=(1 << 31) - 1) and session.receiver("q", priority=-(1 << 31))
    speak_1_7(monkeypatch)
    cluster.kick()
    time.sleep(0.1)
    assert not connection._conversation.online, "a broker that knows no priorities is left"
    with connect(cluster.address) as old:
        with pytest.raises(NotAllowed, match=r"1\.7.*priorities.*1\.8"):
            old.session().receiver("q", priority=1)
        assert old.session().receiver("q", priority=0)
    monkeypatch.undo()
    wait_until(lambda: connection.reconnects == 1)


def test_frames_of_older_programs_are_understood():
    encode, decode = msgspec.msgpack.encode, msgspec.msgpack.decode
    assert decode(encode([1, "q", "consume", True, [], "", 0]), type=AttachReceiver).priority == 0
    assert decode(encode(["q#1", 1, "consume", True, [], ""]), type=Consume).priority == 0


async def test_the_asyncio_twin(cluster):
    async with connect_async(cluster.address) as connection:
        await connection.declare_queue("q")
        session = connection.session()
        low, high = await session.receiver("q"), await session.receiver("q", priority=1)
        sender = await session.sender("q")
        await sender.send("x")
        assert (await high.fetch(5)).body == b"x"
        with pytest.raises(Empty):
            await low.fetch(0.1)
        with pytest.raises(Invalid):
            await session.receiver("q", priority="high")
