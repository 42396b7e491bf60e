"""Selectors as their users see them, through both clients."""

from __future__ import annotations

import msgspec
import pytest
from fake_broker import wait_until
from mantamq.client import Empty, Invalid, LinkClosed, Message, NotAllowed, connect, connect_async
from mantamq.protocol.broker import connections
from mantamq.protocol.wire.client_frames import AttachReceiver, Open, Opened
from mantamq.protocol.wire.queue_frames import Consume
from msgspec.structs import replace

pytestmark = pytest.mark.timeout(20)
COLOURS = ("red", "blue", "red", None, "green", "red")


def send(session, queue="q", colours=COLOURS):
    sender = session.sender(queue)
    for n, colour in enumerate(colours):
        sender.send(Message(str(n), properties={"n": n} | ({"colour": colour} if colour else {})))
    sender.sync(5)


def speak_1_6(monkeypatch):
    """Brokers greet new connections as one of that version would."""
    monkeypatch.setattr(connections, "Opened", lambda *fields: replace(Opened(*fields), minor=6))


def fetched(receiver):
    """All that the queue has for it, by the cluster's word: on a busy machine nothing that takes its time is missed."""
    found = []
    while True:
        try:
            found.append(receiver.get(0).body.decode())
        except Empty:
            return found


@pytest.mark.parametrize("capacity", [0, 1, 100])
def test_a_receiver_gets_what_it_wants_and_the_rest_stays(session, capacity):
    send(session)
    receiver = session.receiver("q", capacity, selector="n > 1 AND colour = 'red'")
    assert [receiver.fetch(5).body for _ in range(2)] == [b"2", b"5"]
    with pytest.raises(Empty):
        receiver.fetch(0)
    with pytest.raises(Empty):
        receiver.get(0)
    session.acknowledge()
    session.sync(5)
    send(session, colours=["blue", "red", "red"])
    assert receiver.fetch(5).properties == {"n": 2, "colour": "red"}
    receiver.close()
    assert fetched(session.receiver("q")) == ["0", "1", "3", "4", "0", "1", "2"]


def test_browse_and_the_mode(session):
    send(session)
    assert [m.body for m in session.browse("q", selector="colour IS NULL OR colour LIKE 'b%'")] == [b"1", b"3"]
    assert [m.body for m in session.browse("q", 0, "n IN (0, 9)")] == [b"0"]
    assert [m.body for m in session.browse("q", selector="")] == [b"0", b"1", b"2", b"3", b"4", b"5"]
    assert fetched(session.receiver("q", mode="browse", selector="colour = 'green'")) == ["4"]


def test_a_bad_selector_harms_nobody_else(session):
    send(session)
    good = session.receiver("q", selector="colour = 'blue'")
    with pytest.raises(Invalid, match=r"column 10: it ends where a name"):
        session.receiver("q", selector="n > 1 AND")
    with pytest.raises(Invalid, match="at most 4096 characters"):
        session.receiver("q", selector="(" * 10_000)
    with pytest.raises(Invalid, match="a selector is a text"):
        session.receiver("q", selector=7)
    with pytest.raises(Invalid, match="column 1"):
        list(session.browse("q", selector="= 1"))
    assert good.fetch(5).body == b"1" and session.connection.reconnects == 0


def test_a_queue_with_groups_has_none_but_for_browsers(connection, session):
    connection.declare_queue("grouped", group_key="colour")
    send(session, "grouped")
    with pytest.raises(NotAllowed, match=r"message groups \(by 'colour'\).*browse"):
        session.receiver("grouped", selector="n = 1")
    assert [m.body for m in session.browse("grouped", selector="n > 3")] == [b"4", b"5"]


def test_consumers_at_two_brokers_get_each_its_own(cluster, session):
    """The one that wants nothing that waits does not keep the lock from the other."""
    red = session.receiver("q", selector="colour = 'red'")
    with connect(cluster.addresses["b2"]) as connection:
        other = connection.session()
        blue = other.receiver("q", selector="colour = 'blue'")
        for _ in range(3):
            send(session, colours=["blue", "red"])
            assert red.fetch(5).body == b"1" and blue.fetch(5).body == b"0"
            session.acknowledge()
            other.acknowledge()


def test_another_broker_is_told(cluster, connection, session):
    send(session)
    receiver = session.receiver("q", 1, selector="colour = 'red'")
    browser = session.receiver("q", mode="browse", selector="n > 3", capacity=1)
    assert receiver.fetch(5).body == b"0" and browser.fetch(5).body == b"4"
    session.acknowledge()
    session.sync(5)
    cluster.kick()
    wait_until(lambda: connection.reconnects == 1)
    assert fetched(receiver) == ["2", "5"] and fetched(browser) in ([], ["5"])


def test_a_broker_that_knows_none_is_refused_and_left(cluster, connection, session, monkeypatch):
    send(session)
    receiver = session.receiver("q", selector="colour = 'blue'")
    assert receiver.fetch(5).body == b"1"
    speak_1_6(monkeypatch)
    opened = len(cluster.said(Open))
    cluster.kick()
    wait_until(lambda: len(cluster.said(Open)) > opened + 1)
    assert connection.reconnects == 0, "it goes on to the next from a broker that would deliver everything"
    monkeypatch.undo()
    wait_until(lambda: connection.reconnects == 1)
    assert fetched(receiver) == ["1"]
    speak_1_6(monkeypatch)
    with connect(cluster.address) as old, pytest.raises(NotAllowed, match=r"1\.6.*selectors.*1\.7"):
        old.session().receiver("q", selector="n = 1")


def test_a_receiver_without_one_stays_with_an_older_broker(cluster, session, connection, monkeypatch):
    receiver = session.receiver("q")
    speak_1_6(monkeypatch)
    cluster.kick()
    wait_until(lambda: connection.reconnects == 1)
    send(session, colours=["red"])
    assert receiver.fetch(5).body == b"0"


def test_a_closed_receiver_gives_back_what_it_had(session):
    send(session)
    receiver = session.receiver("q", selector="colour = 'red'")
    message = receiver.fetch(5)
    receiver.close()
    with pytest.raises(LinkClosed):
        session.acknowledge(message)
    assert fetched(session.receiver("q")) == ["0", "1", "2", "3", "4", "5"]


def test_frames_of_older_programs_are_understood():
    encode, decode = msgspec.msgpack.encode, msgspec.msgpack.decode
    assert decode(encode([1, "q", "browse", False, []]), type=AttachReceiver).selector == ""
    assert decode(encode(["q#1", 1, "consume", True, []]), type=Consume).selector == ""


async def test_the_asyncio_twin(cluster):
    async with connect_async(cluster.address) as connection:
        await connection.declare_queue("q")
        session = connection.session()
        sender = await session.sender("q")
        for n in range(4):
            await sender.send(Message(str(n), properties={"n": n}))
        await sender.sync(5)
        assert [m.body async for m in session.browse("q", selector="n >= 2")] == [b"2", b"3"]
        receiver = await session.receiver("q", selector="n = 2")
        assert (await receiver.fetch(5)).body == b"2"
        with pytest.raises(Empty):
            await receiver.fetch(0)
        with pytest.raises(Invalid, match="column 3"):
            await session.receiver("q", selector="n n")
        with pytest.raises(Invalid):
            await session.receiver("q", selector=b"n = 1")
