"""Queues that go with their last consumer, as their users see them, through both clients."""

from __future__ import annotations

import pytest
from fake_broker import FakeBroker, wait_until
from mantamq.client import Deleted, Exists, Invalid, NotFound, Unavailable, connect, connect_async
from mantamq.client.books.reconnect import Reconnecting
from mantamq.protocol.queue.settings import AUTO_DELETE_TIMEOUT_S

pytestmark = pytest.mark.timeout(20)


def is_there(connection, name="q"):
    try:
        return not connection.declare_queue(name, passive=True)
    except NotFound:
        return False


def pass_time(cluster: FakeBroker, seconds: float) -> None:
    """The cluster's clock stands still but for this."""
    cluster.call(lambda: (cluster.cluster.pass_time(int(seconds * 1000)), cluster.pump()))


def test_it_goes_with_the_last_consumer_and_what_is_in_it(cluster, connection):
    assert connection.declare_queue("q", auto_delete=True, auto_delete_timeout_s=2)
    session = connection.session()
    session.sender("q").send("1")
    session.sync(5)
    receiver, browser = session.receiver("q"), session.receiver("q", mode="browse")
    assert receiver.fetch(5).body == b"1" == browser.fetch(5).body
    receiver.close()
    pass_time(cluster, 1.5)
    assert is_there(connection)
    pass_time(cluster, 1)
    assert not is_there(connection)
    with pytest.raises(Deleted, match="its last consumer had gone"):
        browser.fetch(5)


def test_one_that_goes_only_when_it_is_empty_stays_while_something_is_in_it(cluster, connection):
    assert connection.declare_queue("q", lifetime="delete-if-unused-and-empty", auto_delete_timeout_s=2)
    session = connection.session()
    sender = session.sender("q")
    sender.send("1")
    sender.send("2")
    sender.sync(5)
    receiver = session.receiver("q")
    session.acknowledge(receiver.fetch(5))
    session.sync(5)
    receiver.close()
    pass_time(cluster, 10)
    assert connection.queue("q")["messages"] == 1
    assert connection.purge("q") == 1
    wait_until(lambda: (pass_time(cluster, 0.5), not is_there(connection))[1])


def test_what_another_consumer_takes_is_gone_and_so_is_the_queue_behind_it(cluster, connection):
    connection.declare_queue("q", lifetime="delete-if-unused-and-empty", auto_delete_timeout_s=0)
    session = connection.session()
    session.sender("q").send("1")
    session.sync(5)
    session.receiver("q").close()
    pass_time(cluster, 5)
    assert is_there(connection)
    receiver = session.receiver("q")
    message = receiver.fetch(5)
    pass_time(cluster, 5)
    assert is_there(connection)
    session.acknowledge(message)
    session.sync(5)
    pass_time(cluster, 5)
    assert is_there(connection), "it is used"
    receiver.close()
    wait_until(lambda: (pass_time(cluster, 0.5), not is_there(connection))[1])


def test_one_that_was_left_empty_goes_in_time(cluster, connection):
    connection.declare_queue("q", lifetime="delete-if-unused-and-empty", auto_delete_timeout_s=2)
    connection.session().receiver("q").close()
    pass_time(cluster, 1.5)
    assert is_there(connection)
    pass_time(cluster, 1)
    assert not is_there(connection)


def test_qpids_words_for_what_others_say_as_well(connection):
    assert connection.declare_queue("q", lifetime="delete-if-unused", auto_delete_timeout_s=2)
    assert not connection.declare_queue("q", auto_delete=True, auto_delete_timeout_s=2)
    assert connection.declare_queue("mine", lifetime="delete-on-close")
    assert not connection.declare_queue("mine", exclusive=True)
    assert connection.declare_queue("stays", arguments={"qpid.lifetime-policy": "manual"})
    assert not connection.declare_queue("stays")
    assert connection.declare_queue("e", lifetime="delete-if-unused-and-empty")
    assert not connection.declare_queue("e", auto_delete=True, lifetime="delete-if-unused-and-empty")
    assert connection.queue("e")["definition"] == {"auto_delete": True, "lifetime": "delete-if-unused-and-empty"}
    with pytest.raises(Exists):
        connection.declare_queue("e", auto_delete=True)
    with pytest.raises(Invalid, match="a queue of lifetime manual has no auto_delete"):
        connection.declare_queue("m", lifetime="manual", auto_delete=True)
    with pytest.raises(Invalid, match="a queue of lifetime delete-on-close has no auto_delete"):
        connection.declare_queue("m", lifetime="delete-on-close", auto_delete=True)
    with pytest.raises(Invalid, match=r"\(lifetime\) is 'short'.*give manual, delete-on-close"):
        connection.declare_queue("m", lifetime="short")


