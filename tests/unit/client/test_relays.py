"""Exchanges that number what goes through them, or keep the last for queues that are bound later, as users see them."""

from __future__ import annotations

import pytest
from mantamq.client import Exists, Invalid, Message, NotAllowed, NotFound, connect, connect_async

pytestmark = pytest.mark.timeout(30)
NUMBER = "qpid.msg_sequence"


def got(connection, queue, count):
    """That many messages of a queue: their bodies and numbers."""
    session = connection.session()
    receiver = session.receiver(queue, capacity=100)
    found = []
    for _ in range(count):
        message = receiver.fetch(10)
        session.acknowledge(message)
        found.append((message.body.decode(), (message.properties or {}).get(NUMBER)))
    session.sync(10)
    session.close()
    return found


def send(connection, exchange, *subjects, **options):
    sender = connection.session().sender(exchange)
    for subject in subjects:
        sender.send(Message(f"to {subject}", subject=subject, **options))
    sender.sync(10)


def test_each_message_has_its_number_in_the_exchange(connection):
    connection.declare_exchange("prices", "topic", sequence=True)
    for queue, key in (("all", "#"), ("metals", "metal.*")):
        connection.declare_queue(queue)
        connection.bind("prices", queue, key=key)
    send(connection, "prices", "metal.tin", "oil", "metal.zinc", "gas", "metal.tin")
    assert got(connection, "all", 5) == [
        ("to metal.tin", 1), ("to oil", 2), ("to metal.zinc", 3), ("to gas", 4), ("to metal.tin", 5)
    ]  # fmt: skip
    assert got(connection, "metals", 3) == [("to metal.tin", 1), ("to metal.zinc", 3), ("to metal.tin", 5)]


def test_what_is_sent_at_several_brokers_has_one_order(connection, cluster):
    connection.declare_exchange("prices", "fanout", sequence=True)
    for queue in ("a", "b"):
        connection.declare_queue(queue)
        connection.bind("prices", queue)
    with connect(cluster.addresses["b2"]) as other:
        for _ in range(20):
            send(connection, "prices", "here")
            send(other, "prices", "there")
    found = got(connection, "a", 40)
    assert [number for _, number in found] == list(range(1, 41))
    assert got(connection, "b", 40) == found


def test_a_queue_that_comes_late_has_the_last_message_first(connection):
    connection.declare_exchange("prices", "topic", initial=True)
    connection.declare_queue("early")
    connection.bind("prices", "early", key="#")
    send(connection, "prices", "tin", "oil")
    for queue, key in (("late", "#"), ("other", "tin")):
        connection.declare_queue(queue)
        connection.bind("prices", queue, key=key)
    send(connection, "prices", "tin")
    assert got(connection, "late", 2) == [("to oil", None), ("to tin", None)]
    assert got(connection, "other", 1) == [("to tin", None)]  # the last was none of its own
    assert got(connection, "early", 3) == [("to tin", None), ("to oil", None), ("to tin", None)]
    assert not connection.bind("prices", "late", key="#")
    connection.unbind("prices", "late", key="#")
    connection.bind("prices", "late", key="#")
    send(connection, "prices", "gas")
    assert got(connection, "late", 1) == [("to gas", None)]  # it has had the one before


def test_it_carries_all_that_a_message_has(connection):
    connection.declare_exchange("prices", "headers", sequence=True, initial=True)
    connection.declare_queue("q")
    connection.bind("prices", "q", arguments={"n": 1})
    send(connection, "prices", "a", properties={"n": 1}, ttl=600, priority=7, correlation_id="c")
    send(connection, "prices", "b", properties={"n": 2})
    message = connection.session().receiver("q").fetch(10)
    assert message.properties == {"n": 1, NUMBER: 1} and message.subject == "a" and message.correlation_id == "c"
    assert (message.ttl, message.priority, message.delivery_count) == (600, 7, 0)


def test_a_message_with_several_keys_goes_once_to_each_queue(connection):
    connection.declare_exchange("prices", "direct", sequence=True)
    for queue, keys in (("one", "a"), ("both", "ab"), ("none", "c")):
        connection.declare_queue(queue)
        for key in keys:
            connection.bind("prices", queue, key=key)
    sender = connection.session().sender("prices")
    sender.send_to("x", ["a", "b"])
    sender.sync(10)
    send(connection, "prices", "c")
    assert got(connection, "one", 1) == got(connection, "both", 1) == [("x", 1)]
    assert got(connection, "none", 1) == [("to c", 2)]


