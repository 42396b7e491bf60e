"""What a queue has counted, as its users ask for it at any broker."""

from __future__ import annotations

import pytest
from fake_broker import wait_until
from mantamq.client import connect, connect_async

pytestmark = pytest.mark.timeout(20)
COUNTED = (
    "enqueued", "dequeued", "accepted", "discarded", "acquires", "releases", "bytes_in", "bytes_out", "discarded_ring",
    "discarded_last_value", "discarded_purge", "discarded_subscriber",
)  # fmt: skip


def used(connection):
    """A ring of five that seven came to: three were fetched, and accepted, rejected and released; one was purged."""
    connection.declare_queue("q", max_count=5, overflow="ring")
    session = connection.session()
    sender = session.sender("q")
    for number in range(7):
        sender.send(b"x%d" % number)
    sender.sync(5)
    receiver = session.receiver("q", capacity=0)
    messages = [receiver.fetch(5) for _ in range(3)]
    session.acknowledge(messages[0])
    session.reject(messages[1])
    session.release(messages[2])
    session.sync(5)
    connection.purge("q", 1)


async def test_every_broker_has_counted_the_same(cluster, connection):
    used(connection)
    with connect(cluster.addresses["b2"]) as other:
        here, there = connection.queue("q"), other.queue("q")
    async with connect_async(cluster.address) as third:
        again = await third.queue("q")
    told = {name: here[name] for name in COUNTED}
    assert told == {name: there[name] for name in COUNTED} == {name: again[name] for name in COUNTED}
    size = here["bytes_in"] // 7
    assert told == {
        "enqueued": 7, "dequeued": 5, "accepted": 1, "discarded": 4, "acquires": 3, "releases": 1, "bytes_in": 7 * size,
        "bytes_out": 5 * size, "discarded_ring": 2, "discarded_last_value": 0, "discarded_purge": 1,
        "discarded_subscriber": 1,
    }  # fmt: skip
    assert here["bytes"] == 2 * size


def test_the_oldest_message_has_an_age(cluster, connection):
    connection.declare_queue("q")
    assert connection.queue("q")["age_ms"] == 0
    sender = connection.session().sender("q")
    sender.send(b"x")
    sender.sync(5)
    cluster.pass_time(5000)
    assert wait_until(lambda: connection.queue("q")["age_ms"]) >= 4000
    sender.send(b"y")
    sender.sync(5)
    connection.purge("q", 1)
    assert connection.queue("q")["age_ms"] < 4000
