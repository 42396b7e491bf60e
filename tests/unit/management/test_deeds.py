"""What operators do to a cluster, by the real machines of a cluster in memory."""

from __future__ import annotations

import json
from typing import Any

import pytest
from fake_broker import FakeBroker, passing_time
from mantamq.client import connect_async
from mantamq.client.errors import ConnectionLost, InUse, Invalid, NotEmpty, NotFound, Timeout
from mantamq.management import messages
from mantamq.management.deeds import DONE, TEXT_CHARS, Asker, Audit, Deeds
from mantamq.management.messages import ACK_MODES, message_of, seen
from mantamq.protocol.wire.client_frames import Completed, Disposed

from .kept_link import KeptLink

WHO = Asker("ann", "10.0.0.7")


@pytest.fixture
def cluster():
    with FakeBroker() as cluster, passing_time(cluster):
        yield cluster


@pytest.fixture
async def connection(cluster):
    async with connect_async(cluster.address) as connection:
        yield connection


@pytest.fixture
def told() -> list[Audit]:
    return []


@pytest.fixture
def deeds(connection, told) -> Deeds:
    return Deeds(KeptLink(connection), told.append)


async def test_each_deed_is_told_with_who_and_how_it_went(deeds, told):
    assert await deeds.declare_queue(WHO, "q", arguments={"x-max-length": 7}) is True
    with pytest.raises(NotFound):
        await deeds.delete_queue(WHO, "another")
    done, refused = told
    assert (done.who, done.address, done.what, done.outcome) == ("ann", "10.0.0.7", "declare_queue", f"{DONE}: True")
    assert done.arguments["name"] == "q" and done.arguments["arguments"] == {"x-max-length": 7}
    assert done.time_s > 1.7e9
    assert refused.what == "delete_queue" and refused.outcome.startswith("NotFound: ")


async def test_a_deed_that_takes_too_long_is_given_up_and_told(cluster, connection, told):
    deeds = Deeds(KeptLink(connection), told.append, patience_s=0.05)
    await deeds.declare_queue(WHO, "q")
    cluster.hold(Completed)
    with pytest.raises(Timeout, match="it may still happen"):
        await deeds.publish(WHO, "", "q", {}, b"x")
    cluster.let_go()
    assert told[-1].what == "publish" and told[-1].outcome.startswith("Timeout: ")


async def test_queues_exchanges_and_bindings(deeds, told):
    await deeds.declare_queue(WHO, "q")
    assert await deeds.declare_exchange(WHO, "x", "topic") is True
    await deeds.declare_exchange(WHO, "y", "fanout")
    assert await deeds.bind(WHO, "x", "q", "a.*") is True
    assert await deeds.bind(WHO, "y", to_exchange="x", key="k") is True
    with pytest.raises(Invalid, match="name one of them"):
        await deeds.bind(WHO, "x", "q", to_exchange="y")
    assert told[-1].outcome.startswith("Invalid: ")
    ends = {(row["exchange"], row["queue"] or row["to_exchange"], row["key"]) for row in await deeds.bindings()}
    assert {("x", "q", "a.*"), ("y", "x", "k")} <= ends
    await deeds.unbind(WHO, "x", "q", "a.*")
    await deeds.unbind(WHO, "y", to_exchange="x", key="k")
    assert not [row for row in await deeds.bindings() if row["exchange"] in ("x", "y")]
    await deeds.delete_exchange(WHO, "x")
    await deeds.publish(WHO, "", "q", {}, b"1")
    with pytest.raises(NotEmpty):
        await deeds.delete_queue(WHO, "q", if_empty=True)
    assert await deeds.delete_queue(WHO, "q") == 0


async def test_a_message_comes_back_as_it_was_sent(deeds):
    await deeds.declare_queue(WHO, "q")
    await deeds.declare_exchange(WHO, "with/slash", "topic")
    await deeds.bind(WHO, "with/slash", "q", "#")
    properties = {
        "headers": {"n": 3, "deep": [1, {"a": None}]}, "content_type": "text/plain", "delivery_mode": 2, "priority": 6,
        "correlation_id": "c", "reply_to": "r", "message_id": "m", "expiration": "60000",
    }  # fmt: skip
    assert await deeds.publish(WHO, "with/slash", "a.b", properties, b"body") is True
    found = await deeds.browse("q")
    assert len(found) == 1
    assert found[0].properties == properties
    assert (found[0].body, found[0].body_bytes, found[0].routing_key, found[0].queue) == (b"body", 4, "a.b", "q")
    assert found[0].redelivered is False and found[0].enqueued_s is not None


async def test_what_no_queue_takes_was_not_routed(deeds):
    await deeds.declare_exchange(WHO, "x")
    assert await deeds.publish(WHO, "x", "nobody", {}, b"") is False
    assert await deeds.publish(WHO, "", "nobody", {}, b"") is False
    with pytest.raises(NotFound):
        await deeds.publish(WHO, "no exchange", "k", {}, b"")


