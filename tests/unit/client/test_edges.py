"""The client at its edges: odd arguments, several waiters at once, cancellation, forks, brokers that misbehave."""

from __future__ import annotations

import asyncio
import os
import threading
import time

import pytest
from fake_broker import FakeBroker, wait_until
from mantamq.client import (
    ConnectionLost,
    Empty,
    Invalid,
    LinkClosed,
    MantaError,
    Message,
    ProtocolError,
    Queue,
    connect,
    connect_async,
)
from mantamq.client.books.conversation import Conversation
from mantamq.client.books.sender import SenderCore
from mantamq.protocol.errors import PeerError
from mantamq.protocol.wire.client_frames import Attached, AttachReceiver, AttachSender, Completed, Detach, Opened
from mantamq.protocol.wire.framing import encode_frame
from mantamq.protocol.wire.link_frames import Refused
from mantamq.protocol.wire.message import decode, encode

pytestmark = pytest.mark.timeout(8)


@pytest.fixture
def broker():
    with FakeBroker() as b:
        yield b


@pytest.fixture
def session(broker):
    with connect(broker.address, timeout=2) as c:
        c.declare_queue("q")
        yield c.session()


def in_thread(f):
    box = []

    def run():
        try:
            box.append(f())
        except BaseException as e:
            box.append(e)

    t = threading.Thread(target=run, daemon=True)
    t.start()
    t.box = box
    return t


@pytest.mark.parametrize("m", [Message(b"", properties={}), Message(b"", subject=""), Message(b"", ttl=0)])
def test_empty_body_with_falsy_fields_encodes(m):
    encode(m)


def test_falsy_is_not_absent():
    back = decode(encode(Message(b"x", ttl=0.0, priority=0, subject="")), Message)
    assert (back.ttl, back.priority, back.subject) == (0.0, 0, "")


@pytest.mark.parametrize("body", [5, None, [1], {}])
def test_body_of_another_type_is_invalid(session, body):
    with pytest.raises(Invalid, match="serialise it first"):
        session.sender("q").send(Message(body))


@pytest.mark.parametrize("ttl", [float("inf"), float("nan"), "5"])
def test_bad_ttl_is_invalid(session, ttl):
    s = session.sender("q")
    with pytest.raises(Invalid):
        s.send(Message(b"x", ttl=ttl))


def test_bad_subject_does_not_kill_the_connection(session):
    session.connection.declare_exchange("x", type="topic")
    s = session.sender("x")
    with pytest.raises(Invalid):
        s.send(Message(b"x", subject=5))
        s.sync()
    session.connection.queue("q")


def test_bad_properties_to_a_headers_exchange_do_not_kill_the_connection(session):
    session.connection.declare_exchange("h", type="headers")
    s = session.sender("h")
    with pytest.raises(Invalid):
        s.send(Message(b"x", properties={1: 2}))
        s.sync()
    session.connection.queue("q")


def test_deep_properties_to_a_headers_exchange_do_not_kill_the_connection(session):
    session.connection.declare_exchange("h", type="headers")
    deep = {}
    for _ in range(40):
        deep = {"a": deep}
    s = session.sender("h")
    with pytest.raises(Invalid):
        s.send(Message(b"x", properties=deep))
        s.sync()
    session.connection.queue("q")


async def test_two_async_fetches_one_message(broker):
    async with connect_async(broker.address) as c:
        await c.declare_queue("q")
        s = c.session()
        r = await s.receiver("q")
        snd = await s.sender("q")
        a, b = asyncio.create_task(r.fetch()), asyncio.create_task(r.fetch())
        await asyncio.sleep(0)
        await snd.send(b"1")
        await asyncio.wait([a, b], return_when=asyncio.FIRST_COMPLETED, timeout=3)
        await asyncio.sleep(0.02)
        assert sum(t.done() for t in (a, b)) == 1, [a, b]
        await snd.send(b"2")
        assert sorted(m.body for m in await asyncio.gather(a, b)) == [b"1", b"2"]