def test_one_of_lifetime_delete_on_close_goes_with_its_connection(cluster, connection):
    with connect(cluster.address) as other:
        other.declare_queue("q", lifetime="delete-on-close", auto_delete_timeout_s=30)
        assert connection.queue("q")["name"] == "q"
    wait_until(lambda: (pass_time(cluster, 0.5), not is_there(connection))[1])


def test_a_member_that_would_delete_it_with_what_is_in_it_keeps_it_from_being_declared(cluster, connection):
    broker = cluster.cluster.machines["b1"]
    cluster.call(lambda: setattr(broker.cluster.versions, "least", 11))
    with pytest.raises(Unavailable, match="of an older version"):
        connection.declare_queue("q", lifetime="delete-if-unused-and-empty")


def test_a_client_that_moves_to_another_broker_finds_it_and_its_messages(cluster, connection):
    connection.declare_queue("q", auto_delete=True, auto_delete_timeout_s=2)
    session = connection.session()
    receiver = session.receiver("q")
    with connect(cluster.addresses["b2"]) as other:
        cluster.shut("b1")
        wait_until(lambda: connection.reconnects == 1)
        pass_time(cluster, 30)
        sender = other.session().sender("q")
        sender.send("1")
        sender.sync(5)
    assert receiver.fetch(5).body == b"1"


def test_it_waits_for_as_long_as_a_client_looks_for_another_broker_unless_it_says_otherwise(cluster, connection):
    assert Reconnecting().reconnect_s + connection.timeout <= AUTO_DELETE_TIMEOUT_S
    connection.declare_queue("q", auto_delete=True)
    connection.session().receiver("q").close()
    pass_time(cluster, AUTO_DELETE_TIMEOUT_S - 1)
    assert is_there(connection)
    pass_time(cluster, 2)
    assert not is_there(connection)


def test_arguments(connection, cluster):
    assert connection.declare_queue("a", auto_delete=True, auto_delete_timeout_s=5)
    assert connection.queue("a")["definition"] == {"auto_delete": True, "auto_delete_timeout_s": 5}
    same = {"manta.auto_delete": "true", "qpid.auto_delete_timeout": "5"}
    assert not connection.declare_queue("a", arguments=same)
    for other in ({}, {"auto_delete": True}, {"auto_delete": True, "auto_delete_timeout_s": 6}):
        with pytest.raises(Exists):
            connection.declare_queue("a", **other)
    assert connection.declare_queue("b", auto_delete=False) and not connection.declare_queue("b")
    with pytest.raises(Invalid, match=r"'manta.auto_delete' \(auto_delete\) is 1: give true, or leave it out"):
        connection.declare_queue("c", auto_delete=1)
    for bad in (-1, 1.5, "soon", 10**9 + 1):
        with pytest.raises(Invalid, match="give a number of seconds"):
            connection.declare_queue("c", auto_delete=True, auto_delete_timeout_s=bad)
    with pytest.raises(Invalid, match="auto_delete_timeout_s needs auto_delete"):
        connection.declare_queue("c", auto_delete_timeout_s=5)
    cluster.cluster.machines["b1"].cluster.versions.least = 10
    with pytest.raises(Unavailable, match="upgrade all members"):
        connection.declare_queue("c", auto_delete=True)


async def test_the_asyncio_twin(cluster):
    async with connect_async(cluster.address) as connection:
        assert await connection.declare_queue("q", auto_delete=True, auto_delete_timeout_s=0)
        session = connection.session()
        receiver = await session.receiver("q")
        await receiver.close()
        pass_time(cluster, 0.5)
        with pytest.raises(NotFound):
            await connection.declare_queue("q", passive=True)
