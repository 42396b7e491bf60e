"""Requests and their replies, as their users see them, through both clients."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from fake_broker import FakeBroker, wait_until
from mantamq.client import (
    Connection,
    ConnectionLost,
    Invalid,
    LinkClosed,
    Message,
    NotAllowed,
    NotFound,
    ResourceLimitExceeded,
    Timeout,
    Unroutable,
    connect,
    connect_async,
)
from mantamq.protocol.wire.client_frames import Delivery

pytestmark = pytest.mark.timeout(30)


@contextlib.contextmanager
def answering(address: str, queue: str, answer: Callable[[Message], bytes | Message | None]) -> Iterator[None]:
    """A thread that answers what comes to `queue`, where `answer` says something."""
    stop = threading.Event()

    def serve() -> None:
        with connect(address) as connection:
            session = connection.session()
            receiver = session.receiver(queue, timeout=0.02)
            while not stop.is_set():
                for message in receiver:
                    reply = answer(message)
                    if reply is not None:
                        session.reply(message, reply)
                    session.acknowledge(message)
                    session.sync()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10)


def own_queues(connection: Connection) -> list[str]:
    return [queue["name"] for queue in connection.queues() if queue["name"].startswith("manta.gen-")]


def test_a_request_gets_its_reply(cluster, connection):
    connection.declare_queue("q")
    seen: list[Message] = []

    def answer(message: Message) -> bytes:
        seen.append(message)
        return message.body.upper()

    with answering(cluster.addresses["b2"], "q", answer):
        reply = connection.request("q", "one")
        assert reply.body == b"ONE"
        asked = Message(b"two", subject="s", properties={"n": 1}, ttl=5.0)
        assert connection.request("q", asked).body == b"TWO"
    assert (asked.correlation_id, asked.reply_to) == (None, None), "it stays its owner's"
    assert (seen[1].subject, seen[1].properties, seen[1].ttl) == ("s", {"n": 1}, 5.0)
    assert seen[0].ttl == 10.0, "a request expires with its time-out"
    assert own_queues(connection) == [seen[0].reply_to] == [seen[1].reply_to]


def test_many_requests_at_once_get_each_its_own_reply(cluster, connection):
    connection.declare_queue("q")
    got: dict[int, bytes] = {}

    def ask(n: int) -> None:
        got[n] = connection.request("q", str(n)).body

    with answering(cluster.addresses["b2"], "q", lambda message: b"re " + message.body):
        threads = [threading.Thread(target=ask, args=(n,)) for n in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
    assert got == {n: b"re %d" % n for n in range(20)}
    assert len(own_queues(connection)) == 1, "all have one queue for their replies"


def test_requests_go_by_exchanges_and_keys(cluster, connection):
    connection.declare_exchange("e", "topic")
    connection.declare_queue("q")
    connection.bind("e", "q", "a.#")
    with answering(cluster.address, "q", lambda message: b"re " + message.body):
        assert connection.request("e/a.b", b"1").body == b"re 1"
        assert connection.request("e", Message(b"2", subject="a")).body == b"re 2"
        with pytest.raises(Unroutable, match="no queue is bound to 'e' for these"):
            connection.request("e/b", b"3")


def test_what_cannot_be_routed_fails_at_once(cluster, connection):
    begun = time.monotonic()
    with pytest.raises(NotFound, match="there is no queue and no exchange 'q'"):
        connection.request("q", b"1", timeout_s=60)
    with pytest.raises(NotFound, match="there is no exchange 'e'"):
        connection.request("e/k", b"1", timeout_s=60)
    connection.declare_queue("q")
    with answering(cluster.address, "q", lambda message: b"yes"):
        connection.request("q", b"1")
    connection.delete_queue("q")
    with pytest.raises(NotFound, match="there is no queue 'q'"):
        connection.request("q", b"1", timeout_s=60)
    connection.declare_queue("full", max_count=1)
    connection.session().sender("full").send(b"1")
    with pytest.raises(ResourceLimitExceeded):
        connection.request("full", b"1", timeout_s=60)
    assert time.monotonic() - begun < 20
    connection.declare_exchange("q", "fanout")
    with pytest.raises(Unroutable):
        connection.request("q", b"1", timeout_s=60)


def test_a_reply_that_comes_late_is_dropped(cluster, connection):
    connection.declare_queue("q")
    session = connection.session()
    receiver = session.receiver("q")
    with pytest.raises(Timeout, match=r"no reply from 'q' within 0.2 s.*whether it was done is unknown"):
        connection.request("q", Message(b"1", ttl=60), timeout_s=0.2)
    late = receiver.fetch(5)
    session.reply(late, b"late")
    session.reply(late, b"and again")
    session.acknowledge()
    session.close()
    with answering(cluster.address, "q", lambda message: b"in time"):
        assert connection.request("q", b"2").body == b"in time"
    wait_until(lambda: connection.queue(own_queues(connection)[0])["messages"] == 0)


def test_a_request_that_is_not_complete_says_so(cluster, connection):
    connection.declare_queue("q", flow_stop_count=1, flow_resume_count=1)
    sender = connection.session().sender("q")
    for _ in range(3):
        sender.send(b"")
    with pytest.raises(Timeout, match=r"the request to 'q' is not complete within 0.3 s: producer flow control: 'q'"):
        connection.request("q", b"1", timeout_s=0.3)


def test_requests_that_wait_go_on_at_another_broker(cluster):
    with connect(cluster.address, reconnect_s=10) as connection:
        connection.declare_queue("q")
        with connect(cluster.addresses["b2"]) as other:
            session = other.session()
            receiver = session.receiver("q")
            got: list[bytes] = []
            thread = threading.Thread(target=lambda: got.append(connection.request("q", b"1", timeout_s=20).body))
            thread.start()
            asked = receiver.fetch(5)
            cluster.hold(Delivery)
            session.reply(asked, b"yes")
            session.sync()
            assert got == []
            cluster.shut("b1")
            wait_until(lambda: connection.reconnects == 1)
            cluster.let_go()
            thread.join(15)
            assert got == [b"yes"]


def test_the_end_of_the_connection_ends_all_waits(cluster):
    connection = connect(cluster.address, reconnect_s=0)
    connection.declare_queue("q")
    errors: list[Exception] = []

    def ask() -> None:
        try:
            connection.request("q", b"1", timeout_s=None)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: connection.queue("q")["messages"] == 3)
    connection.close()
    for thread in threads:
        thread.join(5)
    assert [type(error) for error in errors] == [ConnectionLost] * 3
    with pytest.raises(ConnectionLost):
        connection.request("q", b"1")


def test_a_queue_for_replies_that_is_gone_ends_all_waits_and_is_made_anew(cluster, connection):
    connection.declare_queue("q")
    receiver = connection.session().receiver("q")
    errors: list[Exception] = []

    def ask() -> None:
        try:
            connection.request("q", b"1", timeout_s=None)
        except LinkClosed as error:
            errors.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    receiver.fetch(5)
    connection.delete_queue(own_queues(connection)[0])
    thread.join(5)
    assert "for this connection's replies is gone" in str(errors[0])
    receiver.close()
    connection.purge("q")
    with answering(cluster.address, "q", lambda message: b"yes"):
        assert connection.request("q", b"2").body == b"yes"


def test_what_a_reply_needs(cluster, connection):
    connection.declare_queue("q")
    session = connection.session()
    sender, receiver = session.sender("q"), session.receiver("q")
    sender.send(b"no reply, please")
    message = receiver.fetch(5)
    with pytest.raises(Invalid, match="only a message with reply_to can be replied to"):
        session.reply(message, b"1")
    sender.send(Message(b"", reply_to="nobody", message_id="m"))
    session.reply(receiver.fetch(5), b"dropped: who has asked is gone")
    session.sync()
    connection.declare_exchange("e", "fanout")
    connection.declare_queue("r")
    connection.bind("e", "r")
    sender.send(Message(b"", reply_to="e/k", message_id="m"))
    asked = receiver.fetch(5)
    session.reply(asked, b"1")
    session.reply(asked, Message(b"2", correlation_id="mine"))
    replies = session.receiver("r")
    assert [replies.fetch(5).correlation_id for _ in range(2)] == ["m", "mine"]
    connection.delete_exchange("e")
    with pytest.raises(NotFound):
        for _ in range(100):
            session.reply(asked, b"3")
            time.sleep(0.01)


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan"), float("inf"), "1", True])
def test_bad_time_outs(connection, timeout_s):
    with pytest.raises(Invalid, match="timeout_s of a request is more than 0 seconds, or None"):
        connection.request("q", b"1", timeout_s=timeout_s)


def test_bad_requests(connection):
    connection.declare_queue("q")
    for bad in (Message(b"", correlation_id="1"), Message(b"", reply_to="q")):
        with pytest.raises(Invalid, match="are the connection's: leave them away"):
            connection.request("q", bad)
    with pytest.raises(Invalid):
        connection.request("q", Message(b"", properties={"x": object()}))


async def answer_async(address: str, queue: str) -> None:
    async with connect_async(address) as connection:
        session = connection.session()
        async for message in await session.receiver(queue):
            await session.reply(message, b"re " + message.body)
            await session.acknowledge(message)


async def test_the_asyncio_twin(cluster):
    async with connect_async(cluster.address) as connection:
        await connection.declare_queue("q")
        server = asyncio.create_task(answer_async(cluster.addresses["b2"], "q"))
        replies = await asyncio.gather(*(connection.request("q", str(n)) for n in range(50)))
        assert [reply.body for reply in replies] == [b"re %d" % n for n in range(50)]
        server.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await server
        with pytest.raises(Timeout):
            await connection.request("q", b"1", timeout_s=0.1)
        with pytest.raises(NotFound):
            await connection.request("none", b"1")


async def test_requests_that_are_cancelled_leave_nothing_behind(cluster):
    async with connect_async(cluster.address) as connection:
        await connection.declare_queue("q")
        begun = [asyncio.create_task(connection.request("q", b"1")) for _ in range(5)]
        await asyncio.sleep(0)  # the first opens what they need, and the others wait for that
        for task in begun[:3]:
            task.cancel()
        server = asyncio.create_task(answer_async(cluster.address, "q"))
        assert [(await task).body for task in begun[3:]] == [b"re 1"] * 2
        assert not connection._conversation.requests._open
        waiting = asyncio.create_task(connection.request("none", b"1"))
        await asyncio.sleep(0)
        await connection.close()
        with pytest.raises(ConnectionLost):
            await waiting
        server.cancel()


def test_a_connection_of_another_event_loop_says_so(cluster):
    made: list[Any] = []

    async def first() -> None:
        connection = await connect_async(cluster.address)
        for name in ("q", "nothing comes"):
            await connection.declare_queue(name)
        made.extend([connection, await connection.session().receiver("nothing comes")])
        asking = asyncio.create_task(connection.request("q", b"1", timeout_s=None))
        await asyncio.sleep(0.05)
        assert not asking.done()

    async def second() -> None:
        connection, receiver = made
        for use in (connection.request("q", b"1"), connection.queue("q"), receiver.fetch(), connection.close()):
            with pytest.raises(NotAllowed, match="belongs to the event loop that it was made in"):
                await use

    asyncio.run(first())
    asyncio.run(second())


def test_an_older_broker_is_not_asked(cluster):
    with connect(cluster.address) as connection:
        connection.declare_queue("q")
        conversation = connection._conversation
        conversation.opened = msgspec.structs.replace(conversation.opened, minor=10)
        with pytest.raises(NotAllowed, match=r"speaks protocol 1.10 and makes no names of queues"):
            connection.request("q", b"1")


def test_a_frozen_broker_is_a_time_out(cluster: FakeBroker):
    with connect(cluster.address, heartbeat_ms=0) as connection:
        connection.declare_queue("q")
        cluster.freeze("b1")
        with pytest.raises(Timeout, match=r"was not sent within 0.2 s: no broker has answered in time"):
            connection.request("q", b"1", timeout_s=0.2)
        cluster.thaw()
        with answering(cluster.address, "q", lambda message: b"yes"):
            assert connection.request("q", b"1").body == b"yes"
