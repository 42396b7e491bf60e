"""Queues without a name, which their broker gives one, through both clients."""

from __future__ import annotations

from threading import Thread

import pytest
from cluster_in_memory import MemoryCluster
from fake_broker import wait_until
from mantamq.client import Exists, Invalid, NotAllowed, connect, connect_async
from mantamq.protocol.broker.made_names import MADE, named
from mantamq.protocol.errors import PeerError
from mantamq.protocol.wire.client_frames import Reply
from msgspec.structs import replace

pytestmark = pytest.mark.timeout(20)

FRESH = "0123456789abcdef"


def test_each_has_a_name_like_no_other_and_may_be_used_by_it(cluster, connection):
    first, second = connection.declare_queue(""), connection.declare_queue("", auto_delete=True)
    assert first.startswith(MADE) and second.startswith(MADE) and len({first, second}) == 2
    assert len(first) >= len(MADE) + 32, "16 bytes, in hexadecimal"
    assert {queue["name"] for queue in connection.queues()} == {first, second}
    assert connection.queue(second)["definition"] == {"auto_delete": True}
    session = connection.session()
    session.sender(first).send("1")
    with connect(cluster.addresses["b2"]) as other:
        assert other.session().receiver(first).fetch(5).body == b"1"
        assert other.declare_queue(first) is False and other.declare_queue(first, passive=True) is False
        with pytest.raises(Exists):
            other.declare_queue(second)


def test_who_asks_again_at_another_broker_has_made_one(cluster, connection):
    cluster.hold(Reply)
    asking: list[str] = []
    thread = Thread(target=lambda: asking.append(connection.declare_queue("")))
    thread.start()
    wait_until(lambda: cluster.call(lambda: cluster.cluster.machines["b2"].wiring.queues()))
    cluster.shut("b1")
    wait_until(lambda: connection.reconnects == 1)
    cluster.let_go()
    thread.join(10)
    assert [queue["name"] for queue in connection.queues()] == asking


def test_what_is_refused(connection):
    for name in (MADE + "mine", MADE):
        with pytest.raises(NotAllowed, match="are made by brokers"):
            connection.declare_queue(name)
    with pytest.raises(Invalid, match="there is no queue to look for"):
        connection.declare_queue("", passive=True)
    with pytest.raises(Invalid, match="give a number of messages"):
        connection.declare_queue("", max_count=0)


def test_what_a_name_is_made_of():
    assert named("q", "", False) == named("q", "", True) == "q"
    assert named("", FRESH, False) == MADE + FRESH and named(MADE + FRESH, "", True) == MADE + FRESH
    for fresh in ("", FRESH[1:], FRESH * 5, FRESH + "#", FRESH + "\n", FRESH + "é"):
        with pytest.raises(PeerError, match="made of fresh, 16 to 64 letters"):
            named("", fresh, False)
    with pytest.raises(PeerError, match="leave out one of the two"):
        named("q", FRESH, False)


def test_a_client_that_draws_nothing_gets_none():
    client = MemoryCluster(1).client("b1")
    assert client.command("declare_queue", name="").code == "invalid"
    assert client.command("declare_queue", name="", fresh=FRESH).value == {"changed": True, "name": MADE + FRESH}
    assert client.command("declare_queue", name="", fresh=FRESH).value == {"changed": False, "name": MADE + FRESH}
    assert client.command("declare_queue", name="q").value == {"changed": True}


def test_a_broker_that_makes_none_says_so(connection):
    opened = connection._conversation.opened
    connection._conversation.opened = replace(opened, minor=10)
    with pytest.raises(NotAllowed, match=r"makes no names of queues: that needs 1\.11"):
        connection.declare_queue("")


async def test_the_asyncio_twin(cluster):
    async with connect_async(cluster.address) as connection:
        name = await connection.declare_queue("")
        assert name.startswith(MADE) and await connection.declare_queue(name, passive=True) is False
