"""`window="unaccepted"`: the capacity bounds what is delivered and not settled, whatever becomes of messages and brokers."""

from __future__ import annotations

import pytest
from fake_broker import FakeBroker, wait_until
from mantamq.client import Empty, Invalid, connect, connect_async
from mantamq.client.books.receiver import ReceiverCore
from mantamq.protocol.wire.client_frames import Delivery, Dispose, Flow
from mantamq.protocol.wire.queue_frames import ACCEPT, RELEASE

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def cluster():
    with FakeBroker(2) as cluster:
        yield cluster


@pytest.fixture
def connection(cluster):
    with connect(cluster.address, reconnect_s=10, heartbeat_ms=200) as connection:
        connection.declare_queue("q")
        sender = connection.session().sender("q")
        for number in range(40):
            sender.send(str(number))
        sender.sync(5)
        yield connection


def acquired(connection):
    return connection.queue("q")["acquired"]


def most_at_the_broker(cluster):
    """By what was said to the brokers: the most that all credit could ever have brought beside what was not settled."""
    granted = settled = most = 0
    for frame in cluster.call(lambda: list(cluster.received)):
        if isinstance(frame, Flow):
            granted += frame.messages
            most = max(most, granted - settled)
        elif isinstance(frame, Dispose):
            settled += sum(frame.runs[i + 2] - frame.runs[i + 1] + 1 for i in range(0, len(frame.runs), 3))
    return most


def test_what_is_fetched_and_not_settled_counts(cluster, connection):
    session = connection.session()
    receiver = session.receiver("q", capacity=8, window="unaccepted")
    held = [receiver.fetch(5) for _ in range(8)]
    with pytest.raises(Empty, match=r"no message came.*window is full: 8 messages of queue 'q'"):
        receiver.fetch(0.05)
    with pytest.raises(Empty, match="window is full"):
        receiver.get()
    assert acquired(connection) == 8 and receiver.available == 0
    session.acknowledge(held.pop(3))
    assert receiver.fetch(5).body == b"8"  # one that is settled makes room for one
    session.reject(held.pop())
    assert receiver.fetch(5).body == b"9"
    assert most_at_the_broker(cluster) == 8


def test_the_default_counts_what_is_not_fetched(connection):
    receiver = connection.session().receiver("q", capacity=8)
    assert len([receiver.fetch(5) for _ in range(40)]) == 40


@pytest.mark.parametrize("capacity", [1, 2, 3, 8])
@pytest.mark.parametrize("settle", ["acknowledge", "reject"])
def test_all_comes_in_order_whatever_is_held(cluster, connection, capacity, settle):
    session = connection.session()
    receiver = session.receiver("q", capacity=capacity, window="unaccepted")
    held, got = [], []
    while len(got) < 40:
        if len(held) == capacity:
            getattr(session, settle)(held.pop(0))
        message = receiver.get() if len(got) % 3 == 0 else receiver.fetch(5)
        held.append(message)
        got.append(int(message.body))
    assert got == list(range(40))
    assert most_at_the_broker(cluster) <= capacity


def test_a_released_message_makes_room_and_comes_again(cluster, connection):
    session = connection.session()
    receiver = session.receiver("q", capacity=2, window="unaccepted")
    first, second = receiver.fetch(5), receiver.fetch(5)
    session.release(first)
    again = receiver.fetch(5)
    assert (again.body, again.delivery_count, second.body) == (b"0", 1, b"1")
    session.acknowledge()
    assert [receiver.fetch(5).body, receiver.fetch(5).body] == [b"2", b"3"]
    assert most_at_the_broker(cluster) == 2


def test_asking_for_a_batch_ends_at_the_window(cluster, connection):
    session = connection.session()
    receiver = session.receiver("q", capacity=6, window="unaccepted")
    assert len(receiver.get_batch(50)) == 6 and receiver.get_batch(5) == []
    session.acknowledge()
    assert [m.body for m in receiver.get_batch(50)] == [b"%d" % n for n in range(6, 12)]


