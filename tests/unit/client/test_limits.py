"""Limits and producer flow control as users see them, with a cluster in memory."""

from __future__ import annotations

import pytest
from fake_broker import passing_time, wait_until
from mantamq.client import Deleted, ResourceLimitExceeded, Timeout, Unavailable, connect, connect_async
from mantamq.protocol.wire.client_frames import Failed

pytestmark = pytest.mark.timeout(30)


@pytest.fixture(autouse=True)
def time_passes(cluster):
    with passing_time(cluster):
        yield


def refused(sender, session):
    """The numbers that the queues have refused, as the user hears."""
    numbers = []
    while True:
        try:
            session.sync(5)
            return numbers
        except ResourceLimitExceeded as error:
            numbers += error.numbers


def test_at_its_limit_a_queue_refuses_and_all_else_goes_on(connection):
    connection.declare_queue("orders", max_count=3, flow_stop_count=0)
    session = connection.session()
    sender = session.sender("orders")
    for number in range(5):
        sender.send(f"{number}")
    with pytest.raises(ResourceLimitExceeded, match="'orders' has refused it: the queue takes at most 3 messages"):
        sender.sync(5)
    receiver = session.receiver("orders")
    assert [receiver.fetch(5).body for _ in range(3)] == [b"0", b"1", b"2"]
    session.acknowledge()
    session.sync(5)
    sender.send("5")
    sender.sync(5)
    assert receiver.fetch(5).body == b"5"
    status = connection.queue("orders")
    assert (status["refused"], status["discarded"], status["enqueued"]) == (2, 2, 6)


def test_of_a_fanout_the_other_queues_get_it(connection):
    connection.declare_queue("small", max_count=1)
    connection.declare_queue("large")
    for queue in ("small", "large"):
        connection.bind("amq.fanout", queue)
    session = connection.session()
    sender = session.sender("amq.fanout")
    for number in range(4):
        sender.send(f"{number}")
    assert refused(sender, session) == [2, 4]
    assert (connection.queue("small")["messages"], connection.queue("large")["messages"]) == (1, 4)


def test_a_message_larger_than_the_limit_is_refused_by_a_ring_too(connection):
    connection.declare_queue("ticks", max_size=200, overflow="ring")
    session = connection.session()
    sender = session.sender("ticks")
    sender.send("small")
    sender.send("x" * 200)
    with pytest.raises(ResourceLimitExceeded, match="at most 200 bytes, of which each message counts for 64 more"):
        sender.sync(5)
    assert connection.queue("ticks")["messages"] == 1


def test_a_send_that_is_repeated_at_another_broker_hears_the_same(cluster):
    with connect(cluster.address, reconnect_s=10, heartbeat_ms=200) as connection:
        connection.declare_queue("orders", max_count=1, flow_stop_count=0)
        session = connection.session()
        sender = session.sender("orders")
        sender.send("0")
        sender.sync(5)
        cluster.hold(Failed)
        sender.send("1")
        wait_until(lambda: connection.queue("orders")["refused"] == 1)
        cluster.shut("b1")
        cluster.let_go()
        assert refused(sender, session) == [2, 2] and connection.broker == "b2"
        status = connection.queue("orders")
        assert (status["messages"], status["refused"]) == (1, 1)


def test_a_producer_is_held_back_sees_it_and_goes_on(cluster, connection):
    connection.declare_queue("orders", flow_stop_count=5, flow_resume_count=3)
    session = connection.session()
    sender = session.sender("orders", capacity=4)
    for number in range(9):  # 5, and its capacity
        sender.send(f"{number}", timeout=5)
    wait_until(lambda: sender.blocked)
    assert sender.blocked == "producer flow control: 'orders' waits for its consumers"
    with pytest.raises(Exception, match="producer flow control: 'orders' waits for its consumers: 4 messages are sent"):
        sender.send("more", timeout=0.05)
    with pytest.raises(Timeout, match=r"4 messages to 'orders' are not complete in time \(producer flow control: 'or"):
        sender.sync(0.05)
    status = connection.queue("orders")
    assert (status["messages"], status["flowStopped"], status["flowStoppedCount"]) == (9, True, 1)
    receiver = session.receiver("orders", capacity=1)
    for _ in range(7):
        receiver.fetch(5)
        session.acknowledge()
    sender.sync(5)
    wait_until(lambda: not sender.blocked)
    assert connection.queue("orders")["flowStopped"] is False


