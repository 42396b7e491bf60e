"""Queues that go when nobody has used them for long, as their users see them, through both clients."""

from __future__ import annotations

import pytest
from fake_broker import FakeBroker, wait_until
from mantamq.client import Deleted, Exists, Invalid, NotFound, Unavailable, connect, connect_async

pytestmark = pytest.mark.timeout(20)


def is_there(connection, name="q"):
    try:
        return not connection.declare_queue(name, passive=True)
    except NotFound:
        return False


def pass_time(cluster: FakeBroker, seconds: float) -> None:
    """The cluster's clock stands still but for this."""
    cluster.call(lambda: (cluster.cluster.pass_time(int(seconds * 1000)), cluster.pump()))


def test_it_goes_with_what_is_in_it_when_nobody_has_used_it_for_so_long(cluster, connection):
    assert connection.declare_queue("q", expires_s=2)
    session = connection.session()
    sender, browser = session.sender("q"), session.receiver("q", mode="browse")
    sender.send("1")
    sender.sync(5)
    pass_time(cluster, 1.5)
    assert is_there(connection), "and to ask is no use"
    pass_time(cluster, 1)
    assert not is_there(connection)
    assert browser.fetch(5).body == b"1"
    with pytest.raises(Deleted, match="nobody had used it"):
        browser.fetch(5)


def test_a_consumer_or_a_declaration_keeps_it(cluster, connection):
    connection.declare_queue("q", expires_s=2)
    for _ in range(3):
        pass_time(cluster, 1.5)
        assert not connection.declare_queue("q", expires_s=2)
    with connect(cluster.addresses["b2"]) as other:
        receiver = other.session().receiver("q")
        pass_time(cluster, 30)
        assert is_there(connection), "at whatever broker it is"
        receiver.close()
    pass_time(cluster, 1)
    assert is_there(connection)
    pass_time(cluster, 2)
    assert not is_there(connection)
    assert connection.declare_queue("q"), "the name is free"


def test_a_client_that_moves_to_another_broker_in_time_finds_it(cluster, connection):
    connection.declare_queue("q", expires_s=20)
    session = connection.session()
    session.receiver("q")
    cluster.shut("b1")
    wait_until(lambda: connection.reconnects == 1)
    pass_time(cluster, 60)
    assert is_there(connection)


def test_arguments(connection, cluster):
    assert connection.declare_queue("a", expires_s=1800)
    assert connection.queue("a")["definition"] == {"expires_s": 1800}
    assert not connection.declare_queue("a", arguments={"x-expires": "1800000"})
    with pytest.raises(Exists):
        connection.declare_queue("a")
    with pytest.raises(Invalid, match=r"'x-expires' \(expires_s\) is 0: give a number of milliseconds, 1 to"):
        connection.declare_queue("c", expires_s=0)
    with pytest.raises(Invalid, match="expires_s=-1: give a number of seconds"):
        connection.declare_queue("c", expires_s=-1)
    cluster.cluster.machines["b1"].cluster.versions.least = 11
    with pytest.raises(Unavailable, match="upgrade all members"):
        connection.declare_queue("c", expires_s=1)


async def test_the_asyncio_twin(cluster):
    async with connect_async(cluster.address) as connection:
        assert await connection.declare_queue("q", expires_s=0.5)
        pass_time(cluster, 1)
        with pytest.raises(NotFound):
            await connection.declare_queue("q", passive=True)
