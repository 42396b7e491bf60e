"""Queues that a connection has for itself, as their users see them, through both clients."""

from __future__ import annotations

import pytest
from fake_broker import FakeBroker, wait_until
from mantamq.client import InUse, Invalid, NotFound, Unavailable, connect, connect_async

pytestmark = pytest.mark.timeout(20)


def pass_time(cluster: FakeBroker, seconds: float) -> None:
    """The cluster's clock stands still but for this."""
    cluster.call(lambda: (cluster.cluster.pass_time(int(seconds * 1000)), cluster.pump()))


def there(cluster: FakeBroker) -> list[str]:
    return cluster.call(lambda: [queue.name for queue in cluster.cluster.machines["b2"].wiring.queues()])


def test_others_send_to_it_and_do_nothing_else_with_it(cluster, connection):
    assert connection.declare_queue("q", exclusive=True)
    assert connection.declare_queue("q", exclusive=True) is False, "by its own connection"
    with connect(cluster.addresses["b2"]) as other:
        session = other.session()
        for refused in (
            lambda: other.declare_queue("q"), lambda: other.declare_queue("q", passive=True),
            lambda: other.purge("q"), lambda: other.delete_queue("q"), lambda: other.bind("amq.fanout", "q"),
            lambda: other.unbind("amq.fanout", "q"), lambda: session.receiver("q"), lambda: list(session.browse("q")),
        ):  # fmt: skip
            with pytest.raises(InUse, match="exclusive to another connection"):
                refused()
        session.sender("q").send("1")
        session.sync(5)
    assert connection.session().receiver("q").fetch(5).body == b"1"


def test_it_goes_at_once_when_its_connection_is_closed(cluster):
    with connect(cluster.address) as connection:
        name = connection.declare_queue("", exclusive=True)
        pass_time(cluster, 60)
        assert there(cluster) == [name]
    wait_until(lambda: not cluster.call(lambda: cluster.cluster.machines["b1"].sessions))
    pass_time(cluster, 1)
    assert there(cluster) == []


def test_it_waits_for_a_connection_that_is_lost(cluster):
    connection = connect(cluster.address, reconnect_s=0)
    connection.declare_queue("q", exclusive=True, auto_delete_timeout_s=3)
    cluster.kick()
    wait_until(lambda: not cluster.call(lambda: cluster.cluster.machines["b1"].sessions))
    pass_time(cluster, 2)
    assert there(cluster) == ["q"]
    pass_time(cluster, 2)
    assert there(cluster) == []


def test_a_client_that_moves_to_another_broker_has_it_still(cluster, connection):
    connection.declare_queue("q", exclusive=True, auto_delete_timeout_s=3)
    session = connection.session()
    receiver, sender = session.receiver("q"), session.sender("q")
    cluster.shut("b1")
    wait_until(lambda: connection.reconnects == 1)
    pass_time(cluster, 30)
    sender.send("1")
    assert receiver.fetch(5).body == b"1"
    connection.bind("amq.fanout", "q")
    connection.delete_queue("q")
    with pytest.raises(NotFound):
        connection.purge("q")


def test_arguments(connection, cluster):
    connection.declare_queue("a", exclusive=True)
    assert connection.queue("a")["definition"] == {"exclusive": True}
    assert connection.declare_queue("b", exclusive=False) and not connection.declare_queue("b")
    with pytest.raises(Invalid, match=r"'manta.exclusive' \(exclusive\) is 'yes': give true, or leave it out"):
        connection.declare_queue("c", arguments={}, exclusive="yes")
    with pytest.raises(Invalid, match="auto_delete_timeout_s needs auto_delete or exclusive"):
        connection.declare_queue("c", auto_delete_timeout_s=5)
    cluster.cluster.machines["b1"].cluster.versions.least = 10
    with pytest.raises(Unavailable, match="upgrade all members"):
        connection.declare_queue("c", exclusive=True)


async def test_the_asyncio_twin(cluster):
    async with connect_async(cluster.address) as connection:
        assert await connection.declare_queue("q", exclusive=True)
        async with connect_async(cluster.addresses["b2"]) as other:
            with pytest.raises(InUse):
                await other.session().receiver("q")
    wait_until(lambda: not cluster.call(lambda: cluster.cluster.machines["b1"].sessions))
    pass_time(cluster, 1)
    assert there(cluster) == []
