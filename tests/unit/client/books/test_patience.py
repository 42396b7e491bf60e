"""What does not complete ends with Unavailable after a time-out, and nothing the client says later contradicts that."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from fake_broker import FakeBroker, wait_until
from mantamq.client import Full, Invalid, Timeout, Unavailable, connect, connect_async
from mantamq.client.books.patience import BLIND_S, Answering, Patience
from mantamq.client.books.sender import SenderCore
from mantamq.protocol.wire.client_frames import Attached, Completed, Disposed, Opened, Reply

pytestmark = pytest.mark.timeout(20)
SHORT_S = 0.15


@pytest.fixture
def cluster():
    with FakeBroker(2) as cluster:
        yield cluster


def connected(cluster, **options):
    options = {"send_timeout_s": SHORT_S, "heartbeat_ms": 0} | options
    connection = connect(list(cluster.addresses.values()), **options)
    connection.declare_queue("q")
    return connection


# ---- the watch by itself


def test_a_watch_runs_out_only_while_nothing_moves():
    watch = Patience(10)
    assert [watch.look(t, True, 0) for t in (0, 1, 2)] == [False] * 3
    assert not watch.look(3, True, 1), "something has moved"
    assert not any(watch.look(t, True, 1) for t in range(4, 13))
    assert watch.look(13, True, 1) and watch.still_s == 10 and watch.expired == 1
    assert not any(watch.look(t, True, 1) for t in range(14, 23)) and watch.look(23, True, 1), "it begins anew"
    assert not watch.look(24, False, 1) and not watch.look(25, True, 1) and watch.still_s == 0


def test_time_in_which_nobody_looked_does_not_count():
    watch = Patience(10)
    watch.look(0, True, 0)
    assert not watch.look(1000, True, 0), "this program was stopped, not the cluster"
    assert not any(watch.look(1000 + t, True, 0) for t in range(1, 10))
    assert watch.look(1010, True, 0) and watch.still_s == 10
    assert BLIND_S < 10


def test_without_a_limit_it_never_runs_out():
    watch = Patience(None)
    assert not any(watch.look(t, True, 0) for t in range(10_000))


def test_an_answer_has_its_time_at_one_broker_and_all_brokers_have_theirs():
    answering = Answering(10, 25, 0)
    with pytest.raises(Timeout):
        answering.check(True, "b1", 10)
    answering = Answering(10, 25, 0)
    answering.check(False, "b2", 10)
    answering.check(False, "b3", 20)
    assert answering.slice_s(20) == 5
    with pytest.raises(Unavailable, match="no answer from any broker within 25 s, the last one at b3"):
        answering.check(True, "b3", 25)
    for_ever = Answering(10, None, 0)
    for now in range(10, 1000, 10):
        for_ever.check(False, "b1", now)


def test_who_never_sends_again_is_told_once_however_long_it_lasts():
    core = SenderCore(1, "q", False, False, 10, 1000, lambda frame: None, limit_s=1.0)
    core.put(b"one")
    for second in range(100):
        core.look(second)
    assert core.patience.expired > 10
    with pytest.raises(Unavailable) as told:
        core.check()
    assert told.value.numbers == [1, 1]
    core.check()  # the next send is taken, until the next time-out


# ---- the synchronous twin


def test_what_waits_for_completions_that_do_not_come_fails_and_says_what_to_do(cluster):
    with connected(cluster) as connection:
        sender = connection.session().sender("q", capacity=3)
        cluster.hold(Completed)
        for i in range(3):
            sender.send(b"%d" % i)
        for wait in (sender.sync, lambda: sender.send(b"more")):
            with pytest.raises(Unavailable) as caught:
                wait()
            text = str(caught.value)
            assert text.startswith("3 messages to 'q' are not complete, and none has completed for 0.")
            assert "mantamq doctor" in text and "brows" in text and "may still complete" in text
        assert sender.unsettled == 3, "the fourth was not taken"
        cluster.let_go()
        sender.sync(5)
        assert sender.unsettled == 0 and connection.queue("q")["messages"] == 3
        sender.send(b"more")
        sender.sync()
        assert connection.queue("q")["messages"] == 4


def test_a_shorter_time_out_of_the_call_still_holds(cluster):
    with connected(cluster, send_timeout_s=30) as connection:
        sender = connection.session().sender("q", capacity=1)
        cluster.hold(Completed)
        sender.send(b"1")
        with pytest.raises(Timeout):
            sender.sync(0.05)
        with pytest.raises(Full):
            sender.send(b"2", timeout=0.05)
        with pytest.raises(Full):
            sender.send_nowait(b"2")
        cluster.let_go()


def test_as_long_as_something_completes_nobody_gives_up(cluster):
    with connected(cluster, send_timeout_s=0.4) as connection:
        sender = connection.session().sender("q", capacity=100)
        cluster.hold(Completed)
        for i in range(20):
            sender.send(b"%d" % i)
        handle = sender._core.handle
        stop = threading.Event()

        def trickle():
            for n in range(1, 20):
                if stop.wait(0.06):
                    return
                cluster.inject(Completed(handle, [n, n]))
            cluster.let_go()

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        begun = time.monotonic()
        sender.sync()
        assert time.monotonic() - begun > 2 * 0.4, "it was no longer than the time-out: the test proves nothing"
        stop.set()
        thread.join(5)


def test_a_sender_may_have_its_own_time_out_or_none(cluster):
    with connected(cluster, send_timeout_s=None) as connection:
        session = connection.session()
        short, endless = session.sender("q", send_timeout_s=SHORT_S), session.sender("q")
        cluster.hold(Completed)
        short.send(b"1")
        endless.send(b"2")
        with pytest.raises(Unavailable):
            short.sync()
        with pytest.raises(Timeout):
            endless.sync(3 * SHORT_S)
        cluster.let_go()
        session.sync(5)
        for bad in (0, -1, float("nan"), float("inf"), "soon", True):
            with pytest.raises(Invalid, match="time-out"):
                session.sender("q", send_timeout_s=bad)
            with pytest.raises(Invalid, match="time-out"):
                connect(cluster.address, send_timeout_s=bad)


@pytest.mark.parametrize("heartbeat_ms", [0, 200])
def test_who_only_sends_is_told_at_the_next_send(cluster, heartbeat_ms):
    with connected(cluster, heartbeat_ms=heartbeat_ms) as connection:
        sender = connection.session().sender("q")
        cluster.hold(Completed)
        sender.send(b"1")
        wait_until(lambda: sender._core.failures)
        with pytest.raises(Unavailable, match="1 messages") as caught:
            sender.send(b"2")
        assert caught.value.numbers == [1, 1]
        sender.send(b"2")  # told once per time-out
        cluster.let_go()
        sender.sync(5)
        assert connection.queue("q")["messages"] == 2


def test_what_has_completed_since_is_not_reported_as_missing(cluster):
    with connected(cluster, heartbeat_ms=200) as connection:
        sender = connection.session().sender("q")
        cluster.hold(Completed)
        sender.send(b"1")
        wait_until(lambda: sender._core.failures)
        cluster.let_go()
        wait_until(lambda: sender.unsettled == 0)
        sender.send(b"2")
        sender.sync(5)


def test_close_does_not_wait_twice_and_ends_the_sender(cluster):
    with connected(cluster) as connection:
        session = connection.session()
        cluster.hold(Completed)
        with pytest.raises(Unavailable), session.sender("q", send_timeout_s=1.0) as sender:
            sender.send(b"1")
            with pytest.raises(Unavailable):
                sender.sync()
            begun = time.monotonic()
        assert time.monotonic() - begun < 0.9
        assert connection._conversation.links() == []
        cluster.let_go()


def test_several_threads_that_wait_are_all_told(cluster):
    with connected(cluster) as connection:
        sender = connection.session().sender("q", capacity=1)
        cluster.hold(Completed)
        sender.send(b"1")
        heard: list[BaseException] = []

        def wait(call):
            try:
                call()
            except BaseException as error:
                heard.append(error)

        calls = [sender.sync, sender.sync, lambda: sender.send(b"2"), lambda: sender.send(b"3")]
        threads = [threading.Thread(target=wait, args=(call,), daemon=True) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(10)
        assert [type(error) for error in heard] == [Unavailable] * 4
        cluster.let_go()


def test_settlements_that_are_not_answered(cluster):
    with connected(cluster) as connection:
        session = connection.session()
        session.sender("q").send(b"1")
        receiver = session.receiver("q")
        receiver.fetch(5)
        cluster.hold(Disposed)
        session.acknowledge()
        for wait in (receiver.sync, session.sync):
            with pytest.raises(Unavailable, match="settlements of queue 'q'"):
                wait()
        cluster.let_go()
        session.sync(5)


def test_a_command_and_an_attach_end_though_brokers_come_and_go(cluster):
    """Each new broker has its own time for an answer; together they have the time-out."""
    with connected(cluster, timeout=0.3, send_timeout_s=0.6, reconnect_s=20) as connection:
        session = connection.session()
        cluster.hold(Reply, Attached)
        stop = threading.Event()

        def kicker():
            while not stop.wait(0.1):
                cluster.kick()

        thread = threading.Thread(target=kicker, daemon=True)
        thread.start()
        try:
            for ask in (lambda: connection.declare_queue("other"), lambda: session.receiver("q")):
                begun = time.monotonic()
                with pytest.raises((Unavailable, Timeout)):
                    ask()
                assert time.monotonic() - begun < 5
        finally:
            stop.set()
            thread.join(5)
            cluster.let_go()


def test_sending_while_no_broker_is_there_has_the_same_limit(cluster):
    with connected(cluster, heartbeat_ms=100, reconnect_s=20) as connection:
        sender = connection.session().sender("q")
        cluster.hold(Opened)
        cluster.kick()
        wait_until(lambda: not connection._conversation.online)
        sender.send(b"1")
        with pytest.raises(Unavailable):
            sender.sync()
        cluster.let_go()
        sender.sync(10)
        assert connection.queue("q")["messages"] == 1


# ---- the asyncio twin


async def test_the_asyncio_twin_gives_up_likewise(cluster):
    given = list(cluster.addresses.values())
    async with connect_async(given, send_timeout_s=SHORT_S, heartbeat_ms=0) as connection:
        await connection.declare_queue("q")
        session = connection.session()
        sender = await session.sender("q", capacity=2)
        other = await session.sender("q", send_timeout_s=None)
        cluster.hold(Completed)
        await sender.send(b"1")
        await sender.send(b"2")
        await other.send(b"3")
        waits = await asyncio.gather(sender.sync(), sender.send(b"4"), session.sync(), return_exceptions=True)
        assert [type(wait) for wait in waits] == [Unavailable] * 3
        assert str(waits[0]).startswith("2 messages to 'q' are not complete")
        with pytest.raises(Timeout):
            await other.sync(3 * SHORT_S)
        while not sender._core.failures:  # nobody waits: told at the next send
            await asyncio.sleep(0.01)
        with pytest.raises(Unavailable):
            sender.send_nowait(b"4")
        cluster.let_go()
        await session.sync(5)
        assert (await connection.queue("q"))["messages"] == 3
        with pytest.raises(Invalid, match="time-out"):
            await session.sender("q", send_timeout_s=0)


async def test_closing_an_asyncio_sender_that_does_not_complete(cluster):
    async with connect_async(cluster.address, send_timeout_s=SHORT_S) as connection:
        await connection.declare_queue("q")
        sender = await connection.session().sender("q")
        cluster.hold(Completed)
        await sender.send(b"1")
        with pytest.raises(Unavailable):
            await sender.close()
        assert connection._conversation.links() == []
        cluster.let_go()
