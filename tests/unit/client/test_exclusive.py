"""Exclusive receivers as their users see them, through both clients."""

from __future__ import annotations

import time

import msgspec
import pytest
from fake_broker import wait_until
from mantamq.client import InUse, Invalid, MantaError, NotAllowed, connect, connect_async
from mantamq.protocol.broker import connections
from mantamq.protocol.wire.client_frames import AttachReceiver, Opened
from msgspec.structs import replace

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def other(cluster, session):
    """A session of another connection, at another broker."""
    with connect(cluster.addresses["b2"]) as connection:
        yield connection.session()


def speak_1_7(monkeypatch):
    """Brokers greet new connections as one of that version would."""
    monkeypatch.setattr(connections, "Opened", lambda *fields: replace(Opened(*fields), minor=7))


def send(session, *bodies):
    sender = session.sender("q")
    for body in bodies:
        sender.send(body)
    sender.sync(5)


def eventually(open_receiver):
    """The receiver, once what is in its way has gone."""
    found = []

    def opened():
        try:
            found.append(open_receiver())
        except InUse:
            return False
        return True

    wait_until(opened)
    return found[0]


def test_one_receiver_has_a_queue_alone_at_all_brokers(session, other):
    first = session.receiver("q", exclusive=True)
    for whose in (session, other):
        with pytest.raises(InUse, match=r"queue 'q' is one consumer's alone \(exclusive, at b1\): wait .*browse"):
            whose.receiver("q")
        with pytest.raises(InUse, match="alone"):
            whose.receiver("q", exclusive=True)
    send(other, b"1", b"2")
    assert [message.body for message in other.browse("q")] == [b"1", b"2"], "who only looks may"
    assert [first.fetch(5).body for _ in range(2)] == [b"1", b"2"]
    first.close()
    assert eventually(lambda: other.receiver("q")).fetch(5).body == b"1"


def test_exclusive_is_refused_while_others_consume(session, other):
    one = session.receiver("q")
    with pytest.raises(InUse, match=r"has consumers already \(at b1\).*close the others first"):
        other.receiver("q", exclusive=True)
    with pytest.raises(InUse, match="has consumers already"):
        session.receiver("q", exclusive=True)
    one.close()
    assert eventually(lambda: other.receiver("q", exclusive=True)) and session.connection.reconnects == 0


def test_the_claim_goes_with_the_connection(cluster, session, other):
    with connect(cluster.address, reconnect_s=0) as holder:
        holder.session().receiver("q", exclusive=True)
        with pytest.raises(InUse):
            other.receiver("q")
    eventually(lambda: other.receiver("q", exclusive=True))
    with pytest.raises(InUse):
        session.receiver("q")


def test_another_broker_is_told_and_the_claim_is_kept(cluster, connection, session, other):
    """At whatever broker its client comes back, with nobody between."""
    receiver = session.receiver("q", exclusive=True)
    for times in (1, 2):
        cluster.kick()
        wait_until(lambda times=times: connection.reconnects == times)
        send(session, str(times))
        assert receiver.fetch(5).body == str(times).encode()
        session.acknowledge()
        session.sync(5)
        with pytest.raises(InUse, match="alone"):
            other.receiver("q")


def test_a_broker_that_knows_none_is_refused_and_left(cluster, connection, session, monkeypatch):
    receiver = session.receiver("q", exclusive=True)
    speak_1_7(monkeypatch)
    cluster.kick()
    time.sleep(0.1)
    assert not connection._conversation.online, "a broker that would let others in"
    monkeypatch.undo()
    wait_until(lambda: connection.reconnects == 1)
    send(session, b"1")
    assert receiver.fetch(5).body == b"1"
    speak_1_7(monkeypatch)
    with connect(cluster.address) as old, pytest.raises(NotAllowed, match=r"1\.7.*exclusive.*1\.8"):
        old.session().receiver("q", exclusive=True)


def test_who_only_looks_is_not_exclusive(session):
    with pytest.raises(Invalid, match="only a receiver that consumes"):
        session.receiver("q", mode="browse", exclusive=True)


def test_frames_of_older_programs_are_understood():
    encode, decode = msgspec.msgpack.encode, msgspec.msgpack.decode
    assert decode(encode([1, "q", "consume", True, [], ""]), type=AttachReceiver).exclusive == 0


async def test_the_asyncio_twin(cluster):
    async with connect_async(cluster.address) as connection:
        await connection.declare_queue("q")
        session = connection.session()
        receiver = await session.receiver("q", exclusive=True)
        with pytest.raises(InUse, match="alone"):
            await session.receiver("q")
        with pytest.raises(Invalid, match="only a receiver that consumes"):
            await session.receiver("q", mode="browse", exclusive=True)
        await receiver.close()
        while True:
            try:
                await session.receiver("q")
                break
            except MantaError as error:
                assert isinstance(error, InUse)
