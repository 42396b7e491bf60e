"""The figures of a whole cluster, as its users ask for them at any broker."""

from __future__ import annotations

import pytest
from fake_broker import passing_time
from mantamq.client import Invalid, Message, connect, connect_async
from mantamq.protocol.broker.session import Session
from mantamq.protocol.limits import DEFAULT
from mantamq.protocol.wire.client_frames import Flow
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
        assert [(brokers[b]["opened"], brokers[b]["closed"]) for b in ("b1", "b2")] == [(1, 0), (1, 0)]
        assert [(brokers[b]["queues_declared"], brokers[b]["queues_deleted"]) for b in ("b1", "b2")] == [(2, 0)] * 2
        assert sum(b["unacked"] for b in brokers.values()) == q["acquired"] == sum(q["held_by"].values())
        assert sum(b["locks"] for b in brokers.values()) == 1
        assert sorted((c["broker"], c["senders"], c["receivers"], c["sent"]) for c in one["connections"]) == [
            ("b1", 1, 1, 6), ("b2", 1, 1, 1)]  # fmt: skip
        links = {(link["broker"], link["role"]): link for link in one["links"]}
        assert len(one["links"]) == 4
        assert links["b1", "sender"] | {"exchange": "amq.fanout", "key": "", "sent": 6} == links["b1", "sender"]
        assert links["b2", "sender"] | {"exchange": "amq.topic", "key": "none", "sent": 1} == links["b2", "sender"]
        receivers = [links[broker, "receiver"] for broker in ("b1", "b2")]
        assert {link["queue"] for link in receivers} == {"q"}
        assert [(link["mode"], link["accept"], link["waits"]) for link in receivers] == [("consume", True, False)] * 2
        assert sum(link["delivered"] for link in receivers) == q["acquired"]
        assert all(link["delivered"] + link["credit"] == 6 for link in receivers)
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


def test_what_a_receiver_was_sent_is_told_by_its_credit(cluster, connection):
    connection.declare_queue("q")
    session = connection.session()
    sender = session.sender("q")
    for _ in range(3):
        sender.send(b"x")
    sender.sync(5)
    browser = session.receiver("q", mode="browse", capacity=0, selector="colour = 'red' OR colour IS NULL")
    assert [browser.fetch(5).body for _ in range(3)] == [b"x"] * 3
    found = [row for row in connection.statistics("links")["links"] if row["role"] == "receiver"]
    assert [(row["mode"], row["delivered"], row["credit"]) for row in found] == [("browse", 3, 0)]
    assert "colour" in found[0]["selector"]


def test_credit_that_has_drained_away_was_not_delivered():
    link = (session := Session("c1", DEFAULT)).add_receiver(1, "q#1", "b1.r0", 1)
    delivered = []
    for granted, sent in ((5, [1, 2]), (4, [3, 3]), (0, [4, 6])):
        session.flow(Flow(1, granted, -1, False))
        session.delivered(link, sent)
        delivered.append(link.granted - link.credit)
        if granted == 5:
            link.drained()
            assert link.credit == 0
    assert delivered == [2, 3, 6] and link.credit == 0


def test_what_comes_and_goes_is_counted(cluster, connection):
    before = row(connection.statistics("brokers")["brokers"], "b1", "broker")
    with connect(cluster.address) as other:
        here = next(iter(other.statistics("connections")["connections"]))
        other.declare_queue("q")
        other.delete_queue("q")
    assert here["address"] == "10.9.8.7:4711" and here["since_ms"] > 0
    found = row(connection.statistics("brokers")["brokers"], "b1", "broker")
    counted = ("opened", "closed", "queues_declared", "queues_deleted")
    assert [found[name] - before[name] for name in counted] == [1, 1, 1, 1]
