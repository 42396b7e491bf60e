"""A message that is sent by several keys: each queue gets it once, through both clients."""

from __future__ import annotations

import msgspec
import pytest
from fake_broker import wait_until
from mantamq.client import Empty, Invalid, Message, NotAllowed, Unroutable, connect, connect_async
from mantamq.protocol.broker import connections
from mantamq.protocol.broker.session import Session
from mantamq.protocol.errors import PeerError
from mantamq.protocol.limits import DEFAULT, ROUTING_KEYS
from mantamq.protocol.wire.client_frames import Completed, Opened, Transfer
from mantamq.protocol.wiring.wiring import Wiring
from msgspec.structs import replace

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def session(connection):
    """Queue a is bound by x and y, b by y, c to the alternate."""
    connection.declare_exchange("rest", type="fanout")
    connection.declare_exchange("news", alternate="rest")
    for queue in "abc":
        connection.declare_queue(queue)
    for queue, key in (("a", "x"), ("a", "y"), ("b", "y")):
        connection.bind("news", queue, key)
    connection.bind("rest", "c")
    return connection.session()


def bodies(session, queue):
    receiver = session.receiver(queue, 0)
    found = []
    while True:
        try:
            found.append(receiver.get().body.decode())
        except Empty:
            session.acknowledge()
            return found


def test_each_queue_gets_it_once_and_the_alternate_only_what_nobody_gets(session):
    sender = session.sender("news")
    sender.send_to(Message("1", subject="nobody"), ["x", "y", "x"])
    sender.send(Message("2", subject="x"))
    sender.send_to("3", ("y", "nobody"))
    sender.send_to(b"4", ["nobody", "none"])
    sender.send_to("5", "x")
    sender.sync(5)
    assert [bodies(session, queue) for queue in "abc"] == [["1", "2", "3", "5"], ["1", "3"], ["4"]]
    assert sender.unroutable == 0


def test_a_message_that_none_of_them_leads_anywhere(session):
    session.connection.declare_exchange("lonely")
    sender = session.sender("lonely", mandatory=True)
    sender.send_to("1", ["a", "b"])
    with pytest.raises(Unroutable):
        sender.sync(5)
    free = session.sender("lonely")
    free.send_to("1", ["a", "b"])
    free.sync(5)
    assert free.unroutable == 1


def test_wrong_keys_harm_nothing(session):
    sender = session.sender("news")
    for keys in ([], [1], ["x", None], [f"k{n}" for n in range(ROUTING_KEYS + 1)]):
        with pytest.raises(Invalid, match="by 1 to 64 keys"):
            sender.send_to("1", keys)
    with pytest.raises(Invalid):
        sender.send_to(Message(b"", subject=7), ["x"])
    with pytest.raises(Invalid, match="is fixed"):
        session.sender("a").send_to("1", ["x"])
    sender.send(Message("2", subject="x"))
    sender.sync(5)
    assert bodies(session, "a") == ["2"], "and not by the keys of one that was refused"


def test_what_is_not_complete_is_sent_again_by_its_keys(cluster, connection, session):
    sender = session.sender("news", capacity=100)
    cluster.hold(Completed)
    for n in range(50):
        sender.send_to(str(n), ["x", "y"] if n % 2 else ["y"])
    sender._core.flush()
    wait_until(lambda: cluster.said(Transfer))
    cluster.kick()
    wait_until(lambda: connection.reconnects == 1)
    cluster.let_go()
    sender.sync(10)
    every = [str(n) for n in range(50)]
    assert bodies(session, "a") == every == bodies(session, "b")


def test_a_broker_that_routes_by_one_key_is_refused(cluster, session, monkeypatch):
    monkeypatch.setattr(connections, "Opened", lambda *fields: replace(Opened(*fields), minor=7))
    with connect(cluster.address) as old, pytest.raises(NotAllowed, match=r"1\.7.*one key.*1\.8"):
        old.session().sender("news").send_to("1", ["x"])


def test_a_headers_exchange_takes_them_too(connection, session):
    connection.bind("amq.match", "a", "k", {"n": 1})
    sender = session.sender("amq.match")
    sender.send_to(Message("1", properties={"n": 1}), ["x", "y"])
    sender.send_to(Message("2", properties={"n": 2}), ["x"])
    sender.sync(5)
    assert (bodies(session, "a"), sender.unroutable) == (["1"], 1)


@pytest.mark.parametrize(
    "several", [[(1, ["x"])], [(-1, ["x"])], [(0, [])], [(0, ["x"] * (ROUTING_KEYS + 1))], [(0, ["x"] * 64)] * 200]
)
def test_a_broker_takes_no_absurd_ones(several):
    session = Session("c1", DEFAULT)
    session.client = "c"
    session.add_sender(1, "news", None)
    session.add_sender(2, "news", "x")
    with pytest.raises(PeerError, match="several keys need"):
        session.transfer(Transfer(1, 1, [b""], [""], several=several))
    with pytest.raises(PeerError, match="this sender's key is"):
        session.transfer(Transfer(2, 1, [b""], several=several))


def test_an_older_frame_has_none():
    assert msgspec.msgpack.decode(msgspec.msgpack.encode([1, 1, [b""], [""], [], None]), type=Transfer).several == []
    assert Wiring().route_by_any("", ["a", "b"]) == ()


async def test_the_asyncio_twin(cluster, session):
    async with connect_async(cluster.address) as connection:
        mine = connection.session()
        sender = await mine.sender("news")
        await sender.send_to("1", ["x", "y"])
        await sender.sync(5)
        with pytest.raises(Invalid):
            await sender.send_to("1", [])
    wait_until(lambda: bodies(session, "b") == ["1"])
    assert bodies(session, "a") == ["1"]
