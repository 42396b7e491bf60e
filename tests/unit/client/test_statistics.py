"""The figures of a whole cluster, as its users ask for them at any broker."""

from __future__ import annotations

import pytest
from fake_broker import passing_time
from mantamq.client import Invalid, Message, connect, connect_async
from mantamq.protocol.wire.statistics_frames import FellowTold

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def busy(cluster, connection):
    """At b1 a sender to a fanout, whose queue of groups has a consumer there and one at b2; at b2 messages that go
    nowhere."""
    connection.declare_queue("q", group_key="g")
    connection.declare_queue("idle", max_count=5)
    connection.bind("amq.fanout", "q")
    sender = connection.session().sender("amq.fanout/")
    for number in range(6):
        sender.send(Message(b"x", properties={"g": f"g{number % 2}"}))
    sender.sync(5)
    with connect(cluster.addresses["b2"]) as other:
        nowhere = other.session().sender("amq.topic/none")
        nowhere.send(b"x")
        nowhere.sync(5)
        receivers = [one.session().receiver("q", capacity=6, window="unaccepted") for one in (connection, other)]
        receivers[0].fetch(5)
        connection.queue("q")
        yield other


def row(rows, name, key="name"):
    return next(one for one in rows if one[key] == name)


def test_what_each_broker_alone_knows_is_added_up(cluster, connection, busy):
    found, there = connection.statistics(), busy.statistics()
    assert found["silent"] == [] == there["silent"]
    for one in (found, there):
        q = row(one["queues"], "q")
        assert (q["consumers"], q["consumers_at"], q["bindings"]) == (2, {"b1": 1, "b2": 1}, 1)
        assert (q["enqueued"], q["messages"], q["kind"]) == (6, 6, "groups")
        fanout, topic = row(one["exchanges"], "amq.fanout"), row(one["exchanges"], "amq.topic")
        assert (fanout["received"], fanout["routed"], fanout["unroutable"], fanout["bindings"]) == (6, 6, 0, 1)
        assert (topic["received"], topic["routed"], topic["unroutable"]) == (1, 0, 1)
        brokers = {b["broker"]: b for b in one["brokers"]}
        assert sorted(brokers) == ["b1", "b2"] and brokers["b2"]["address"] == cluster.addresses["b2"]
        assert [brokers[b]["connections"] for b in ("b1", "b2")] == [1, 1]
        assert [brokers[b]["received"] for b in ("b1", "b2")] == [6, 1]
        assert sum(b["unacked"] for b in brokers.values()) == q["acquired"] == sum(q["held_by"].values())
        assert sum(b["locks"] for b in brokers.values()) == 1
        assert sorted((c["broker"], c["senders"], c["receivers"], c["sent"]) for c in one["connections"]) == [
            ("b1", 1, 1, 6), ("b2", 1, 1, 1)]  # fmt: skip
        assert sum(group["held"] for group in one["groups"]) == q["acquired"] > 0
        assert {group["queue"] for group in one["groups"]} == {"q"}
        assert {group["group"] for group in one["groups"]} <= {"g0", "g1"}


async def test_parts_are_named_and_others_refused(cluster, connection):
    assert list(connection.statistics("exchanges")) == ["exchanges", "silent"]
    async with connect_async(cluster.address) as other:
        assert list(await other.statistics("queues", "groups")) == ["queues", "groups", "silent"]
        with pytest.raises(Invalid, match="no statistics of 'odd'; there are of queues, exchanges"):
            await other.statistics("odd")


def test_a_broker_that_does_not_answer_is_named(cluster, connection):
    connection.declare_queue("q")
    held = cluster.call(lambda: cluster.cluster.hold(FellowTold))
    try:
        with passing_time(cluster, 200):
            found = connection.statistics("brokers", "queues")
    finally:
        cluster.call(lambda: cluster.cluster.let_go(held))
    assert found["silent"] == ["b2"] and found["brokers"][1]["error"] == "b2 has not answered"
    assert found["brokers"][0]["connections"] == 1 and found["queues"][0]["consumers"] == 0
