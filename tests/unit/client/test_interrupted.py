"""Calls that are interrupted, in the middle or by other calls of the same thread: nothing hangs, and nothing is lost."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from fake_broker import FakeBroker
from mantamq.client import NotAllowed, Timeout, connect, connect_async
from mantamq.client.errors import ConnectionLost
from mantamq.client.sync import driver
from mantamq.client.sync.call_lock import CallLock
from mantamq.protocol.wire.client_frames import Attached, AttachReceiver, Detach, Disposed, FlowDrained, Opened

from .conftest import PATIENT_MS

LIMIT_S = 10


@pytest.fixture(autouse=True)
def limit() -> Iterator[None]:
    """What hangs here holds a lock that no time-out of a test's ends."""
    faulthandler.dump_traceback_later(60, exit=True)
    yield
    faulthandler.cancel_dump_traceback_later()


def until(holds: Any) -> None:
    end = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


# ---- a signal's handler


def test_close_in_the_middle_of_another_call_is_done_when_that_has_ended(connection: Any, session: Any) -> None:
    """Such is a handler of SIGTERM that closes the connection, while the program sends."""
    sender = session.sender("q")
    put = sender._put

    def signalled(message: Any) -> None:
        connection.close()
        put(message)

    sender._put = signalled
    sender.send("last")
    until(lambda: connection.failed)


def test_any_other_call_there_is_refused_and_harms_nothing(connection: Any, session: Any) -> None:
    sender, receiver = session.sender("q"), session.receiver("q")
    put, said = sender._put, []

    def signalled(message: Any) -> None:
        for call in (lambda: connection.queue("q"), lambda: sender.send("more"), receiver.fetch, session.acknowledge):
            with pytest.raises(NotAllowed, match="in the middle of another call") as refused:
                call()
            said.append(refused)
        put(message)

    sender._put = signalled
    sender.send("one")
    assert len(said) == 4 and receiver.fetch(LIMIT_S).body == b"one"
    session.acknowledge()
    session.sync()


# ---- a finaliser


@pytest.mark.parametrize("where", ["in a call", "in the thread that reads"])
def test_a_browse_that_is_given_up_and_finalised_anywhere_ends_and_holds_up_nobody(
    cluster: FakeBroker, session: Any, where: str
) -> None:
    """As where an exception's traceback keeps it, until the collector comes by."""
    connection = session.connection
    with session.sender("q") as sender:
        sender.send("one")
    browse = session.browse("q")
    next(browse)
    box: list[Any] = [browse]
    box.append(box)
    del browse, box
    if where == "in a call":
        with connection._lock:
            gc.collect()
    else:
        done = threading.Event()
        tick = connection._wire._tick

        def collecting() -> bool:
            gc.collect()
            done.set()
            return tick()

        connection._wire._tick = collecting
        assert done.wait(LIMIT_S)
    until(lambda: len(cluster.said(Detach)) == 2)
    assert connection.queue("q")["messages"] == 1 and connection.reconnects == 0


# ---- a fork


def test_a_lock_that_another_thread_has_at_a_fork_is_free_in_the_child() -> None:
    lock, has, may_go = CallLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            has.set()
            may_go.wait(LIMIT_S)

    thread = threading.Thread(target=hold)
    thread.start()
    has.wait(LIMIT_S)
    pid = os.fork()
    if pid == 0:
        signal.alarm(5)
        with lock:
            os._exit(0)
    may_go.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


# ---- the search for another broker


def full(*_: Any) -> Any:
    raise OSError(24, "Too many open files")


def no_thread(*_: Any) -> Any:
    raise RuntimeError("can't start new thread")


