"""Kinds of queues as their users see them, through the client."""

from __future__ import annotations

import pytest
from mantamq.client import Empty, Exists, Invalid, Message, connect, connect_async

pytestmark = pytest.mark.timeout(20)


def fetched(session, queue, count):
    receiver = session.receiver(queue, capacity=100)
    found = [receiver.fetch(5) for _ in range(count)]
    for message in found:
        session.acknowledge(message)
    receiver.close()
    return [message.body.decode() for message in found]


@pytest.mark.parametrize("how", ["levels", "x-max-priority", "one in a fan-out", "by subject"])
def test_the_highest_priority_goes_first(connection, how):
    if how == "x-max-priority":
        connection.declare_queue("urgent", arguments={how: "9"})
    else:
        connection.declare_queue("urgent", priorities=10)
    session = connection.session()
    target = "urgent"
    if how == "one in a fan-out":
        connection.declare_queue("plain")
        for queue in ("plain", "urgent"):
            connection.bind("amq.fanout", queue)
        target = "amq.fanout/"
    elif how == "by subject":
        connection.bind("amq.topic", "urgent", "a.#")
        target = "amq.topic"
    sender = session.sender(target)
    for body, priority in (("a", 0), ("b", 9), ("c", 5), ("d", 9), ("e", 1)):
        sender.send(Message(body, subject="a.b", priority=priority))
    sender.sync(5)
    assert [message.body for message in session.browse("urgent")] == [b"a", b"b", b"c", b"d", b"e"]
    assert fetched(session, "urgent", 5) == ["b", "d", "c", "e", "a"]
    if how == "one in a fan-out":
        assert fetched(session, "plain", 5) == ["a", "b", "c", "d", "e"]


def test_lower_levels_have_their_shares(connection):
    connection.declare_queue("shared", priorities=10, fairshare=2, arguments={"qpid.fairshare-9": 1})
    session = connection.session()
    sender = session.sender("shared")
    for body, priority in (("a", 9), ("b", 9), ("c", 9), ("d", 5), ("e", 5), ("f", 5), ("g", 0)):
        sender.send(Message(body, priority=priority))
    sender.sync(5)
    one, other = session.receiver("shared", capacity=0), session.receiver("shared", capacity=0)
    assert [each.fetch(5).body.decode() for each in (one, one, other, other, one, other, one)] == [*"adegbfc"]


def test_only_the_last_value_of_each_key_waits(connection):
    connection.declare_queue("prices", last_value_key="symbol")
    session = connection.session()
    sender = session.sender("prices")
    browser = session.receiver("prices", capacity=100, mode="browse")
    for body, symbol in (("1", "x"), ("2", "y"), ("3", "x"), ("4", None), ("5", "y"), ("6", None)):
        sender.send(Message(body, properties={"symbol": symbol} if symbol else {}))
        sender.sync(5)
    assert [browser.fetch(5).body.decode() for _ in range(6)] == ["1", "2", "3", "4", "5", "6"], "each newer one once"
    assert fetched(session, "prices", 3) == ["3", "5", "6"]
    assert connection.queue("prices")["messages"] == 0


def test_a_group_is_of_one_consumer_at_a_time(cluster, connection):
    """Also where the consumers are at different brokers."""
    connection.declare_queue("orders", group_key="customer")
    with connect(cluster.addresses["b2"], reconnect_s=10, heartbeat_ms=200) as elsewhere:
        session, other = connection.session(), elsewhere.session()
        sender = session.sender("orders")
        for body, customer in (("1", "x"), ("2", "y"), ("3", "x"), ("4", "x")):
            sender.send(Message(body, properties={"customer": customer}))
        sender.sync(5)
        first = session.receiver("orders", capacity=1, window="unaccepted")
        held = first.fetch(5)
        assert held.body == b"1"
        second = other.receiver("orders", capacity=10)
        assert second.fetch(5).body == b"2"
        with pytest.raises(Empty):
            second.fetch(0.3)
        session.acknowledge(held)
        first.close()
        assert [second.fetch(5).body, second.fetch(5).body] == [b"3", b"4"]


def test_a_burst_of_one_keeps_no_other_waiting(connection):
    connection.declare_queue("jobs", fair_key="tenant")
    session = connection.session()
    sender = session.sender("jobs")
    for number in range(20):
        sender.send(Message(f"a{number}", properties={"tenant": "a"}))
    for body, tenant in (("b0", "b"), ("c0", "c"), ("b1", "b")):
        sender.send(Message(body, properties={"tenant": tenant}))
    sender.sync(5)
    assert fetched(session, "jobs", 7) == ["a0", "b0", "c0", "a1", "b1", "a2", "a3"]


def test_rejected_messages_are_of_their_kind_where_they_come_to(connection):
    connection.declare_exchange("dead", "fanout")
    connection.declare_queue("last", last_value_key="k")
    connection.bind("dead", "last")
    connection.declare_queue("work", alternate="dead")
    session = connection.session()
    sender, receiver = session.sender("work"), session.receiver("work", capacity=10)
    for body, key in (("1", "x"), ("2", "y"), ("3", "x")):
        sender.send(Message(body, properties={"k": key}))
    for _ in range(3):
        session.reject(receiver.fetch(5))
    session.sync(5)
    assert fetched(session, "last", 2) == ["2", "3"]


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"priorities": 11}, "1 to 10 levels"),
        ({"priorities": 0}, "1 to 10 levels"),
        (
            {"priorities": 5, "arguments": {"x-max-priority": 5}},
            "priorities and x-max-priority are two ways to have levels",
        ),
        ({"priorities": 5, "last_value_key": "k"}, "not two of them"),
        ({"last_value_key": ""}, "the name of a header"),
        ({"overflow": "ring"}, "give max_count or max_size, or leave overflow out"),
        ({"arguments": {"x-max-priority": 256}}, "1 to 255"),
    ],
)
def test_what_cannot_be_is_refused(connection, given, text):
    with pytest.raises(Invalid, match=text):
        connection.declare_queue("q", **given)
    assert connection.queues() == []


def test_one_kind_is_not_another(connection):
    connection.declare_queue("q", priorities=5)
    with pytest.raises(Exists):
        connection.declare_queue("q", arguments={"x-max-priority": 4})
    assert not connection.declare_queue("q", arguments={"qpid.priorities": "5"})


async def test_a_refused_argument_is_named_by_its_keyword_too(cluster, connection):
    text = r"'qpid\.max_count' \(max_count\) is 0"
    with pytest.raises(Invalid, match=text):
        connection.declare_queue("q", max_count=0)
    async with connect_async(cluster.address) as other:
        with pytest.raises(Invalid, match=text):
            await other.declare_queue("q", max_count=0)
    with pytest.raises(Invalid, match=r"'qpid\.max_count' is 0"):
        connection.declare_queue("q", arguments={"qpid.max_count": 0})


def test_a_queue_stamps_its_messages_with_their_numbers(connection):
    connection.declare_queue("orders", sequence_key="seq")
    session = connection.session()
    sender = session.sender("orders")
    for body in ("1", "2", "3"):
        sender.send(Message(body, properties={"own": body}))
    sender.sync(5)
    receiver = session.receiver("orders", capacity=10)
    found = [receiver.fetch(5) for _ in range(3)]
    assert [message.properties for message in found] == [{"own": str(n), "seq": n} for n in (1, 2, 3)]
    session.release(found[1])
    again = receiver.fetch(5)
    assert again.redelivered and again.properties["seq"] == 2
    with pytest.raises(Exists):
        connection.declare_queue("orders")
