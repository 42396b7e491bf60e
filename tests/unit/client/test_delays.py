"""Delayed messages, through both clients."""

from __future__ import annotations

import pytest
from fake_broker import wait_until
from mantamq.client import Invalid, LinkClosed, Message, NotAllowed, connect, connect_async
from mantamq.protocol.broker import connections
from mantamq.protocol.wire.client_frames import Completed, Opened, Transfer
from msgspec.structs import replace

pytestmark = pytest.mark.timeout(20)


def test_nobody_gets_it_before_and_then_whoever_waits_does(cluster, connection, session):
    sender, receiver = session.sender("q"), session.receiver("q")
    sender.send_later("late", 0.3)
    sender.send_later("later", at=cluster.cluster.now_ms / 1000 + 0.6)
    sender.send("now")
    sender.sync(5)
    status = connection.queue("q")
    assert (status["messages"], status["delayed"]) == (3, 2)
    assert receiver.fetch(5).body == b"now"
    cluster.pass_time(250)
    assert connection.queue("q")["delayed"] == 2 and not receiver.available
    cluster.pass_time(100)
    assert receiver.fetch(5).body == b"late"
    cluster.pass_time(200)
    assert connection.queue("q")["delayed"] == 1 and not receiver.available
    cluster.pass_time(100)
    assert receiver.fetch(5).body == b"later"


def test_due_ones_come_in_their_places(cluster, session):
    sender = session.sender("q")
    sender.send_later("1", 0.05)
    sender.send("2")
    sender.sync(5)
    cluster.pass_time(500)
    receiver = session.receiver("q", 0)
    assert [receiver.get().body for _ in range(2)] == [b"1", b"2"]


def test_one_is_given_back_for_a_while(cluster, connection, session):
    session.sender("q").send("1")
    receiver = session.receiver("q")
    message = receiver.fetch(5)
    session.release(message, delay=0.3)
    session.sync(5)
    cluster.pass_time(250)
    assert not receiver.available and connection.queue("q")["delayed"] == 1
    cluster.pass_time(100)
    again = receiver.fetch(5)
    assert (again.body, again.delivery_count) == (b"1", 1)
    session.acknowledge(again)
    session.sync(5)
    assert connection.queue("q")["messages"] == 0


def test_a_browser_sees_it_a_purge_takes_it_and_it_expires(cluster, connection, session):
    sender = session.sender("q")
    sender.send_later("1", 60)
    sender.sync(5)
    assert session.receiver("q", mode="browse").fetch(5).body == b"1"
    assert connection.purge("q") == 1
    sender.send_later(Message("2", ttl=0.1), 60)
    sender.sync(5)
    cluster.pass_time(1000)
    assert connection.queue("q")["expired"] == 1


def test_by_several_keys(connection, session):
    connection.declare_queue("r")
    connection.bind("amq.direct", "q", "x")
    connection.bind("amq.direct", "r", "y")
    sender = session.sender("amq.direct")
    sender.send_later("1", 60, keys=["x", "y"])
    sender.sync(5)
    assert [connection.queue(name)["delayed"] for name in "qr"] == [1, 1]


@pytest.mark.parametrize("times", [(), (1, 2), (-1,), (float("nan"),), ("1",), (None, -5), (None, "soon")])
def test_what_is_no_time_is_refused(session, times):
    sender = session.sender("q")
    with pytest.raises(Invalid):
        sender.send_later("1", *times)
    sender.send("2")
    sender.sync(5)
    message = session.receiver("q").fetch(5)
    assert message.body == b"2"
    with pytest.raises(Invalid):
        session.release(message, delay=-1)
    session.release(message)


def test_what_is_not_complete_is_sent_again_with_its_delay(cluster, connection, session):
    sender = session.sender("q", capacity=100)
    cluster.hold(Completed)
    for n in range(20):
        sender.send_later(str(n), 60) if n % 2 else sender.send(str(n))
    sender._core.flush()
    wait_until(lambda: cluster.said(Transfer))
    cluster.kick()
    wait_until(lambda: connection.reconnects == 1)
    cluster.let_go()
    sender.sync(10)
    assert (connection.queue("q")["messages"], connection.queue("q")["delayed"]) == (20, 10)


def test_an_exchange_that_numbers_delays_nothing_and_takes_the_rest(cluster, connection, session):
    connection.declare_exchange("numbered", sequence=True)
    connection.bind("numbered", "q")
    sender = session.sender("numbered")
    cluster.hold(Completed)
    sender.send("0")
    sender.send("1")
    sender.send_later("2", 60)
    sender.send("3")
    cluster.let_go()
    with pytest.raises(NotAllowed, match="delays nothing") as refused:
        sender.sync(5)
    assert refused.value.numbers == [3, 3]
    sender.sync(5)
    receiver = session.receiver("q")
    assert [receiver.fetch(5).body for _ in range(3)] == [b"0", b"1", b"3"]


def test_a_broker_that_knows_no_delays_is_not_asked(cluster, session, monkeypatch):
    monkeypatch.setattr(connections, "Opened", lambda *fields: replace(Opened(*fields), minor=11))
    with connect(cluster.address) as old:
        mine = old.session()
        with pytest.raises(NotAllowed, match=r"1\.11.*at once.*1\.12"):
            mine.sender("q").send_later("1", 5)


def test_a_cluster_with_an_older_member_delays_nothing(cluster, connection, session):
    sender, receiver = session.sender("q"), session.receiver("q", 2)
    sender.send("1")
    message = receiver.fetch(5)
    broker = cluster.cluster.machines["b1"]
    cluster.call(lambda: setattr(broker.cluster.versions, "least", 11))
    sender.send_later("2", 60)
    with pytest.raises(NotAllowed, match=r"a member of the cluster speaks protocol 1\.11 and knows no delays"):
        sender.sync(5)
    session.release(message, delay=60)
    with pytest.raises((LinkClosed, NotAllowed), match=r"knows no delays"):
        receiver.fetch(5)
    assert session.receiver("q").fetch(5).body == b"1" and connection.queue("q")["delayed"] == 0


async def test_the_asyncio_twin(cluster, session):
    async with connect_async(cluster.address) as connection:
        mine = connection.session()
        sender, receiver = await mine.sender("q"), await mine.receiver("q")
        await sender.send_later("1", 0.2)
        await sender.sync(5)
        cluster.pass_time(150)
        assert (await connection.queue("q"))["delayed"] == 1
        cluster.pass_time(100)
        message = await receiver.fetch(5)
        await mine.release(message, delay=0.2)
        await mine.sync(5)
        assert (await connection.queue("q"))["delayed"] == 1
        cluster.pass_time(250)
        again = await receiver.fetch(5)
        assert again.delivery_count == 1
        with pytest.raises(Invalid):
            await sender.send_later("2")


@pytest.mark.parametrize("body", [5, "\ud800"])
def test_of_one_that_cannot_be_sent_nothing_stays_for_the_next(connection, session, body):
    connection.declare_queue("other")
    connection.bind("amq.direct", "other", "k")
    sender = session.sender("q")
    with pytest.raises(Invalid, match=r"a message's body is .* (serialise it first|send bytes)"):
        sender.send_later(body, 3600)
    sender.send("now")
    keyed = session.sender("amq.direct")
    with pytest.raises(Invalid):
        keyed.send_later(body, 3600, keys=["k"])
    keyed.send("nowhere")
    session.sync(5)
    told = connection.queue("q")
    assert (told["messages"], told["delayed"]) == (1, 0) and connection.queue("other")["messages"] == 0
