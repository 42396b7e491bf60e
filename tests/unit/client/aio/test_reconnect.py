"""The asyncio client through the loss of its broker. What the two twins share is tested in `client/sync/test_reconnect.py`."""

from __future__ import annotations

import asyncio
import time

import pytest
from fake_broker import FakeBroker
from mantamq.client import ConnectionLost, Full, connect_async
from mantamq.client.message import Message
from mantamq.protocol.errors import PeerError
from mantamq.protocol.wire.client_frames import AttachReceiver, Command, Completed, Disposed, Open, Reply, Transfer
from mantamq.protocol.wire.link_frames import Refused
from mantamq.protocol.wire.message import decode

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def cluster():
    with FakeBroker(2) as cluster:
        yield cluster


@pytest.fixture
async def connection(cluster):
    async with connect_async(cluster.address, reconnect_s=10, heartbeat_ms=200) as connection:
        await connection.declare_queue("q")
        yield connection


async def wait_until(true, seconds=10.0):
    async with asyncio.timeout(seconds):
        while not (value := true()):
            await asyncio.sleep(0.002)
    return value


async def there(connection, reconnects=1):
    await wait_until(lambda: connection.reconnects == reconnects)


def bodies_of(cluster):
    cluster.pass_time(1000)

    def look():
        contents = [[s.blobs[p] for p in sorted(s.blobs)] for s in cluster.cluster.queue_states("q")]
        assert contents[0] == contents[1]
        return [decode(blob, Message).body for blob in contents[0]]

    return cluster.call(look)


async def sent(session, *bodies):
    sender = await session.sender("q")
    for body in bodies:
        await sender.send(body)
    await sender.sync(5)


@pytest.mark.parametrize("how", ["cut", "frozen"])
async def test_what_is_not_complete_is_sent_again_and_applied_once(cluster, connection, how):
    sender = await connection.session().sender("q")
    cluster.hold(Completed)
    for i in range(300):
        await sender.send(b"%d" % i)
    syncing = asyncio.create_task(sender.sync(10))
    await wait_until(lambda: cluster.said(Transfer))
    if how == "cut":
        cluster.shut("b1")
    else:
        cluster.freeze("b1")
    await there(connection)
    cluster.let_go()
    await syncing
    assert connection.broker == "b2" and sender.unsettled == 0
    for i in range(300, 310):
        await sender.send(b"%d" % i)
    await sender.sync(5)
    firsts = [transfer.first for transfer in cluster.said(Transfer)]
    assert len(firsts) > len(set(firsts)) and len({open.client for open in cluster.said(Open)}) == 1
    assert bodies_of(cluster) == [b"%d" % i for i in range(310)]


async def test_settlements_on_their_way_are_told_as_lost_and_the_rest_comes_again(cluster, connection):
    session = connection.session()
    await sent(session, b"1", b"2", b"3")
    receiver = await session.receiver("q", capacity=2)
    one, two = await receiver.fetch(5), await receiver.fetch(5)
    cluster.hold(Disposed)
    await session.acknowledge(one)
    await wait_until(lambda: cluster.call(lambda: cluster.cluster.machines["b1"].receivers.subs))
    cluster.shut("b1")
    await there(connection)
    cluster.let_go()
    cluster.pass_time(100)
    assert session.lost == [("q", 1)]
    await session.acknowledge(two)
    assert session.lost == [("q", 1), ("q", 2)]
    again = [await receiver.fetch(5) for _ in range(2)]
    assert [m.body for m in again] == [b"2", b"3"] and again[0].redelivered
    await session.acknowledge()
    await session.sync(5)
    assert bodies_of(cluster) == []


async def test_a_send_waits_for_a_broker_and_send_nowait_says_so(cluster, connection):
    sender = await connection.session().sender("q")
    cluster.freeze("b1", "b2")
    await wait_until(lambda: connection._pressed)
    with pytest.raises(Full, match="another one is looked for"):
        sender.send_nowait(b"1")
    sending = asyncio.create_task(sender.send(b"1"))
    await asyncio.sleep(0.02)
    assert not sending.done()
    cluster.thaw()
    await sending
    await sender.sync(5)
    assert bodies_of(cluster) == [b"1"]


async def test_questions_are_asked_again_and_a_purge_is_not(cluster, connection):
    cluster.hold(Reply)
    asking, purging = asyncio.create_task(connection.queue("q")), asyncio.create_task(connection.purge("q"))
    await wait_until(lambda: len(cluster.said(Command)) == 3)
    cluster.shut("b1")
    with pytest.raises(ConnectionLost, match="purge"):
        await purging
    cluster.let_go()
    assert (await asking)["messages"] == 0


async def test_the_application_hears_of_it_when_nobody_answers_in_time(cluster):
    connection = await connect_async(cluster.address, reconnect_s=0.5, heartbeat_ms=200)
    await connection.declare_queue("q")
    session = connection.session()
    sender, receiver = await session.sender("q"), await session.receiver("q")
    fetching = asyncio.create_task(receiver.fetch())
    begun = time.monotonic()
    cluster.freeze("b2")
    cluster.shut("b1")
    with pytest.raises(ConnectionLost) as lost:
        await fetching
    assert 0.4 < time.monotonic() - begun < 4
    assert all(address in str(lost.value) for address in cluster.addresses.values())
    for operation in (lambda: sender.send(b"x"), receiver.fetch, lambda: connection.queue("q"), session.sync):
        with pytest.raises(ConnectionLost):
            await operation()


async def test_an_application_that_keeps_its_event_loop_busy_is_borne(cluster, connection):
    """Its own pause is not the broker's silence, and the broker was asked for patience."""
    time.sleep(0.8)
    await asyncio.sleep(0.1)
    assert connection.reconnects == 0
    assert cluster.said(Open)[0].patience_ms > 10 * cluster.said(Open)[0].heartbeat_ms


async def test_closing_while_a_broker_is_looked_for(cluster, connection):
    receiver = await connection.session().receiver("q")
    fetching = asyncio.create_task(receiver.fetch())
    cluster.shut("b1", "b2")
    await wait_until(lambda: connection._pressed)
    await connection.close()
    with pytest.raises(ConnectionLost, match="closed"):
        await fetching


async def test_a_broker_that_breaks_off_while_it_takes_over_is_left_for_the_next(cluster, connection, monkeypatch):
    session = connection.session()
    receiver = await session.receiver("q")
    refused = []

    def refuse(session, frame):
        refused.append(frame)
        raise PeerError("unavailable", "not now")

    monkeypatch.setitem(cluster.cluster.machines["b2"]._client_rules, AttachReceiver, refuse)
    cluster.inject(Refused("unavailable", "it shuts down"))
    await there(connection)
    assert refused and connection.broker == "b1"
    await sent(session, b"1")
    cluster.pass_time(100)
    assert (await receiver.fetch(5)).body == b"1"
