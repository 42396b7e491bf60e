"""Messages that go on from a queue as an operator orders: purge, move, reroute, redrive."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fake_broker import FakeBroker, wait_until
from mantamq.client import Invalid, Moved, NotFound, ResourceLimitExceeded, connect, connect_async
from mantamq.client.message import Message
from mantamq.protocol.limits import Limits
from mantamq.protocol.wire.client_frames import Command, Reply

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def connection(cluster):
    with connect(cluster.address) as connection:
        for name in ("q", "other"):
            connection.declare_queue(name)
        yield connection


def send(connection, *messages: Any, queue: str = "q") -> None:
    sender = connection.session().sender(queue)
    for message in messages:
        sender.send(message)
    sender.sync(5)


def bodies(connection, queue: str) -> list[bytes]:
    return [message.body for message in connection.session().browse(queue)]


def numbered(*numbers: int) -> list[Message]:
    return [Message(str(n).encode(), properties={"n": n}) for n in numbers]


def test_all_go_in_order_as_they_were(connection):
    messages = [Message(b"1", "s", {"n": 1}, priority=7), Message(b"2", ttl=1000), b"3"]
    send(connection, *messages)
    send(connection, b"0", queue="other")
    assert connection.move("q", "other") == Moved(3, 0)
    assert bodies(connection, "q") == [] and bodies(connection, "other") == [b"0", b"1", b"2", b"3"]
    one, two = list(connection.session().browse("other"))[1:3]
    assert (one.subject, one.properties, one.priority) == ("s", {"n": 1}, 7) and two.ttl == 1000
    told = connection.queue("q")
    assert (told["moved"], told["dequeued"], told["dead_lettered"], told["acquires"]) == (3, 3, 0, 0)


def test_so_many_and_those_that_a_selector_wants(connection):
    send(connection, *numbered(*range(6)))
    assert connection.move("q", "other", selector="n > 1", count=2) == Moved(2, 0)
    assert bodies(connection, "other") == [b"2", b"3"] and bodies(connection, "q") == [b"0", b"1", b"4", b"5"]
    assert connection.purge("q", selector="n < 4") == 2
    assert bodies(connection, "q") == [b"4", b"5"]
    assert connection.queue("q")["discarded_purge"] == 2
    with pytest.raises(Invalid, match="selector"):
        connection.move("q", "other", selector="n >")


def test_what_a_consumer_holds_stays_his(connection):
    send(connection, *numbered(1, 2))
    session = connection.session()
    held = session.receiver("q", capacity=0).fetch(5)
    assert connection.move("q", "other") == Moved(1, 0)
    session.acknowledge(held)
    session.sync(5)
    assert session.lost == [] and connection.queue("q")["accepted"] == 1


def test_nothing_goes_to_what_is_not_there(connection):
    send(connection, b"1")
    with pytest.raises(NotFound, match="no queue and no exchange 'nowhere'"):
        connection.move("q", "nowhere")
    with pytest.raises(NotFound, match="no exchange"):
        connection.move("q", "nowhere/key")
    with pytest.raises(Invalid, match="another queue"):
        connection.move("q", "q")
    with pytest.raises(Invalid, match="no alternate"):
        connection.reroute("q")
    assert bodies(connection, "q") == [b"1"]


COUNT = "a count of messages is a whole number, 0 for all of them, not "


@pytest.mark.parametrize(
    ("ask", "text"),
    [
        (lambda c: c.move("q", "other", count=-1), COUNT + "-1"),
        (lambda c: c.move("q", "other", count=1.5), COUNT + "1.5"),
        (lambda c: c.reroute("q", "amq.topic", count=None), COUNT + "None"),
        (lambda c: c.redrive("q", count=True), COUNT + "True"),
        (lambda c: c.purge("q", "2"), COUNT + "'2'"),
        (lambda c: c.purge("q", -1, "n > 1"), COUNT + "-1"),
        (lambda c: c.purge("q", selector=None), 'a selector is a text such as "colour = \'red\'", or "" for all'),
        (lambda c: c.move("q", "other", selector=5), "a selector is a text"),
        (lambda c: c.move("q", ""), "name the queue, the exchange, or the exchange/key .* not ''"),
        (lambda c: c.move("q", None), "name the queue, the exchange, or the exchange/key .* not None"),
        (lambda c: c.redrive("q", None), "name the queue, the exchange, or the exchange/key .* not None"),
        (lambda c: c.move("q", "amq.topic/" + "k" * 256), "the key and the token of a move have at most 255 char"),
        (lambda c: c.reroute("q", "amq.topic/k"), "declare it first, or move there, since a reroute goes by the sub"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_with_the_rule_and_takes_nothing(cluster, connection, ask, text):
    send(connection, *numbered(1, 2))
    with pytest.raises((Invalid, NotFound), match=text):
        ask(connection)

    async def twin() -> None:
        async with await connect_async(cluster.address) as twin:
            with pytest.raises((Invalid, NotFound), match=text):
                await ask(twin)

    asyncio.run(twin())
    assert bodies(connection, "q") == [b"1", b"2"]


def test_a_count_may_be_larger_than_all_there_ever_is(connection):
    send(connection, *numbered(1, 2))
    assert connection.move("q", "other", count=10**30) == Moved(2, 0)
    assert connection.purge("other", count=2**64) == 2


def test_what_a_full_queue_does_not_take_is_back(cluster, connection):
    connection.declare_queue("small", max_count=2)
    send(connection, *numbered(1, 2, 3, 4))
    with ThreadPoolExecutor() as pool:  # nobody has sent there for a while: its replica hears of a commit a little late
        moving = pool.submit(connection.move, "q", "small")
        wait_until(lambda: (cluster.pass_time(100), moving.done())[1])
    with pytest.raises(ResourceLimitExceeded, match="2 messages were moved there before; 2 "):
        moving.result()
    assert bodies(connection, "small") == [b"1", b"2"] and bodies(connection, "q") == [b"3", b"4"]
    got = connection.session().receiver("q").fetch(5)
    assert (got.body, got.delivery_count) == (b"3", 0)


def test_reroute_keeps_their_keys(connection):
    connection.declare_exchange("ex", "direct")
    connection.declare_queue("has", alternate="ex")
    connection.bind("ex", "other", "red")
    connection.bind("ex", "q", "has")
    send(connection, Message(b"1", "red"), Message(b"2", "blue"), b"3", queue="has")
    assert connection.reroute("has") == Moved(2, 1)
    assert (bodies(connection, "other"), bodies(connection, "q")) == ([b"1"], [b"3"])
    assert bodies(connection, "has") == [b"2"]
    assert connection.move("has", "ex/red") == Moved(1, 0)
    assert "x-death" not in (list(connection.session().browse("other"))[1].properties or {})


def test_redrive_sends_each_back_to_where_it_died(cluster, connection):
    connection.declare_exchange("lost", "fanout")
    connection.declare_queue("dead")
    connection.bind("lost", "dead")
    for name in ("a", "b", "c"):
        connection.declare_queue(name, alternate="lost")
    send(connection, b"never died", queue="dead")
    session = connection.session()
    for body, name in ((b"1", "a"), (b"2", "b"), (b"3", "a"), (b"4", "c")):
        send(connection, body, queue=name)
        with session.receiver(name) as receiver:
            session.reject(receiver.fetch(5))
            session.sync(5)
    cluster.settle() if hasattr(cluster, "settle") else None
    connection.delete_queue("c")
    assert connection.queue("dead")["messages"] == 5
    assert connection.redrive("dead", count=1) == Moved(1, 1)
    assert connection.redrive("dead") == Moved(2, 2)
    assert (bodies(connection, "a"), bodies(connection, "b")) == ([b"1", b"3"], [b"2"])
    assert bodies(connection, "dead") == [b"never died", b"4"]
    assert connection.redrive("dead", to="other") == Moved(2, 0)
    assert bodies(connection, "other") == [b"never died", b"4"]


def test_what_goes_back_to_a_queue_that_knows_its_id_comes_in(connection):
    connection.declare_exchange("lost", "fanout")
    connection.declare_queue("dead")
    connection.bind("lost", "dead")
    connection.declare_queue("once", alternate="lost", dedupe_window_s=3600)
    session = connection.session()

    def dies() -> None:
        with session.receiver("once") as receiver:
            session.reject(receiver.fetch(5))
            session.sync(5)
        assert bodies(connection, "dead") == [b"1"]

    send(connection, Message(b"1", message_id="x"), queue="once")
    dies()
    assert connection.redrive("dead") == Moved(1, 0) and bodies(connection, "once") == [b"1"]
    send(connection, Message(b"sent again", message_id="x"), queue="once")
    dies()
    assert connection.move("dead", "once") == Moved(1, 0) and bodies(connection, "once") == [b"1"]
    assert connection.queue("once")["duplicates"] == 1
    connection.bind("amq.direct", "once", "once")
    send(connection, Message(b"by its exchange", subject="once", message_id="x"), queue="dead")
    assert connection.reroute("dead", "amq.direct") == Moved(1, 0), "that is as if it were sent"
    assert connection.queue("once")["duplicates"] == 2 and bodies(connection, "once") == [b"1"]


def test_a_large_move_takes_many_events_and_answers(connection):
    count = 12_000
    send(connection, *(b"%d" % n for n in range(count)))
    assert connection.move("q", "other") == Moved(count, 0)
    assert bodies(connection, "other") == [b"%d" % n for n in range(count)]


@pytest.mark.parametrize("twin", [False, True])
def test_one_that_ends_between_two_answers_says_how_many_had_gone(twin):
    """As far as its client has heard."""
    with FakeBroker(limits=Limits(move_messages=2, move_answered=4)) as cluster, connect(cluster.address) as connection:
        for name in ("q", "other"):
            connection.declare_queue(name)
        send(connection, *numbered(*range(10)))

        async def moved() -> Any:
            async with await connect_async(cluster.address) as twin:
                return await twin.move("q", "other")

        cluster.hold(Reply)
        with ThreadPoolExecutor() as pool, connect(cluster.address) as one:
            moving = pool.submit(lambda: asyncio.run(moved()) if twin else one.move("q", "other"))
            wait_until(lambda: "move" in [command.name for command in cluster.said(Command)])
            other = cluster.call(lambda: cluster.cluster.client("b1"))
            cluster.call(lambda: other.command("delete_queue", name="other"))
            cluster.let_go()
            with pytest.raises(NotFound, match=r"no queue and no exchange 'other'.*; 4 messages were moved before$"):
                moving.result()
        assert bodies(connection, "q") == [b"%d" % n for n in range(4, 10)]


def test_the_asyncio_twin(cluster, connection):
    send(connection, *numbered(1, 2, 3))

    async def main() -> None:
        async with await connect_async(cluster.address) as twin:
            assert await twin.purge("q", selector="n = 1") == 1
            assert await twin.move("q", "other", count=1) == Moved(1, 0)
            assert await twin.reroute("q", "amq.fanout") == Moved(0, 1)
            assert await twin.redrive("q", to="other") == Moved(1, 0)

    asyncio.run(main())
    assert bodies(connection, "other") == [b"2", b"3"]
