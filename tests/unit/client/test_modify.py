"""Modify as its users see it, through both clients: counts, notes, and who does not get it again."""

from __future__ import annotations

import pytest
from fake_broker import wait_until
from mantamq.client import Empty, Invalid, LinkClosed, Message, NotAllowed, connect, connect_async
from mantamq.protocol.broker import connections
from mantamq.protocol.limits import ANNOTATIONS_BYTES
from mantamq.protocol.wire.client_frames import Opened
from msgspec.structs import replace

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def session(connection):
    connection.declare_queue("q", alternate="amq.fanout")
    connection.declare_queue("dead")
    connection.bind("amq.fanout", "dead")
    session = connection.session()
    sender = session.sender("q")
    for n in range(4):
        sender.send(Message(str(n), properties={"n": n}))
    sender.sync(5)
    return session


def fetched(receiver):
    found = []
    while True:
        try:
            found.append(receiver.fetch(0.3))
        except Empty:
            return found


def bodies(receiver):
    return [message.body.decode() for message in fetched(receiver)]


def test_counts_and_notes_are_seen_by_whoever_gets_it_next(session):
    receiver = session.receiver("q", 0)
    first, second = receiver.fetch(5), receiver.fetch(5)
    assert first.annotations == {} == Message(b"").annotations
    notes = {"why": "slow", "tries": [1, None, b"x"]}
    session.modify(first, failed=True, annotations=notes)
    notes["why"] = "changed since"
    session.modify(second)
    session.sync(5)
    other = session.receiver("q", 0)
    again = [other.fetch(5) for _ in range(2)]
    assert [(m.body, m.delivery_count, m.redelivered) for m in again] == [(b"0", 1, True), (b"1", 0, False)]
    assert not any(m.first_acquirer for m in again) and other.fetch(5).first_acquirer and first.first_acquirer
    assert [m.annotations for m in again] == [{"why": "slow", "tries": [1, None, b"x"]}, {}]
    assert again[0].properties == {"n": 0}
    session.modify(again[0], annotations={"why": "still"})
    session.sync(5)
    third = receiver.fetch(5)
    assert (third.delivery_count, third.annotations) == (1, {"why": "still", "tries": [1, None, b"x"]})
    session.reject(third)
    session.sync(5)
    assert session.receiver("dead").fetch(5).annotations == third.annotations
    (browsed,) = [m for m in session.browse("dead") if m.body == b"0"] or [third]
    assert browsed.annotations == third.annotations


def test_undeliverable_here(session):
    receiver = session.receiver("q", 4)
    messages = [receiver.fetch(5) for _ in range(4)]
    session.modify(messages[1], undeliverable_here=True)
    session.modify(messages[2], failed=True)
    session.sync(5)
    assert bodies(receiver) == ["2"]
    with pytest.raises(Empty):
        receiver.get(0.5)
    assert bodies(session.receiver("q")) == ["1"]


def test_a_receiver_that_ends_takes_its_word_with_it(session):
    receiver = session.receiver("q", 1)
    session.modify(receiver.fetch(5), undeliverable_here=True)
    session.sync(5)
    receiver.close()
    assert bodies(session.receiver("q")) == ["0", "1", "2", "3"]


def test_what_cannot_be_noted_harms_nothing(session):
    receiver = session.receiver("q", 0)
    message = receiver.fetch(5)
    for noted in ([1], "x", {1: 2}, {"a": {1, 2}}, {"a": 1 << 70}, {"a": "x" * ANNOTATIONS_BYTES}):
        with pytest.raises(Invalid, match="annotations"):
            session.modify(message, annotations=noted)
    with pytest.raises(Invalid):
        session.modify("no message")
    session.modify(message, annotations={"a": "x" * (ANNOTATIONS_BYTES - 10)})
    with pytest.raises(NotAllowed, match="settled already"):
        session.modify(message)
    session.sync(5)
    again = receiver.fetch(5)
    session.modify(again, failed=True, annotations={"b": 1, "c": "x" * 20})
    session.sync(5)
    found = receiver.fetch(5)
    assert (found.delivery_count, found.annotations.keys()) == (1, {"a"}), (
        "too much is left out, and counts all the same"
    )
    for browsed in session.browse("q"):
        with pytest.raises(NotAllowed, match="not settled"):
            session.modify(browsed)


