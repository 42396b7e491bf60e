"""When a message came into its queue, as its users see it, through both clients."""

from __future__ import annotations

import pytest
from mantamq.client import Message, connect_async

pytestmark = pytest.mark.timeout(20)


def test_it_is_the_same_each_time(connection, cluster):
    connection.declare_queue("q", alternate="amq.fanout")
    connection.declare_queue("dead")
    connection.bind("amq.fanout", "dead")
    session = connection.session()
    sender = session.sender("q")
    for n in range(3):
        sender.send(Message(b"%d" % n))
        sender.sync(5)
    first = [message.enqueued_at for message in session.browse("q")]
    assert len(first) == 3 and all(first) and first == sorted(first)
    receiver = session.receiver("q", 0)
    taken = [receiver.fetch(5) for _ in range(3)]
    assert [message.enqueued_at for message in taken] == first
    for message in taken:
        session.release(message)
    session.sync(5)
    again = [receiver.fetch(5) for _ in range(3)]
    assert [(message.enqueued_at, message.redelivered) for message in again] == [(at, True) for at in first]
    session.reject(again[0])
    session.sync(5)
    dead = session.receiver("dead").fetch(5)
    assert dead.enqueued_at >= first[0]


async def test_the_asyncio_twin(cluster):
    async with connect_async(cluster.address) as connection:
        await connection.declare_queue("q")
        session = connection.session()
        sender = await session.sender("q")
        await sender.send(Message(b"m"))
        await sender.sync(5)
        (browsed,) = [message async for message in session.browse("q")]
        message = await (await session.receiver("q")).fetch(5)
        assert message.enqueued_at and message.enqueued_at == browsed.enqueued_at
