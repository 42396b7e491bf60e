"""Policies, as their users see them, through both clients."""

from __future__ import annotations

import time

import pytest
from mantamq.client import (
    Exists,
    Invalid,
    NotFound,
    ResourceLimitExceeded,
    Timeout,
    Unavailable,
    connect,
    connect_async,
)

pytestmark = [pytest.mark.timeout(20), pytest.mark.usefixtures("time_passes")]


def test_queues_get_what_it_says_for_as_long_as_it_is_there(cluster, connection):
    connection.declare_queue("orders.before")
    assert connection.add_policy("small", r"^orders\.", max_count=2, overflow="ring", priority=3)
    assert not connection.add_policy("small", r"^orders\.", max_count=2, overflow="ring", priority=3)
    with connect(cluster.addresses["b2"]) as other:
        assert other.declare_queue("orders.eu") and not other.declare_queue("orders.eu"), "agrees with itself"
        for name in ("orders.eu", "orders.before"):
            found = other.queue(name)
            assert (found["definition"]["max_count"], found["policy"]) == (2, "small")
            sender = other.session().sender(name)
            for _ in range(3):
                sender.send(b"")
            sender.sync(5)
            assert other.queue(name)["messages"] == 2
            with pytest.raises(Exists):
                other.declare_queue(name, max_count=3)
        other.delete_policy("small")
        for name in ("orders.eu", "orders.before"):
            found = other.queue(name)
            assert found["definition"] == {} and "policy" not in found and not other.declare_queue(name)
        assert other.declare_queue("orders.us") and "policy" not in other.queue("orders.us")
        with pytest.raises(NotFound, match="there is no policy 'small'"):
            other.delete_policy("small")


def test_what_is_in_a_queue_follows_too(cluster, connection):
    connection.declare_queue("q")
    sender = connection.session().sender("q")
    for number in range(5):
        sender.send(str(number))
    sender.sync(5)
    connection.add_policy("p", "^q$", max_count=3, overflow="ring")
    while connection.queue("q")["messages"] != 3:  # the oldest go at once, and its replica says so a moment later
        time.sleep(0.01)
    connection.add_policy("p", "^q$", max_count=2)
    with connect(cluster.addresses["b2"]) as other:
        late = other.session().sender("q")
        with pytest.raises(ResourceLimitExceeded, match="at most 2 messages"):
            for _ in range(100):  # as soon as all brokers know of it
                sender.send("more")
                sender.sync(5)
        there = other.queue("q")["messages"]
        for sending in (sender, late):
            with pytest.raises(ResourceLimitExceeded, match="at most 2 messages"):
                sending.send("more")
                sending.sync(5)
        assert 3 <= other.queue("q")["messages"] == there < 103, "what is there stays"
        other.delete_policy("p")
        late.send("more")
        late.sync(5)
        assert other.queue("q")["messages"] == there + 1


def test_times_and_producers_follow_too(connection):
    connection.declare_queue("q")
    sender = connection.session().sender("q")
    sender.send("stays")
    sender.sync(5)
    connection.add_policy("p", "^q$", message_ttl_s=0.3, flow_stop_count=3)
    for _ in range(3):
        sender.send("goes")
    with pytest.raises(Timeout):
        sender.sync(0.05)
    sender.sync(5)
    assert connection.queue("q")["messages"] == 1, "what was there keeps its time"
    assert connection.policies()[0]["settings"] == {"message_ttl_s": 0.3, "flow_stop_count": 3}


def test_what_there_is(connection):
    connection.declare_exchange("dead", "fanout")
    connection.add_policy("p", ".*", arguments={"x-max-length": 10, "x-dead-letter-exchange": "dead"}, priority=-1)
    connection.add_policy("p", "^a", operator=True, max_size=1000, delivery_limit=3)
    ours, operators = connection.policies()
    assert (ours["name"], ours["pattern"], ours["priority"], ours["operator"]) == ("p", ".*", -1, False)
    assert ours["settings"] == {"max_count": 10, "overflow": "dead-letter", "alternate": "dead"}
    assert (operators["operator"], operators["settings"]) == (True, {"max_size": 1000, "delivery_limit": 3})
    connection.declare_queue("a", max_size=5000, overflow="ring")
    found = connection.queue("a")
    wanted = {"max_count": 10, "max_size": 1000, "overflow": "ring", "delivery_limit": 3, "dead_letters": "all"}
    assert found["definition"] == wanted and found["alternate"] == "dead"
    assert (found["policy"], found["operator_policy"]) == ("p", "p")
    assert found["declared"] == {"max_size": 5000, "overflow": "ring"}
    given = {"max_count": 10, "max_size": 1000, "delivery_limit": 3, "dead_letters": "all", "alternate": "dead"}
    assert found["policy_definition"] == given
    assert not connection.declare_queue("a", max_size=5000, overflow="ring")
    sender = connection.session().sender("a")
    for n in range(12):
        sender.send(str(n))
    sender.sync(5)
    assert connection.queue("a")["messages"] == 10
    connection.delete_policy("p", operator=True)
    assert [one["operator"] for one in connection.policies()] == [False]


@pytest.mark.parametrize(
    ("pattern", "given", "why"),
    [
        ("(a", {"max_count": 1}, "a group has no end"),
        ("a", {}, "a policy sets at least one of max_count"),
        ("a", {"max_count": 0}, "is 0: give a number of messages"),
        ("a", {"overflow": "ring"}, "needs a limit"),
        ("a", {"arguments": {"qpid.priorities": 3}}, "not 'qpid.priorities': leave it out"),
        ("a", {"arguments": {"mine": 3}}, "not 'mine': leave it out"),
        ("a", {"operator": True, "overflow": "ring"}, "an operator's policy bounds max_count, max_size"),
        ("a", {"operator": True, "max_count": 1, "alternate": "e"}, "not the alternate"),
        ("a", {"max_count": 1, "priority": 1 << 40}, "add_policy"),
    ],
)
def test_what_is_refused(connection, pattern, given, why):
    with pytest.raises(Invalid, match=why):
        connection.add_policy("p", pattern, **given)
    assert connection.policies() == []


def test_older_members_have_none(cluster, connection):
    cluster.cluster.machines["b1"].cluster.versions.least = 11
    with pytest.raises(Unavailable, match="upgrade all members first"):
        connection.add_policy("p", ".*", max_count=1)


async def test_the_asyncio_twin(cluster):
    async with connect_async(cluster.address) as connection:
        assert await connection.add_policy("p", "^q$", max_count=7)
        await connection.declare_queue("q")
        assert (await connection.queue("q"))["policy"] == "p"
        assert [one["name"] for one in await connection.policies()] == ["p"]
        await connection.delete_policy("p")
        assert await connection.policies() == []
