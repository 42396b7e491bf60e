"""What goes to no queue is visible: counted, or refused where it is mandatory; also through failovers and older brokers."""

from __future__ import annotations

import time

import msgspec
import pytest
from fake_broker import wait_until
from mantamq.client import Message, NotAllowed, Unroutable, connect, connect_async
from mantamq.protocol.broker import connections
from mantamq.protocol.ranges import pairs
from mantamq.protocol.wire.client_frames import Completed, Transfer
from mantamq.protocol.wire.message import decode

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def connection(cluster):
    with connect(cluster.address, reconnect_s=10, heartbeat_ms=200) as connection:
        connection.declare_queue("q")
        connection.bind("amq.topic", "q", "a.#")
        yield connection


def bodies(cluster, queue="q"):
    cluster.pass_time(1000)
    state = cluster.call(lambda: cluster.cluster.queue_states(queue)[1])
    return [decode(state.blobs[p], Message).body for p in sorted(state.blobs)]


def test_it_completes_and_is_counted(connection):
    session = connection.session()
    sender, fixed = session.sender("amq.topic"), session.sender("amq.fanout/k")
    for subject in ("a.1", "b", "a.2", "c", None):
        sender.send(Message(b"x", subject=subject))
    fixed.send(b"x")
    session.sync(5)
    assert (sender.unroutable, sender.unsettled, fixed.unroutable) == (3, 0, 1)
    assert connection.queue("q")["messages"] == 2
    connection.bind("amq.fanout", "q")
    fixed.send(b"y")
    fixed.sync(5)
    assert fixed.unroutable == 1 and connection.queue("q")["messages"] == 3


def test_mandatory_raises_and_names_what_was_refused(cluster, connection):
    sender = connection.session().sender("amq.topic", mandatory=True)
    cluster.hold(Completed)
    for subject in ("a.1", "b.1", "b.2", "a.2"):
        sender.send(Message(subject, subject=subject))
    cluster.let_go()
    with pytest.raises(Unroutable, match=r"'amq.topic'.*bind") as caught:
        sender.sync(5)
    refused = [n for first, last in pairs(caught.value.numbers) for n in range(first, last + 1)]
    assert refused == [2, 3] and caught.value.code == "unroutable"
    sender.send(Message("a.3", subject="a.3"))
    sender.sync(5)
    assert sender.unroutable == 0 and bodies(cluster) == [b"a.1", b"a.2", b"a.3"]


def test_what_was_refused_is_not_sent_again_to_another_broker(cluster, connection):
    """A queue bound meanwhile must not get what was reported as refused."""
    sender = connection.session().sender("amq.topic", mandatory=True)
    cluster.hold(Completed)
    sender.send(Message("first", subject="a"))  # leaves alone, and the others gather behind it
    for subject in ("b.1", "a.1", "b.2", "a.2"):
        sender.send(Message(subject, subject=subject, ttl=500.0))
    with connection._lock:
        sender._core.flush()
    wait_until(lambda: len(sender._core.failures) == 1)
    with connect(cluster.addresses["b2"]) as other:
        other.declare_queue("late")
        other.bind("amq.topic", "late", "b.#")
    before = len(cluster.said(Transfer))
    cluster.shut("b1")
    wait_until(lambda: connection.reconnects == 1)
    cluster.let_go()
    with pytest.raises(Unroutable):
        sender.sync(5)
    again = cluster.said(Transfer)[before:]
    assert [(t.first, len(t.blobs), t.ttl) for t in again] == [(1, 1, []), (3, 1, [0, 500_000]), (5, 1, [0, 500_000])]
    assert bodies(cluster, "late") == []
    assert bodies(cluster) == [b"first", b"a.1", b"a.2"]


def test_an_older_broker_is_not_asked_for_what_it_does_not_know(cluster, connection, monkeypatch):
    session = connection.session()
    sender = session.sender("amq.topic", mandatory=True)
    monkeypatch.setattr(connections, "MINOR", 1)
    cluster.kick()
    time.sleep(0.1)
    assert not connection._conversation.online, "a broker that would drop what is mandatory in silence"
    monkeypatch.setattr(connections, "MINOR", 2)
    wait_until(lambda: connection.reconnects == 1)
    sender.send(Message("x", subject="b"))
    with pytest.raises(Unroutable):
        sender.sync(5)
    monkeypatch.setattr(connections, "MINOR", 1)
    with connect(cluster.address) as old, pytest.raises(NotAllowed, match=r"1\.1.*1\.2"):
        old.session().sender("amq.topic", mandatory=True)


def test_frames_of_older_programs_are_understood():
    class OldCompleted(msgspec.Struct, array_like=True):
        handle: int
        ranges: list[int]

    encode = msgspec.msgpack.encode
    assert msgspec.msgpack.decode(encode(OldCompleted(1, [1, 2])), type=Completed).unroutable == []
    assert msgspec.msgpack.decode(encode(Completed(1, [1, 2], [2, 2])), type=OldCompleted).ranges == [1, 2]


async def test_the_asyncio_twin(cluster):
    async with connect_async(cluster.address) as connection:
        session = connection.session()
        sender = await session.sender("amq.fanout")
        strict = await session.sender("amq.fanout", mandatory=True)
        await sender.send(b"1")
        await sender.sync(5)
        assert sender.unroutable == 1
        await strict.send(b"2")
        with pytest.raises(Unroutable):
            await strict.sync(5)