def test_exchanges_lead_to_it_and_it_leads_on(connection):
    connection.declare_exchange("first", "fanout", sequence=True)
    connection.declare_exchange("second", "fanout")
    connection.declare_queue("q")
    connection.bind("second", "q")
    connection.bind_exchange("first", "second")
    connection.bind_exchange("amq.fanout", "first")
    send(connection, "amq.fanout", "a", "b")
    assert got(connection, "q", 2) == [("to a", 1), ("to b", 2)]
    with pytest.raises(Invalid, match="get back what it has sent on"):
        connection.bind_exchange("second", "first")
    with pytest.raises(Invalid, match="get back what it has sent on"):
        connection.bind_exchange("first", "first")


def test_a_queue_that_is_bound_behind_another_exchange_has_the_last_message_too(connection):
    connection.declare_exchange("prices", "fanout", initial=True)
    connection.declare_exchange("second", "fanout")
    connection.bind_exchange("prices", "second")
    send(connection, "prices", "a", "b")
    connection.declare_queue("q")
    connection.bind("second", "q")
    assert got(connection, "q", 1) == [("to b", None)]


def test_a_declaration_that_is_refused_leaves_nothing_behind(connection):
    connection.declare_exchange("there")
    with pytest.raises(Exists):
        connection.declare_exchange("there", sequence=True)
    with pytest.raises(Invalid, match="at most 240 characters"):
        connection.declare_exchange("x" * 250, sequence=True)
    assert connection.queues() == []


def test_nothing_is_bound_to_its_queue_and_it_has_no_conditions(connection):
    connection.declare_exchange("prices", "fanout", sequence=True)
    with pytest.raises(NotAllowed, match="bind that exchange"):
        connection.bind("prices", "manta.exchange.prices")
    with pytest.raises(NotAllowed, match="goes with it"):
        connection.delete_queue("manta.exchange.prices", if_empty=True)
    connection.declare_queue("q")
    connection.bind("prices", "q")
    send(connection, "prices", "a")
    assert got(connection, "q", 1) == [("to a", 1)]


def test_what_is_no_message_of_ours_keeps_its_key(connection):
    connection.declare_exchange("prices", "direct", sequence=True)
    connection.declare_queue("q")
    connection.bind("prices", "q", key="k")
    deep = current = []
    for _ in range(900):
        current.append([])
        current = current[0]
    send(connection, "prices", "k", properties={"deep": deep})
    message = connection.session().receiver("q").fetch(10)
    assert message.properties is not None and NUMBER in message.properties


def test_what_is_rejected_can_go_through_it(connection):
    connection.declare_exchange("rejects", "direct", sequence=True)
    connection.declare_queue("q", alternate="rejects")
    connection.declare_queue("dead")
    connection.bind("rejects", "dead", key="q")
    send(connection, "", "q", "q")
    session = connection.session()
    receiver = session.receiver("q")
    for _ in range(2):
        session.reject(receiver.fetch(10))
    session.sync(10)
    assert got(connection, "dead", 2) == [("to q", 1), ("to q", 2)]


def test_its_queue_is_its_own(connection):
    connection.declare_exchange("prices", sequence=True)
    assert not connection.declare_exchange("prices", sequence=True)
    assert connection.queue("manta.exchange.prices")["kind"] == "relay"
    with pytest.raises(NotAllowed, match="exchange 'prices'"):
        connection.delete_queue("manta.exchange.prices")
    with pytest.raises(Invalid, match="exchanges have for themselves"):
        connection.declare_queue("mine", arguments={"manta.exchange": "prices"})
    with pytest.raises(NotAllowed, match="without mandatory"):
        connection.session().sender("prices", mandatory=True)
    connection.delete_exchange("prices")
    with pytest.raises(NotFound):
        connection.queue("manta.exchange.prices")
    with pytest.raises(NotAllowed, match="exchanges' own"):
        connection.declare_queue("manta.exchange.prices")


def test_it_does_not_go_by_itself(connection):
    with pytest.raises(Invalid, match="and stays"):
        connection.declare_exchange("prices", sequence=True, auto_delete=True)


async def test_the_other_twin_has_them_too(cluster):
    async with await connect_async(cluster.address) as connection:
        await connection.declare_exchange("prices", "fanout", initial=True)
        await connection.declare_queue("q")
        session = connection.session()
        sender = await session.sender("prices")
        await sender.send(b"last")
        await session.sync(10)
        await connection.bind("prices", "q")
        receiver = await session.receiver("q")
        assert (await receiver.fetch(10)).body == b"last"
