"""A ring as its users see it: the oldest goes, and who holds it hears that his accept is lost."""

from __future__ import annotations

import pytest
from fake_broker import wait_until
from mantamq.client import Exists, Invalid, Message, connect_async
from mantamq.protocol.wire.message import decode

pytestmark = pytest.mark.timeout(20)


def bodies(cluster, queue):
    """What each replica has."""
    cluster.pass_time(1000)
    states = cluster.call(lambda: cluster.cluster.queue_states(queue))
    return [[decode(state.blobs[p], Message).body for p in sorted(state.blobs)] for state in states]


def test_the_oldest_goes_on_every_replica_and_a_late_accept_is_lost(cluster, connection):
    assert connection.declare_queue("ticks", max_count=3, overflow="ring")
    session = connection.session()
    sender, receiver = session.sender("ticks"), session.receiver("ticks", capacity=2)
    for number in range(3):
        sender.send(f"{number}")
    sender.sync(5)
    held = [receiver.fetch(5), receiver.fetch(5)]
    for number in range(3, 5):
        sender.send(f"{number}")
    sender.sync(5)
    assert bodies(cluster, "ticks") == [[b"2", b"3", b"4"]] * 2
    assert connection.queue("ticks")["messages"] == 3
    session.acknowledge(held[0])
    session.acknowledge(held[1])
    session.sync(5)
    assert session.lost == [("ticks", 1), ("ticks", 2)]


def test_what_was_overwritten_before_anybody_saw_it_is_no_settlement_that_is_lost(cluster, connection):
    connection.declare_queue("ticks", max_count=3, overflow="ring")
    session = connection.session()
    sender, receiver = session.sender("ticks"), session.receiver("ticks", capacity=3)
    for number in range(3):
        sender.send(f"{number}")
    sender.sync(5)
    wait_until(lambda: receiver.available == 3)
    for number in range(3, 5):
        sender.send(f"{number}")
    sender.sync(5)
    receiver.stop()
    session.sync(5)
    assert session.lost == [] and connection.queue("ticks")["acquired"] == 0
    assert bodies(cluster, "ticks") == [[b"2", b"3", b"4"]] * 2


def test_the_same_in_words_of_others_is_the_same_queue(connection):
    assert connection.declare_queue("ticks", max_count=3, overflow="ring")
    assert not connection.declare_queue("ticks", arguments={"x-max-length": "3"})
    assert not connection.declare_queue("ticks", arguments={"x-max-length": 3, "x-overflow": "drop-head"})
    with pytest.raises(Exists, match=r"'qpid.max_count': 3"):
        connection.declare_queue("ticks", max_count=4, overflow="ring")
    with pytest.raises(Exists):
        connection.declare_queue("ticks")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"max_count": 0, "overflow": "ring"}, "at least 1"),
        ({"max_count": 2, "overflow": "square"}, "give reject"),
        ({"overflow": "ring"}, "needs a limit: give max_count or max_size"),
        ({"max_count": 2, "overflow": "ring", "arguments": {"qpid.max_count": 3}}, "are the same: give one"),
        ({"max_count": 2, "arguments": {"x-max-length": 3}}, "means the same: give one"),
        ({"arguments": {"qpid.max_cuont": 3}}, "did you mean 'qpid.max_count'"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_there(connection, given, text):
    with pytest.raises(Invalid, match=text):
        connection.declare_queue("ticks", **given)
    assert connection.queues() == []


async def test_the_asynchronous_twin_takes_the_same(cluster):
    async with connect_async(cluster.address) as connection:
        assert await connection.declare_queue("ticks", max_size=1000, overflow="ring")
        assert not await connection.declare_queue("ticks", arguments={"x-max-length-bytes": 1000})
