"""Receivers that get nothing of their own connection's, as their users see them, through both clients."""

from __future__ import annotations

import time

import msgspec
import pytest
from fake_broker import wait_until
from mantamq.client import Empty, Message, NotAllowed, connect, connect_async
from mantamq.protocol.broker import connections
from mantamq.protocol.wire.client_frames import AttachReceiver, Opened
from mantamq.protocol.wire.queue_frames import Consume, DeadLetter
from msgspec.structs import replace

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def other(cluster):
    with connect(cluster.addresses["b2"]) as connection:
        yield connection.session()


def send(session, *bodies, address="q", **fields):
    sender = session.sender(address)
    for body in bodies:
        sender.send(Message(body, **fields))
    sender.sync(5)


def fetched(receiver, most=100):
    found = []
    while len(found) < most:
        try:
            found.append(receiver.fetch(0.3))
        except Empty:
            break
    return [message.body.decode() for message in found]


def speak_1_8(monkeypatch):
    """Brokers greet new connections as one of that version would."""
    monkeypatch.setattr(connections, "Opened", lambda *fields: replace(Opened(*fields), minor=8))


@pytest.mark.parametrize("capacity", [0, 1, 100])
def test_a_receiver_gets_what_others_have_sent_and_its_own_stays(session, other, capacity):
    send(session, "own before")
    send(other, "other before")
    receiver = session.receiver("q", capacity, no_local=True)
    send(session, "own 1", "own 2")
    send(session, "own by another sender")
    send(session.connection.session(), "own by another session")
    send(other, "other 1")
    assert fetched(receiver) == ["other before", "other 1"]
    with pytest.raises(Empty):
        receiver.get(0.5)
    session.acknowledge()
    session.sync(5)
    owns = ["own before", "own 1", "own 2", "own by another sender", "own by another session"]
    assert fetched(other.receiver("q", no_local=True)) == owns, "they stay for other consumers, at any broker"


def test_a_queue_whose_only_consumer_wants_none_of_it_keeps_it(session):
    receiver = session.receiver("q", no_local=True)
    send(session, *"abc")
    assert fetched(receiver) == []
    assert fetched(session.receiver("q")) == ["a", "b", "c"]


def test_browsers_and_selectors_have_it_too(session, other):
    send(session, "own", properties={"n": 1})
    send(other, "other", properties={"n": 1})
    send(other, "another", properties={"n": 2})
    assert fetched(session.receiver("q", mode="browse", no_local=True)) == ["other", "another"]
    assert fetched(other.receiver("q", mode="browse", no_local=True, selector="n = 2")) == []
    assert fetched(session.receiver("q", selector="n = 1", no_local=True)) == ["other"]


def test_a_queue_with_groups_has_none_but_for_browsers(connection, session, other):
    connection.declare_queue("grouped", group_key="g")
    send(other, "other", address="grouped", properties={"g": "1"})
    send(session, "own", address="grouped", properties={"g": "1"})
    with pytest.raises(NotAllowed, match=r"message groups \(by 'g'\).*leave no_local away, or browse"):
        session.receiver("grouped", no_local=True)
    assert fetched(session.receiver("grouped", mode="browse", no_local=True)) == ["other"]


def test_what_was_sent_before_another_broker_took_over_is_its_own_still(cluster, connection, session, other):
    send(session, "own before")
    receiver = session.receiver("q", 1, no_local=True)
    send(other, "other before")
    cluster.kick()
    wait_until(lambda: connection.reconnects == 1)
    send(session, "own after")
    send(other, "other after")
    assert fetched(receiver) == ["other before", "other after"]
    session.acknowledge()
    session.sync(5)
    again = connection.session().receiver("q", no_local=True)
    assert fetched(again) == [] and fetched(other.receiver("q")) == ["own before", "own after"]


def test_dead_letters_are_of_who_sent_them_first(connection, session, other):
    connection.declare_queue("dead")
    connection.bind("amq.fanout", "dead")
    connection.declare_queue("orders", alternate="amq.fanout")
    send(session, "own", address="orders")
    send(other, "other", address="orders")
    rejecting = other.connection.session()
    receiver = rejecting.receiver("orders")
    for _ in range(2):
        rejecting.reject(receiver.fetch(5))
    rejecting.sync(5)
    assert fetched(session.receiver("dead", no_local=True)) == ["other"]
    assert fetched(rejecting.receiver("dead", no_local=True)) == ["own"]


def test_by_an_alternate_exchange_that_looks_at_headers_too(connection, session, other):
    connection.declare_queue("dead")
    connection.bind("amq.match", "dead", arguments={"x-match": "all", "n": 1})
    connection.declare_queue("orders", alternate="amq.match")
    send(other, "neither", address="orders", properties={"n": 2})
    send(session, "own", address="orders", properties={"n": 1})
    send(other, "other", address="orders", properties={"n": 1})
    receiver = session.receiver("orders")
    for _ in range(3):
        session.reject(receiver.fetch(5))
    session.sync(5)
    assert fetched(session.receiver("dead", no_local=True)) == ["other"]


def test_every_queue_that_an_exchange_or_several_keys_lead_to_knows(connection, session, other):
    for name in ("one", "two"):
        connection.declare_queue(name, **({"priorities": 5} if name == "two" else {}))
        connection.bind("amq.topic", name, f"{name}.#")
    for who, body in ((session, "own"), (other, "other")):
        sender = who.sender("amq.topic")
        sender.send_to(Message(body), ["one.x", "two.y"])
        sender.sync(5)
    for name in ("one", "two"):
        assert fetched(session.receiver(name, no_local=True)) == ["other"]


def test_a_broker_that_knows_none_is_refused_and_left(cluster, connection, session, other, monkeypatch):
    send(session, "own")
    receiver = session.receiver("q", no_local=True)
    speak_1_8(monkeypatch)
    cluster.kick()
    time.sleep(0.1)
    assert not connection._conversation.online, "a broker that would deliver everything"
    monkeypatch.undo()
    wait_until(lambda: connection.reconnects == 1)
    assert fetched(receiver) == []
    speak_1_8(monkeypatch)
    with connect(cluster.address) as old, pytest.raises(NotAllowed, match=r"1\.8.*no_local.*1\.9"):
        old.session().receiver("q", no_local=True)


def test_frames_of_older_programs_are_understood():
    encode, decode = msgspec.msgpack.encode, msgspec.msgpack.decode
    assert decode(encode([1, "q", "browse", False, []]), type=AttachReceiver).no_local is False
    assert decode(encode(["q#1", 1, "consume", True, []]), type=Consume).own == ""
    assert decode(encode(["q#1", 1, "", []]), type=DeadLetter).origin_of == []


async def test_the_asyncio_twin(cluster):
    async with connect_async(cluster.address) as connection, connect_async(cluster.addresses["b2"]) as another:
        await connection.declare_queue("q")
        session, other = connection.session(), another.session()
        for who, body in ((session, "own"), (other, "other")):
            sender = await who.sender("q")
            await sender.send(Message(body))
            await sender.sync(5)
        receiver = await session.receiver("q", no_local=True)
        assert (await receiver.fetch(5)).body == b"other"
        with pytest.raises(Empty):
            await receiver.fetch(0)