def test_a_lost_broker_gives_the_window_back(cluster, connection):
    session = connection.session()
    receiver = session.receiver("q", capacity=5, window="unaccepted")
    old = [receiver.fetch(5) for _ in range(5)]
    cluster.shut("b1")
    wait_until(lambda: connection.reconnects == 1)
    new = [receiver.fetch(5) for _ in range(5)]
    assert [m.body for m in new] == [m.body for m in old]
    session.acknowledge(old[0])  # it is another message by now, and makes no room
    with pytest.raises(Empty, match="full"):
        receiver.fetch(0.05)
    for message in new:
        session.acknowledge(message)
    assert [receiver.fetch(5).body for _ in range(5)] == [b"5", b"6", b"7", b"8", b"9"]
    with pytest.raises(Empty, match="full"):
        receiver.get()
    assert [position for _, position in session.lost] == [old[0].position]


def test_what_was_held_at_a_lost_broker_and_went_to_others_keeps_no_room():
    said = []
    core = ReceiverCore(1, "q", 4, True, said.append, window="unaccepted")
    core.open()
    core.delivered(Delivery(1, 1, [1, 4], [b"x"] * 4))
    old = [core.fetch() for _ in range(4)]
    assert all(old) and core.full
    core.interrupted("b1")
    core.resume()
    assert said == [Flow(1, 4), Flow(1, 4)]
    core.delivered(Delivery(1, 1, [9, 12], [b"y"] * 4))
    new = [message for _ in range(4) if (message := core.fetch())]
    core.settle(ACCEPT, old[0])
    core.settle(RELEASE, old[1])
    assert core.full and said == [Flow(1, 4), Flow(1, 4)]
    core.settle(ACCEPT, new[0])
    assert said[2:] == [Dispose(1, 1, ACCEPT, [1, 9, 9]), Flow(1, 1)]


@pytest.mark.parametrize("options, text", [
    ({"mode": "browse"}, "unaccepted.*leave it away"), ({"accept": False}, "unaccepted.*leave it away"),
    ({"capacity": 0}, "unaccepted.*1 or more"),
])  # fmt: skip
def test_where_nothing_is_settled_it_is_refused(connection, options, text):
    session = connection.session()
    with pytest.raises(Invalid, match=text):
        session.receiver("q", window="unaccepted", **options)
    with pytest.raises(Invalid, match="'unfetched' or 'unaccepted', not 'x'"):
        session.receiver("q", window="x")
    assert session.receiver("q").fetch(5).body == b"0"  # nothing is left attached


async def test_the_asyncio_twin(cluster, connection):
    async with connect_async(cluster.address) as other:
        session = other.session()
        receiver = await session.receiver("q", capacity=3, window="unaccepted")
        held = [await receiver.fetch(5) for _ in range(3)]
        with pytest.raises(Empty, match="window is full"):
            await receiver.fetch(0.05)
        with pytest.raises(Empty, match="window is full"):
            await receiver.get()
        await session.acknowledge(held[0])
        assert (await receiver.fetch(5)).body == b"3"
        with pytest.raises(Invalid):
            await session.receiver("q", mode="browse", window="unaccepted")


def test_whoever_wants_more_than_a_broker_grants_gets_it_in_turns(connection):
    receiver = connection.session().receiver("q", capacity=0)
    messages = receiver.get_batch(5_000_000)
    assert [message.body for message in messages] == [str(number).encode() for number in range(40)]
    assert connection.reconnects == 0


def test_without_a_window_no_more_is_asked_for_than_a_broker_takes():
    said = []
    core = ReceiverCore(1, "q", 0, True, said.append, most=3)
    core.ask(10, now=False)
    core.drain()
    assert said == [Flow(1, 3, -1, True)]
    core.delivered(Delivery(1, 1, [1, 3], [b""] * 3))
    core.on_drained()
    while core.fetch() is not None:
        core.unask(1)
    core.drain()
    assert sum(frame.messages for frame in said) == 6 and core.credit == 3