async def test_capacity_with_many_waiting_senders(broker):
    async with connect_async(broker.address) as c:
        await c.declare_queue("q")
        snd = await c.session().sender("q", capacity=2)
        broker.hold(Completed)
        tasks = [asyncio.create_task(snd.send(b"x")) for _ in range(10)]
        await asyncio.sleep(0.02)
        top = 0
        orig = snd._put

        def put(m):
            nonlocal top
            orig(m)
            top = max(top, snd.unsettled)

        snd._put = put
        broker.let_go()
        await asyncio.gather(*tasks)
        assert top <= 2, top


def test_a_fetch_that_times_out_does_not_starve_another(session):
    r = session.receiver("q", capacity=0)
    t = in_thread(lambda: r.fetch(timeout=4))
    time.sleep(0.02)
    with pytest.raises(Empty):
        r.fetch(timeout=0.01)
    s = session.sender("q")
    s.send(b"x")
    s.sync()
    t.join(3)
    assert t.box and not isinstance(t.box[0], Exception), t.box


async def test_a_cancelled_fetch_hoards_nothing(broker):
    async with connect_async(broker.address) as c:
        await c.declare_queue("q")
        s = c.session()
        r = await s.receiver("q", capacity=0)
        snd = await s.sender("q")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(r.fetch(), 0.01)
        await asyncio.sleep(0.02)
        await snd.send(b"x")
        await snd.sync()
        assert (await c.queue("q"))["available"] == 1


async def test_a_cancelled_get_async_loses_nothing(broker):
    q = Queue("q", address=broker.address)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(q.get_async(), 0.05)
    await q.put_async("precious")
    assert await asyncio.wait_for(q.get_async(timeout=1), 3) == "precious"


async def test_many_get_async_do_not_block_put_async(broker):
    q = Queue("q", address=broker.address)
    n = (os.cpu_count() or 1) + 8
    gets = [asyncio.create_task(q.get_async(timeout=3)) for _ in range(n)]
    await asyncio.sleep(0.05)
    await asyncio.wait_for(asyncio.gather(*(q.put_async(i) for i in range(n))), 2)
    assert sorted(await asyncio.gather(*gets)) == list(range(n))


async def test_two_gets_at_once(broker):
    async with connect_async(broker.address, timeout=2) as c:
        await c.declare_queue("q")
        r = await c.session().receiver("q")
        got = await asyncio.gather(r.get(), r.get(), return_exceptions=True)
        assert [type(e) for e in got] == [Empty, Empty], got


def test_token_travels_with_the_handle(monkeypatch):
    with FakeBroker(token="t") as b:
        monkeypatch.setattr("mantamq.client.queue_handle.find_or_start", lambda token, start=True: ([b.address], "t"))
        state = Queue("q").__reduce__()[1]
        assert "t" in state, "the cluster's token is not in the pickle: Unauthorized elsewhere"


def test_queue_handle_takes_local(monkeypatch):
    from mantamq.client import addresses

    class Started(Exception): ...

    def embedded(brokers, data):
        assert data is None
        raise Started

    monkeypatch.setattr(addresses, "embedded", embedded)
    with pytest.raises(Started):
        Queue("q", address="local")


def test_nonsense_closes_the_socket(broker, session):
    broker.raw(b"HTTP/1.1 400 Bad Request\r\n")
    wait_until(lambda: not broker.call(lambda: list(broker._ends)))


def test_putters_do_not_wait_for_each_other(broker):
    """sync waits for what was sent before it, not for others' later sends."""
    with connect(broker.address) as c:
        c.declare_queue("q")
        s = c.session().sender("q")
        s.send(b"0")
        s.sync(timeout=2)
        broker.hold(Completed)
        # complete number 1 only, while number 2 is under way
        first = s._core.sent + 1
        s.send(b"1")
        t = in_thread(lambda: s.sync(timeout=3))
        time.sleep(0.05)
        s.send(b"2")
        broker.inject(Completed(s._core.handle, [first, first]))
        t.join(1)
        assert not t.is_alive(), "sync waits for a message that was sent after it began"