def test_a_group_is_not_broken(session):
    session.connection.declare_queue("groups", group_key="n")
    sender = session.sender("groups")
    for n in range(3):
        sender.send(Message(str(n), properties={"n": 1}))
    sender.sync(5)
    receiver = session.receiver("groups", 0)
    message = receiver.fetch(5)
    session.modify(message, failed=True, annotations={"a": 1})
    session.sync(5)
    message = receiver.fetch(5)
    assert message.annotations == {"a": 1}
    session.modify(message, undeliverable_here=True)
    with pytest.raises((LinkClosed, NotAllowed), match="message groups"):
        receiver.fetch(5)
    assert bodies(session.receiver("groups")) == ["0", "1", "2"]


def speak_1_7(monkeypatch):
    monkeypatch.setattr(connections, "Opened", lambda *fields: replace(Opened(*fields), minor=7))


def test_a_broker_before_8_modifies_nothing(cluster, session, monkeypatch):
    speak_1_7(monkeypatch)
    with connect(cluster.address) as old:
        mine = old.session()
        message = mine.receiver("q", 1).fetch(5)
        with pytest.raises(NotAllowed, match=r"1\.7.*cannot modify.*1\.8"):
            mine.modify(message, failed=True)
        mine.release(message)


def test_a_cluster_with_a_member_before_8_modifies_nothing(cluster, session):
    """It would pass over the event: the receiver ends, and what it held goes back."""
    receiver = session.receiver("q", 2)
    message = receiver.fetch(5)
    broker = cluster.cluster.machines["b1"]
    cluster.call(lambda: setattr(broker.cluster.versions, "least", 7))
    session.modify(message, failed=True)
    with pytest.raises(LinkClosed, match=r"a member of the cluster speaks protocol 1\.7.*release instead"):
        session.sync(5)
        receiver.fetch(5)
        receiver.fetch(5)
        receiver.fetch(5)
    assert bodies(session.receiver("q")) == ["0", "1", "2", "3"]


def test_another_broker_is_told_what_is_undeliverable(cluster, connection, session):
    receiver = session.receiver("q", 1)
    session.modify(receiver.fetch(5), undeliverable_here=True, annotations={"seen": True})
    session.sync(5)
    cluster.kick()
    wait_until(lambda: connection.reconnects == 1)
    assert bodies(receiver) == ["1", "2", "3"]
    assert [m.annotations for m in fetched(session.receiver("q"))] == [{"seen": True}]


def test_a_modify_that_comes_too_late_is_lost(cluster, connection, session):
    receiver = session.receiver("q", 1)
    message = receiver.fetch(5)
    cluster.kick()
    wait_until(lambda: connection.reconnects == 1)
    session.modify(message, undeliverable_here=True)
    assert session.lost == [("q", 1)]
    assert bodies(receiver)[0] == "0"


async def test_the_asyncio_twin(cluster):
    async with connect_async(cluster.address) as connection:
        await connection.declare_queue("q")
        session = connection.session()
        sender = await session.sender("q")
        for n in range(2):
            await sender.send(str(n))
        await sender.sync(5)
        receiver = await session.receiver("q", 0)
        await session.modify(await receiver.fetch(5), failed=True, undeliverable_here=True, annotations={"a": 1})
        await session.sync(5)
        assert (await receiver.fetch(5)).body == b"1"
        again = await (await session.receiver("q", 0)).fetch(5)
        assert (again.body, again.delivery_count, again.annotations) == (b"0", 1, {"a": 1})
        with pytest.raises(Invalid, match="at most 8,192 bytes"):
            await session.modify(again, annotations={"a": "x" * ANNOTATIONS_BYTES})