@pytest.mark.parametrize("mode", ACK_MODES)
async def test_messages_that_are_got_go_back_or_are_gone(deeds, told, mode):
    await deeds.declare_exchange(WHO, "dead", "fanout")
    await deeds.declare_queue(WHO, "letters")
    await deeds.bind(WHO, "dead", "letters")
    await deeds.declare_queue(WHO, "q", alternate="dead")
    for number in range(25):
        await deeds.publish(WHO, "", "q", {}, b"%d" % number)
    found = await deeds.get(WHO, "q", 22, mode, body_bytes=1)
    assert [one.body for one in found] == [str(number)[:1].encode() for number in range(22)]
    assert found[21].body_bytes == 2
    assert told[-1].outcome == f"{DONE}: 22 messages"
    left = await deeds.browse("q", 100)
    if "requeue_true" in mode:
        assert [one.body for one in left] == [b"%d" % number for number in range(25)]
        assert [one.redelivered for one in left] == [True] * 22 + [False] * 3
    else:
        assert [one.body for one in left] == [b"22", b"23", b"24"]
    assert len(await deeds.get(WHO, "q", 1000, "ack_requeue_false")) == len(left)


async def test_what_is_got_for_good_is_gone_when_that_is_answered(cluster, connection, told):
    deeds = Deeds(KeptLink(connection), told.append, patience_s=0.2)
    await deeds.declare_queue(WHO, "q")
    await deeds.publish(WHO, "", "q", {}, b"x")
    cluster.hold(Disposed)
    with pytest.raises(Timeout):
        await deeds.get(WHO, "q", 1, "ack_requeue_false")
    cluster.let_go()


async def test_browsing_takes_nothing_and_is_no_deed(deeds, told):
    await deeds.declare_queue(WHO, "q")
    for number in range(3):
        await deeds.publish(WHO, "", "q", {"headers": {"n": number}}, b"%d" % number)
    told.clear()
    assert [one.body for one in await deeds.browse("q", 2)] == [b"0", b"1"]
    assert [one.body for one in await deeds.browse("q", 9, selector="n > 1")] == [b"2"]
    assert not (await deeds.browse("q", 1))[0].redelivered
    assert told == []


async def test_an_answer_ends_where_its_bodies_are_too_many(connection, told):
    deeds = Deeds(KeptLink(connection), told.append, answer_bytes=25)
    await deeds.declare_queue(WHO, "q")
    for _ in range(4):
        await deeds.publish(WHO, "", "q", {}, bytes(10))
    found = await deeds.browse("q", 4, body_bytes=5)
    assert [(len(one.body), one.body_bytes) for one in found] == [(5, 10)] * 3
    for _ in range(10):
        await deeds.publish(WHO, "", "q", {}, bytes(10))
    assert len(await deeds.get(WHO, "q", 100)) == messages.AT_ONCE


async def test_purge_move_and_redrive(deeds, told):
    for name in ("a", "b"):
        await deeds.declare_queue(WHO, name)
    for number in range(4):
        await deeds.publish(WHO, "", "a", {}, b"%d" % number)
    assert await deeds.move(WHO, "a", "b", count=1) == (1, 0)
    assert told[-1].outcome == f"{DONE}: 1 moved, 0 left"
    assert await deeds.redrive(WHO, "b", "a") == (1, 0)
    assert await deeds.purge(WHO, "a", count=3) == 3
    assert await deeds.purge(WHO, "a") == 1


async def test_policies(deeds):
    assert await deeds.add_policy(WHO, "p", "^q", {"x-max-length": 5}, priority=2) is True
    assert await deeds.add_policy(WHO, "p", "^q", {"x-max-length": 9}, operator=True) is True
    assert [(row["name"], row["operator"]) for row in await deeds.policies()] == [("p", False), ("p", True)]
    await deeds.delete_policy(WHO, "p", operator=True)
    await deeds.delete_policy(WHO, "p")
    assert await deeds.policies() == []


async def test_definitions_go_out_and_come_in_again(deeds, told):
    await deeds.declare_exchange(WHO, "x", "fanout")
    await deeds.declare_queue(WHO, "q", arguments={"x-max-length": 5})
    await deeds.bind(WHO, "x", "q", "k")
    file = json.dumps(await deeds.definitions()).encode()
    await deeds.delete_queue(WHO, "q")
    done = await deeds.import_definitions(WHO, file)
    assert done.counts == {"new": 2, "unchanged": 1} and done.complete
    assert told[-1].outcome == f"{DONE}: 1 unchanged, 2 new"
    assert (await deeds.import_definitions(WHO, file)).counts == {"unchanged": 3}
    await deeds.delete_queue(WHO, "q")
    await deeds.declare_queue(WHO, "q")
    again = await deeds.import_definitions(WHO, file)
    assert again.counts["differs"] == 1 and not again.complete
    with pytest.raises(Invalid, match="no JSON"):
        await deeds.import_definitions(WHO, b"{")