def test_close_delivers_what_was_sent(broker):
    with connect(broker.address) as c:
        c.declare_queue("q")
    total = 0
    for _ in range(20):
        with connect(broker.address) as c:
            s = c.session().sender("q", capacity=100000)
            for _i in range(2000):
                s.send(b"x" * 50)
            total += 2000
    with connect(broker.address) as c:
        n = c.queue("q")["messages"]
    assert n == total, f"{total - n} of {total} lost by close()"


def test_a_backlog_of_bytes_is_bounded_and_not_quadratic(broker, session):
    s = session.sender("q", capacity=100000)
    gate = threading.Event()
    broker._loop.call_soon_threadsafe(lambda: gate.wait(3))  # the broker does not read
    t = in_thread(lambda: [s.send(b"x" * 1_000_000) for _ in range(200)])
    t.join(1.5)
    left = s._connection._wire.waiting
    gate.set()
    assert left < 64_000_000, f"{left / 1e6:.0f} MB wait in the client"


def test_fork_is_noticed_by_a_waiting_fetch(broker, session):
    r = session.receiver("q")
    pid = os.fork()
    if pid == 0:
        import signal

        signal.alarm(2)
        try:
            r.fetch(timeout=1.0)
        except MantaError as e:
            os._exit(0 if not isinstance(e, Empty) else 3)
        os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_queue_handle_reopens_after_fork(broker):
    q = Queue("q", address=broker.address)
    q.put(1)
    pid = os.fork()
    if pid == 0:
        import signal

        signal.alarm(4)
        try:
            q.put(2)
            os._exit(0)
        except BaseException:
            os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_lost_connection_drops_what_cannot_be_settled(broker):
    connection = connect(broker.address, reconnect_s=0)
    connection.declare_queue("q")
    session = connection.session()
    s = session.sender("q")
    s.send(b"1")
    s.send(b"2")
    s.sync()
    r = session.receiver("q")
    r.fetch(timeout=2)
    wait_until(lambda: r.available == 1)
    broker.kick()
    wait_until(lambda: session.connection._conversation.failure)
    with pytest.raises(ConnectionLost):
        r.fetch(timeout=1)


def test_refusal_while_open_is_a_lost_connection(broker, session):
    broker.inject(Refused("invalid", "a transfer was malformed"))
    wait_until(lambda: session.connection._conversation.failure)
    with pytest.raises((ConnectionLost, LinkClosed)):
        session.connection.queue("q")


def test_keepalive(session):
    import socket

    assert session.connection._wire._sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_next_address_when_one_is_silent(broker):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        addresses = [f"127.0.0.1:{silent.getsockname()[1]}", broker.address]
        assert connect(addresses, timeout=0.3).broker == "b1"


def test_a_broker_that_talks_nonsense(broker, session):
    broker.raw(b"HTTP/1.1 400 Bad Request\r\n")
    with pytest.raises((ProtocolError, ConnectionLost)):
        session.receiver("q").fetch(timeout=5)


def test_a_link_attached_just_before_the_connection_was_lost_is_not_made():
    conversation = Conversation("nowhere:1", "", lambda data: None)
    conversation.feed(encode_frame(Opened("b1", {}, 100, 100, 100)))
    handle = conversation.attach(lambda h: AttachReceiver(h, "q"))
    conversation.feed(encode_frame(Attached(handle)))
    conversation.lost_because("it broke")
    with pytest.raises(ConnectionLost):
        conversation.receiver(handle, "q", 1, True)


def test_what_is_sent_again_in_one_frame_may_have_been_complete_in_part():
    written = []
    core = SenderCore(1, "q", False, False, 10, 1000, written.append)
    for body in (b"1", b"2", b"3", b"4"):
        core.put(body)
    core.completed(Completed(1, [1, 1]))  # the first left alone, the others together
    core.completed(Completed(1, [2, 3]))
    assert core.unsettled == 1 and core.next == 2 and list(core.pending) == [2]
    core.completed(Completed(1, [2, 4]))
    assert core.unsettled == 0 and core.next == 5 and not core.pending
    core.put(b"5")
    assert written[-1].first == 5, "with nothing in flight a message leaves at once"


