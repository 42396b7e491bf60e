"""Queues that are deleted: who hears of it, what goes where, and how to find out whether one is there."""

from __future__ import annotations

import asyncio

import pytest
from fake_broker import wait_until
from mantamq.client import Deleted, NotFound, connect, connect_async

pytestmark = [pytest.mark.timeout(30), pytest.mark.usefixtures("lost")]


def test_the_deleter_hears_how_much_goes_to_the_alternate(cluster, connection):
    connection.declare_queue("q", alternate="lost")
    connection.declare_queue("plain")
    sender = connection.session().sender("q")
    for n in range(3):
        sender.send(b"%d" % n)
    sender.sync(5)
    assert connection.delete_queue("plain") == 0
    assert connection.delete_queue("q") == 3

    def there() -> bool:
        cluster.pass_time(500)
        return connection.queue("dead")["messages"] == 3

    wait_until(there)
    found = list(connection.session().browse("dead"))
    assert [message.body for message in found] == [b"0", b"1", b"2"]
    letter = found[0].properties or {}
    assert letter["manta.death_cause"] == letter["x-first-death-reason"] == "deleted"
    assert letter["x-death"][0]["reason"] == "deleted" and letter["manta.death_queue"] == "q"


def test_whoever_is_attached_hears_it(cluster, connection):
    connection.declare_queue("q")
    with connect(cluster.addresses["b2"]) as other:
        session = other.session()
        receiver, sender = session.receiver("q"), session.sender("q")
        connection.delete_queue("q")
        with pytest.raises(Deleted, match="'q' was deleted"):
            receiver.fetch(5)
        with pytest.raises(Deleted, match="'q' was deleted"):
            sender.send(b"1")
            sender.sync(5)
        assert other.queue_exists("dead") and not other.queue_exists("q")


def test_whoever_is_attached_hears_it_awaited(cluster, connection):
    connection.declare_queue("q", alternate="lost")

    async def main() -> None:
        async with connect_async(cluster.addresses["b2"]) as other:
            session = other.session()
            receiver, sender = await session.receiver("q"), await session.sender("q")
            await (await session.sender("q")).send(b"1")
            message = await receiver.fetch(5)
            assert message.body == b"1" and await other.queue_exists("q")
            assert await other.delete_queue("q") == 1
            with pytest.raises(Deleted, match="'q' was deleted"):
                await receiver.fetch(5)
            with pytest.raises(Deleted, match="'q' was deleted"):
                await sender.send(b"2")
                await sender.sync(5)
            assert not await other.queue_exists("q")

    asyncio.run(main())


def test_a_passive_declaration_makes_none(connection):
    with pytest.raises(NotFound, match="there is no queue 'q'"):
        connection.declare_queue("q", passive=True)
    assert not connection.queue_exists("q")
    connection.declare_queue("q")
    assert connection.declare_queue("q", passive=True) is False and connection.queue_exists("q")