async def test_definitions_of_rabbitmq_come_in(deeds):
    file: dict[str, Any] = {
        "rabbit_version": "3.13.0", "vhosts": [{"name": "/"}], "users": [{"name": "guest"}],
        "queues": [
            {"name": "q", "vhost": "/", "durable": False, "auto_delete": False, "arguments": {}},
            {"name": "s", "vhost": "/", "durable": False, "auto_delete": False, "arguments": {"x-queue-type": "stream"}},
        ],
        "exchanges": [], "bindings": [], "policies": [],
    }  # fmt: skip
    done = await deeds.import_definitions(WHO, json.dumps(file).encode())
    assert [(one.name, one.outcome) for one in done.objects] == [("q", "new"), ("s", "not taken over")]
    assert done.passed_over == {"users": 1}


async def test_an_account_has_no_long_text(deeds, told):
    with pytest.raises(Invalid):
        await deeds.declare_queue(WHO, "n" * 5000, arguments={"mine": "x" * 5000})
    assert len(told[-1].arguments["name"]) <= TEXT_CHARS + 3
    assert len(told[-1].arguments["arguments"]) <= TEXT_CHARS + 3
    assert len(told[-1].outcome) <= TEXT_CHARS


async def test_another_consumer_that_has_a_queue_alone_keeps_it(deeds, connection):
    await deeds.declare_queue(WHO, "q")
    async with await connection.session().receiver("q", exclusive=True):
        with pytest.raises(InUse):
            await deeds.get(WHO, "q")


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"app_id": "x"}, "no property 'app_id'"),
        ({"content_type": 3}, "content_type is a text"),
        ({"headers": [1]}, "headers is an object"),
        ({"delivery_mode": 3}, "delivery_mode is 1"),
        ({"delivery_mode": True}, "delivery_mode is 1"),
        ({"priority": -1}, "priority is a whole number"),
        ({"priority": "4"}, "priority is a whole number"),
        ({"expiration": "-1"}, "expiration is a number"),
        ({"expiration": "9" * 30}, "expiration is a number"),
        ({"expiration": 2**60}, "expiration is a number"),
        ({"expiration": [1]}, "expiration is a number"),
    ],
)
def test_a_message_that_cannot_be_is_refused(properties, said):
    with pytest.raises(Invalid, match=said):
        message_of("k", properties, b"")


def test_properties_that_are_null_are_not_there():
    plain = seen(message_of("", {"priority": None, "expiration": None, "headers": None}, b"abc"), 2)
    assert plain.properties == {"headers": {}, "delivery_mode": 1}
    assert (plain.body, plain.body_bytes, plain.routing_key) == (b"ab", 3, "")


@pytest.mark.parametrize("count", [0, -1, messages.MOST + 1, True, 1.0, "1"])
async def test_no_such_count_of_messages_can_be_got(deeds, count):
    with pytest.raises(Invalid, match="from 1 to 1000"):
        await deeds.get(WHO, "q", count)


async def test_no_such_ack_mode_or_length_of_bodies(deeds):
    with pytest.raises(Invalid, match="the ack mode is one of"):
        await deeds.get(WHO, "q", 1, "take")
    with pytest.raises(Invalid, match="whole number of bytes"):
        await deeds.browse("q", 1, -1)


async def test_a_client_is_sent_away_at_whichever_broker_it_is_and_does_not_come_back(told):
    with FakeBroker(2, token="t") as cluster, passing_time(cluster):
        async with connect_async(cluster.address, token="t") as here:
            deeds = Deeds(KeptLink(here), told.append, token="t")
            await deeds.declare_queue(WHO, "q")
            await deeds.publish(WHO, "", "q", {}, b"x")
            async with connect_async(cluster.addresses["b2"], token="t") as runaway:
                await (await runaway.session().receiver("q", capacity=1)).fetch()
                rows = (await here.statistics("connections"))["connections"]
                client = next(row["client"] for row in rows if row["broker"] == "b2")
                with pytest.raises(NotFound, match="no client"):
                    await deeds.close_connection(WHO, "b1", client)
                with pytest.raises(NotFound, match="no broker 'b9'"):
                    await deeds.close_connection(WHO, "b9", client)
                await deeds.close_connection(WHO, "b2", client)
                with pytest.raises(ConnectionLost, match="closed by an operator: by ann at the management page"):
                    await runaway.queues()
            assert [message.body for message in await deeds.browse("q")] == [b"x"]
    assert told[-1].what == "close_connection" and told[-1].outcome == DONE