def test_an_attach_nobody_waits_for_any_more_is_undone():
    written = []
    conversation = Conversation("nowhere:1", "", written.append)
    conversation.feed(encode_frame(Opened("b1", {}, 100, 100, 100)))
    handle = conversation.attach(lambda h: AttachReceiver(h, "q"))
    conversation.abandon(handle)
    conversation.feed(encode_frame(Attached(handle)))
    assert written[-1] == encode_frame(Detach(handle))


def test_a_sender_begins_where_the_broker_says():
    written = []
    conversation = Conversation("nowhere:1", "", written.append)
    conversation.feed(encode_frame(Opened("b1", {}, 100, 100, 100)))
    handle = conversation.attach(lambda h: AttachSender(h, "", "q"))
    conversation.feed(encode_frame(Attached(handle, False, 7)))
    core = conversation.sender(handle, "q", False, 10)
    core.put(b"x")
    assert list(core.pending) == [7]
    core.completed(Completed(handle, [7, 7]))
    assert core.settled(7) and core.unsettled == 0


def test_what_came_before_a_breach_counts():
    conversation = Conversation("nowhere:1", "", lambda data: None)
    with pytest.raises(PeerError):
        conversation.feed(encode_frame(Opened("b1", {}, 100, 100, 100)) + b"nonsense")
    assert conversation.opened is not None


@pytest.mark.parametrize("address", [[], "", 5, ["h:1", 5], b"h:1", [""], ("h",)], ids=repr)
async def test_what_is_no_address_is_invalid_and_said(address):
    with pytest.raises(Invalid, match="host:port"):
        connect(address)
    with pytest.raises(Invalid, match="host:port"):
        await connect_async(address)


@pytest.mark.parametrize("capacity", ["5", 1.5, None, -1, True])
def test_what_is_no_capacity_is_invalid_and_leaves_nothing_attached(broker, session, capacity):
    for attach in (session.receiver, session.sender):
        with pytest.raises(Invalid, match="capacity is a number of messages"):
            attach("q", capacity=capacity)
    session.connection.delete_queue("q", if_unused=True)


async def test_only_messages_can_be_settled(broker, session):
    for settle in (session.acknowledge, session.release, session.reject):
        for wrong in (b"body", 1):
            with pytest.raises(Invalid, match="as it was received, not"):
                settle(wrong)
    async with connect_async(broker.address) as connection:
        with pytest.raises(Invalid, match="as it was received, not bytes"):
            await connection.session().reject(b"body")


async def test_closing_again_what_ended_with_its_connection_is_no_error(broker, session):
    links = session.sender("q"), session.receiver("q")
    session.connection.close()
    for one in (*links, session, session.connection):
        one.close()
    connection = await connect_async(broker.address)
    twin = connection.session()
    twins = await twin.sender("q"), await twin.receiver("q")
    await connection.close()
    for one in (*twins, twin, connection):
        await one.close()
    with pytest.raises(ConnectionLost, match="was closed: connect again"):
        await twin.sync()


def test_connect_async_that_is_not_awaited_says_so():
    connection = connect_async("127.0.0.1:1")
    with pytest.raises(AttributeError, match="before it is awaited: `connection = await connect_async"):
        connection.declare_queue("q")
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        _ = connection.nonsense


def test_a_session_goes_on_when_one_of_its_senders_and_receivers_is_closed():
    with FakeBroker() as cluster, connect(cluster.address) as connection:
        connection.declare_queue("orders")
        session = connection.session()
        with session.sender("orders") as sender:
            sender.send("one")
        with session.receiver("orders") as receiver:
            receiver.fetch(5)
            session.acknowledge()
        session.sync(5)
        other = session.sender("orders")
        other.send("two")
        session.sync(5)
        session.close()
        assert connection.queue("orders")["messages"] == 1


async def test_a_session_of_the_asynchronous_twin_goes_on_as_well():
    with FakeBroker() as cluster:
        async with connect_async(cluster.address) as connection:
            await connection.declare_queue("orders")
            session = connection.session()
            async with await session.sender("orders") as sender:
                await sender.send("one")
            async with await session.receiver("orders") as receiver:
                await receiver.fetch(5)
                await session.acknowledge()
            await session.sync(5)
            await session.close()