def test_who_waits_too_long_is_told_why(cluster):
    with connect(cluster.address, send_timeout_s=0.3) as connection:
        connection.declare_queue("orders", flow_stop_count=1)
        sender = connection.session().sender("orders")
        sender.send("0")
        sender.send("1")
        with pytest.raises(Unavailable, match="producer flow control: 'orders' waits for its consumers; or see"):
            for _ in range(3):
                sender.sync()


def test_a_queue_that_is_deleted_lets_its_producers_go(connection):
    connection.declare_queue("orders", flow_stop_count=1)
    connection.bind("amq.fanout", "orders")
    session = connection.session()
    sender = session.sender("amq.fanout")
    for number in range(3):
        sender.send(f"{number}")
    wait_until(lambda: sender.blocked)
    connection.delete_queue("orders")
    sender.sync(5)
    assert sender.blocked == "", "nothing is under way"


async def test_the_asynchronous_twin_sees_the_same(cluster):
    async with connect_async(cluster.address) as connection:
        await connection.declare_queue("orders", max_count=2, flow_stop_count=1)
        sender = await connection.session().sender("orders")
        for number in range(2):
            await sender.send(f"{number}")
        while not sender.blocked:
            await connection.queue("orders")
        await connection.purge("orders")
        await sender.sync()
        assert sender.blocked == ""


def test_a_queue_that_destroys_itself_is_gone_with_all_that_was_in_it_and_its_name_is_free(connection):
    connection.declare_queue("orders", max_count=2, overflow="self-destruct")
    connection.bind("amq.fanout", "orders")
    session = connection.session()
    receiver = session.receiver("orders", capacity=1)
    sender = session.sender("orders")
    for number in range(2):
        sender.send(f"{number}")
    sender.sync(5)
    assert receiver.fetch(5).body == b"0", "held"
    with pytest.raises((ResourceLimitExceeded, Deleted), match="destroys itself with all that was in it"):
        sender.send("2")
        sender.sync(5)
    wait_until(lambda: not [one for one in connection.queues() if one["name"] == "orders"])
    with pytest.raises(Deleted, match=r"'orders' destroys itself .*: it would have exceeded its limit"):
        receiver.fetch(5)
    assert connection.bindings() == []
    assert connection.declare_queue("orders", max_count=1)
    again = session.sender("orders")
    again.send("new")
    again.sync(5)
    assert connection.queue("orders")["messages"] == 1


async def test_the_asynchronous_twin_sees_it_too(cluster):
    async with connect_async(cluster.address) as connection:
        await connection.declare_queue("orders", max_size=200, overflow="self-destruct")
        sender = await connection.session().sender("orders")
        with pytest.raises((ResourceLimitExceeded, Deleted), match="destroys itself"):
            await sender.send(bytes(100))
            await sender.send(bytes(100))
            await sender.sync(5)


def test_who_is_held_back_as_it_sends_is_told_at_every_broker(cluster, connection):
    connection.declare_queue("orders", flow_stop_count=2, flow_resume_count=1)
    session = connection.session()
    sender = session.sender("orders", capacity=10)
    with connect(cluster.addresses["b2"]) as other:
        other.session().sender("orders")
        for number in range(6):
            sender.send(f"{number}", timeout=5)
        wait_until(lambda: sender.blocked)
        for one in (connection, other):
            rows = {row["broker"]: row for row in one.statistics("connections")["connections"]}
            held, free = rows["b1"], rows["b2"]
            assert (held["state"], held["held_back_by"], held["why"]) == ("flow", ["orders"], sender.blocked)
            assert (free["state"], free["held_back_by"], free["why"]) == ("running", [], "")
        receiver = session.receiver("orders", capacity=10)
        for _ in range(6):
            receiver.fetch(5)
        session.acknowledge()
        sender.sync(5)
        assert {row["state"] for row in other.statistics("connections")["connections"]} == {"running"}