@pytest.mark.parametrize("what", ["sockets", "threads", "a broken rule"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_search_that_cannot_go_on_fails_and_says_so(
    cluster: FakeBroker, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Who waits for another broker waited for ever, with no failure to be seen."""
    with connect(cluster.address, reconnect_s=1.0, heartbeat_ms=PATIENT_MS) as connection:
        connection.declare_queue("q")
        receiver = connection.session().receiver("q")
        with monkeypatch.context() as narrow:
            if what == "sockets":
                narrow.setattr(driver, "Wire", full)
            elif what == "threads":
                narrow.setattr(driver.Wire, "start", no_thread)
            else:
                narrow.setattr(connection._search, "next", lambda now: 1 / 0)
            cluster.kick()
            with pytest.raises(ConnectionLost) as lost:
                receiver.fetch(LIMIT_S)
        assert ("division by zero" in str(lost.value)) == (what == "a broken rule")
        until(lambda: not connection._wire._thread.is_alive())


def test_a_first_connect_without_room_for_a_socket_says_so(
    cluster: FakeBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "socketpair", full)
    with pytest.raises(ConnectionLost, match="Too many open files"):
        connect(cluster.address)


# ---- a batch


def filled(cluster: FakeBroker, count: int) -> None:
    with connect(cluster.address, heartbeat_ms=PATIENT_MS) as connection:
        connection.declare_queue("q")
        with connection.session().sender("q") as sender:
            for number in range(count):
                sender.send(str(number))


@pytest.mark.parametrize("accept", [True, False])
def test_what_a_batch_has_found_before_its_time_is_over_is_there_for_the_next_call(
    cluster: FakeBroker, accept: bool
) -> None:
    """An `acknowledge()` of all that was fetched would have accepted it, and nobody had seen it."""
    filled(cluster, 5)
    with connect(cluster.address, heartbeat_ms=PATIENT_MS, timeout=0.3) as connection:
        session = connection.session()
        receiver = session.receiver("q", accept=accept)
        until(lambda: receiver.available == 5)
        cluster.hold(FlowDrained)
        for _ in range(2):
            with pytest.raises(Timeout, match="see `mantamq status`"):
                receiver.get_batch(10)
            assert receiver.available == 5
            session.acknowledge()
        cluster.let_go()
        assert [receiver.fetch(LIMIT_S).body for _ in range(2)] == [b"0", b"1"]
        assert [message.body for message in receiver.get_batch(10)] == [b"2", b"3", b"4"]
        if accept:
            assert connection.queue("q")["messages"] == 5
            session.acknowledge()
            session.sync()
        assert connection.queue("q")["messages"] == 0


def test_of_a_full_window_a_batch_that_was_given_up_takes_no_room_twice(cluster: FakeBroker) -> None:
    filled(cluster, 5)
    with connect(cluster.address, heartbeat_ms=PATIENT_MS, timeout=0.3) as connection:
        session = connection.session()
        receiver = session.receiver("q", capacity=3, window="unaccepted")
        until(lambda: receiver.available == 3)
        cluster.hold(FlowDrained)
        with pytest.raises(Timeout):
            receiver.get_batch(5)
        cluster.let_go()
        for number in range(5):
            message = receiver.fetch(LIMIT_S)
            assert message.body == str(number).encode()
            session.acknowledge(message)


def test_what_a_batch_without_a_window_has_found_goes_back(cluster: FakeBroker) -> None:
    filled(cluster, 3)
    with connect(cluster.address, heartbeat_ms=PATIENT_MS, timeout=0.3) as connection:
        session = connection.session()
        receiver = session.receiver("q", capacity=0)
        cluster.hold(FlowDrained)
        with pytest.raises(Timeout):
            receiver.get_batch(10)
        cluster.let_go()
        until(lambda: connection.queue("q")["available"] == 3)
        assert [message.body for message in receiver.get_batch(10)] == [b"0", b"1", b"2"]


def test_a_batch_that_was_given_up_comes_again_when_its_broker_is_lost_meanwhile(cluster: FakeBroker) -> None:
    filled(cluster, 3)
    with connect(cluster.address, heartbeat_ms=PATIENT_MS, timeout=0.3, reconnect_s=LIMIT_S) as connection:
        session = connection.session()
        receiver = session.receiver("q")
        until(lambda: receiver.available == 3)
        cluster.hold(FlowDrained)
        with pytest.raises(Timeout):
            receiver.get_batch(10)
        cluster.let_go()
        cluster.kick()
        until(lambda: connection.reconnects == 1)
        messages = [receiver.fetch(LIMIT_S) for _ in range(3)]
        assert [message.body for message in messages] == [b"0", b"1", b"2"] and messages[0].redelivered
        session.acknowledge()
        session.sync()
        assert session.lost == [] and connection.queue("q")["messages"] == 0


async def test_of_the_asyncio_twin_too_where_it_is_cancelled(cluster: FakeBroker) -> None:
    await asyncio.to_thread(filled, cluster, 5)
    async with await connect_async(cluster.address, heartbeat_ms=PATIENT_MS) as connection:
        session = connection.session()
        receiver = await session.receiver("q")
        async with asyncio.timeout(LIMIT_S):
            while receiver.available < 5:
                await asyncio.sleep(0.005)
        cluster.hold(FlowDrained)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receiver.get_batch(10), 0.1)
        await session.acknowledge()
        cluster.let_go()
        assert [message.body for message in await receiver.get_batch(10)] == [b"%d" % number for number in range(5)]
        assert (await connection.queue("q"))["messages"] == 5


# ---- what nobody waits for any more


async def test_a_connect_that_was_cancelled_leaves_no_connection(cluster: FakeBroker) -> None:
    """It answered the broker's heartbeats, and looked for another broker when that one was lost."""
    cluster.hold(Opened)
    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connect_async(cluster.address), 0.1)
    cluster.let_go()
    async with asyncio.timeout(LIMIT_S):
        while cluster.clients("b1", "b2"):
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("answered", [True, False])
def test_a_link_whose_answer_comes_as_it_is_given_up_does_not_stay(
    cluster: FakeBroker, connection: Any, session: Any, answered: bool
) -> None:
    """It had the queue alone, for as long as the connection lived."""
    conversation = connection._conversation
    if not answered:
        cluster.hold(Attached)
    with connection._lock:
        handle = conversation.attach(lambda h: AttachReceiver(h, "q", "consume", True, [], "", 1))
    if answered:
        until(lambda: conversation.attached(handle))
    with connection._lock:
        conversation.abandon(handle)
    cluster.let_go()
    until(lambda: cluster.said(Detach))
    with connect(cluster.address, heartbeat_ms=PATIENT_MS) as other:
        other.session().receiver("q", exclusive=True)


# ---- another event loop


def test_in_another_event_loop_nothing_is_done_and_everything_says_so(cluster: FakeBroker) -> None:
    """The socket of a loop that has ended takes what is written all the same: a queue was deleted, and then it was said
    that this is not allowed."""

    async def first() -> tuple[Any, Any]:
        connection = await connect_async(cluster.address, heartbeat_ms=PATIENT_MS)
        await connection.declare_queue("q")
        return connection, await connection.session().sender("q")

    connection, sender = asyncio.run(first())

    async def second() -> None:
        calls = (
            lambda: connection.delete_queue("q"),
            lambda: connection.session().receiver("q"),
            lambda: connection.session().sender("q"),
            lambda: sender.send("lost"),
            sender.sync,
        )
        for call in calls:
            with pytest.raises(NotAllowed, match="belongs to the event loop that it was made in"):
                await call()

    asyncio.run(second())
    with connect(cluster.address, heartbeat_ms=PATIENT_MS) as other:
        assert other.queue("q")["messages"] == 0


# ---- Ray's queue


def test_a_run_for_each_item_leaves_nothing_open_and_says_what_it_has_got(cluster: FakeBroker) -> None:
    from mantamq.client import Queue

    queue = Queue("items", address=cluster.address)
    for number in range(5):
        asyncio.run(queue.put_async(number))
    gc.collect()
    until(lambda: cluster.clients("b1", "b2") <= 2)  # the handle's own, and that of the last run
    assert len(queue._async_links) <= 1

    async def two() -> list[Any]:
        return [await queue.get_async(), await queue.get_async()]

    cluster.hold(Disposed)
    assert asyncio.run(two()) == [0, 1]
    cluster.let_go()
    gc.collect()
    until(lambda: len(queue) == 3)
    assert [queue.get(timeout=LIMIT_S) for _ in range(3)] == [2, 3, 4]
