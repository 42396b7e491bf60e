"""The asyncio client against a broker's machines behind a socket."""

from __future__ import annotations

import asyncio

import pytest
from fake_broker import FakeBroker
from mantamq.client import ConnectionLost, Deleted, Empty, Full, Message, NoStore, NotFound, Unauthorized, connect_async
from mantamq.protocol.wire.client_frames import Blocked, Completed, Failed, Transfer


@pytest.fixture
def broker():
    with FakeBroker() as broker:
        yield broker


@pytest.fixture
async def connection(broker):
    async with connect_async(broker.address) as connection:
        await connection.declare_queue("q")
        yield connection


def numbered(count):
    return [b"%d" % i for i in range(count)]


async def test_awaited_or_as_a_context(broker):
    connection = await connect_async(broker.address)
    assert connection.broker == "b1"
    await connection.close()
    async with connect_async(broker.address) as connection:
        assert list(connection.members) == ["b1"]


async def test_nothing_is_declared_durable_where_there_is_no_store(connection):
    with pytest.raises(NoStore, match=r"--data DIR"):
        await connection.declare_queue("lasting", durable=True)


async def test_a_wrong_token_is_refused():
    with FakeBroker(token="right") as broker, pytest.raises(Unauthorized):
        await connect_async(broker.address, token="wrong")


async def test_there_and_back(connection):
    session = connection.session()
    sender = await session.sender("q")
    for body in numbered(100):
        await sender.send(body)
    await sender.sync()
    receiver = await session.receiver("q", capacity=10)
    messages = [await receiver.fetch(timeout=5) for _ in range(100)]
    assert [message.body for message in messages] == numbered(100)
    for message in messages[:50]:
        await session.acknowledge(message)
    await session.acknowledge()
    await session.sync()
    assert (await connection.queue("q"))["messages"] == 0


async def test_a_message_leaves_though_its_program_waits_for_nothing(connection):
    sender = await connection.session().sender("q")
    await sender.send(b"alone")
    assert [frame.blobs for frame in sender._core.pending.values()], "a program may compute for long now"
    await sender.sync()


async def test_iteration(connection):
    session = connection.session()
    sender = await session.sender("q")
    for body in numbered(3):
        await sender.send(body)
    got = []
    async for message in await session.receiver("q"):
        got.append(message.body)
        if len(got) == 3:
            break
    assert got == numbered(3)


async def test_a_send_waits_while_much_waits_for_the_brokers_room(broker, connection):
    sender = await connection.session().sender("q", capacity=1000)
    gate = connection._conversation.gate
    broker.inject(Blocked(True))
    async with asyncio.timeout(5):
        while not gate.blocked:
            await asyncio.sleep(0.002)
    with pytest.raises(Full, match="no room"):
        for _ in range(100):
            sender.send_nowait(bytes(1024 * 1024))
    taken = sender.unsettled
    assert 8 <= taken <= 10, "MiB: it is kept in memory"
    sending = asyncio.create_task(sender.send(b"last"))
    await asyncio.sleep(0)
    assert not sending.done() and not broker.said(Transfer)
    broker.inject(Blocked(False))
    await asyncio.wait_for(sending, 5)
    await sender.sync(5)
    assert (await connection.queue("q"))["messages"] == taken + 1


async def test_capacity_is_kept(broker, connection):
    sender = await connection.session().sender("q", capacity=2)
    broker.hold(Completed)
    sender.send_nowait(b"0")
    await sender.send(b"1")
    with pytest.raises(Full):
        sender.send_nowait(b"x")
    waiting = asyncio.create_task(sender.send(b"2"))
    await asyncio.sleep(0)
    assert not waiting.done()
    broker.let_go()
    await waiting
    await sender.sync()
    assert sender.unsettled == 0


async def test_bursts_become_batches(broker, connection):
    sender = await connection.session().sender("q")
    broker.hold(Completed)
    for body in numbered(1000):
        await sender.send(body)
    broker.let_go()
    await sender.sync()
    assert len(broker.said(Transfer)) < 50


async def test_a_failure_is_told_with_its_numbers(broker, connection):
    sender = await connection.session().sender("q")
    broker.hold(Completed)
    await sender.send(b"x")
    broker.inject(Failed(1, [1, 1], "not-found", "there is no queue"))
    with pytest.raises(NotFound) as caught:
        await sender.sync()
    assert caught.value.numbers == [1, 1]


@pytest.mark.parametrize("capacity", [0, 1, 100])
async def test_get_means_the_cluster(connection, capacity):
    session = connection.session()
    sender = await session.sender("q")
    receiver = await session.receiver("q", capacity=capacity)
    for body in numbered(3):
        await sender.send(body)
        await sender.sync()
        assert (await receiver.get()).body == body
        with pytest.raises(Empty):
            await receiver.get()


async def test_release_and_reject(connection):
    session = connection.session()
    sender = await session.sender("q")
    await sender.send(b"x")
    receiver = await session.receiver("q")
    await session.release(await receiver.fetch(timeout=5))
    again = await receiver.fetch(timeout=5)
    assert again.redelivered
    await session.reject(again)
    await session.sync()
    assert (await connection.queue("q"))["messages"] == 0


async def test_an_exchange_alone_takes_each_subject_as_key(connection):
    await connection.declare_exchange("news", type="topic")
    await connection.bind("news", "q", key="a.*")
    session = connection.session()
    sender = await session.sender("news")
    await sender.send(Message(b"yes", subject="a.b"))
    await sender.send(Message(b"no", subject="b"))
    await sender.sync()
    assert (await (await session.receiver("q")).get()).body == b"yes"


async def test_the_end_of_a_queue_and_of_a_broker(broker):
    connection = await connect_async(broker.address, reconnect_s=0)
    await connection.declare_queue("q")
    session = connection.session()
    await connection.declare_queue("other")
    gone, waiting = await session.receiver("q"), await session.receiver("other")
    fetching = asyncio.create_task(waiting.fetch())
    await connection.delete_queue("q")
    with pytest.raises(Deleted):
        await gone.fetch(timeout=5)
    broker.kick()
    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1"):
        await fetching
    with pytest.raises(ConnectionLost):
        await connection.queue("other")
