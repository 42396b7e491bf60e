"""A receiver that stops and starts, and what `flush` says, through both clients."""

from __future__ import annotations

import threading

import msgspec
import pytest
from fake_broker import wait_until
from mantamq.client import Empty, LinkClosed, connect, connect_async
from mantamq.protocol.wire.client_frames import Flow, FlowDrained

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def session(connection):
    connection.declare_queue("q")
    session = connection.session()
    send(session, 6)
    return session


def send(session, count):
    sender = session.sender("q")
    for n in range(count):
        sender.send(str(n))
    sender.sync(5)


def bodies(receiver):
    found = []
    while True:
        try:
            found.append(receiver.fetch(0.3).body.decode())
        except Empty:
            return found


def test_flush_says_how_many_the_queue_still_has(session):
    receiver = session.receiver("q", 2)
    assert receiver.flush() == 4 and receiver.available == 2, "two are here, four wait"
    assert bodies(receiver) == ["0", "1", "2", "3", "4", "5"] and receiver.flush() == 0
    other = session.receiver("q", 0)
    assert other.flush() == 0
    send(session, 3)
    assert session.receiver("q", mode="browse", capacity=1).flush() == 1, "two went to the window of the first one"


def test_flush_counts_what_this_receiver_may_not_have(session):
    receiver = session.receiver("q", 10, selector="nobody = 'has it'")
    assert receiver.flush() == 6 and receiver.available == 0
    assert session.connection.queue("q")["messages"] == 6


@pytest.mark.parametrize("capacity", [0, 1, 3, 100])
def test_who_stops_is_sent_nothing_and_may_settle(cluster, session, capacity):
    receiver = session.receiver("q", capacity)
    held = [receiver.fetch(5) for _ in range(2)]
    receiver.stop()
    receiver.stop()
    assert receiver.available == 0
    with pytest.raises(Empty, match="stopped: start it"):
        receiver.fetch(0)
    with pytest.raises(Empty, match="stopped: start it"):
        receiver.get()
    said = len(cluster.said(Flow))
    session.acknowledge(held[0])
    session.release(held[1])
    session.sync(5)
    assert not any(flow.messages for flow in cluster.said(Flow)[said:]), "a settlement makes no room meanwhile"
    with connect(cluster.addresses["b2"]) as connection:
        other = connection.session()
        taker = other.receiver("q", 0)
        assert taker.fetch(5).body == b"1", "what it had not fetched is there for others"
        other.acknowledge()
        other.sync(5)
        taker.close()
    receiver.start()
    receiver.start()
    assert bodies(receiver) == ["2", "3", "4", "5"]


def test_a_window_of_unaccepted_messages_stops_and_starts(session):
    receiver = session.receiver("q", 2, window="unaccepted")
    held = [receiver.fetch(5) for _ in range(2)]
    receiver.stop()
    for message in held:
        session.acknowledge(message)
    session.sync(5)
    assert bodies(receiver) == []
    receiver.start()
    assert [receiver.fetch(5).body for _ in range(2)] == [b"2", b"3"]


def test_it_is_stopped_at_the_next_broker_too(cluster, connection, session):
    receiver = session.receiver("q", 3)
    assert receiver.fetch(5).body == b"0"
    receiver.stop()
    cluster.kick()
    wait_until(lambda: connection.reconnects == 1)
    assert bodies(receiver) == []
    receiver.start()
    assert bodies(receiver) == ["0", "1", "2", "3", "4", "5"]


def test_who_waits_goes_on_when_it_is_started(session):
    receiver = session.receiver("q", 0)
    receiver.stop()
    got = []
    waiting = threading.Thread(target=lambda: got.append(receiver.fetch(10).body), daemon=True)
    waiting.start()
    waiting.join(0.3)
    assert got == []
    receiver.start()
    waiting.join(10)
    assert got == [b"0"]


def test_what_need_not_be_settled_stays_to_be_fetched(session):
    receiver = session.receiver("q", 3, accept=False)
    assert receiver.fetch(5).body == b"0"
    wait_until(lambda: receiver.available == 2)
    receiver.stop()
    assert bodies(receiver)[:2] == ["1", "2"]


def test_an_ended_receiver_neither_stops_nor_starts(session):
    receiver = session.receiver("q")
    receiver.close()
    for call in (receiver.stop, receiver.start, receiver.flush):
        with pytest.raises(LinkClosed):
            call()


def test_an_older_broker_does_not_say_how_many(session, monkeypatch):
    receiver = session.receiver("q", 2)
    assert receiver.flush() == 4
    assert msgspec.msgpack.decode(msgspec.msgpack.encode([1]), type=FlowDrained).available == -1
    receiver._core.on_drained(-1)
    assert receiver._core.waits is None


async def test_the_asyncio_twin(cluster, session):
    async with connect_async(cluster.address) as connection:
        mine = connection.session()
        receiver = await mine.receiver("q", 2)
        assert await receiver.flush() == 4
        held = await receiver.fetch(5)
        await receiver.stop()
        await mine.acknowledge(held)
        await mine.sync(5)
        with pytest.raises(Empty, match="stopped"):
            await receiver.fetch(0)
        assert receiver.available == 0
        await receiver.start()
        assert (await receiver.fetch(5)).body == b"1"
