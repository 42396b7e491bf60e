"""A queue that takes each message id once within a window, as its users see it."""

from __future__ import annotations

import pytest
from fake_broker import wait_until
from mantamq.client import Invalid, connect, connect_async
from mantamq.client.message import Message

pytestmark = pytest.mark.timeout(20)


def send(connection, address: str, *ids: object) -> None:
    with connection.session().sender(address) as sender:
        for id in ids:
            sender.send(Message(str(id), subject="k", message_id=id))
        sender.sync(5)
        assert sender.unsettled == 0


def bodies(connection, queue: str = "q") -> list[bytes]:
    return [message.body for message in connection.session().browse(queue)]


def test_a_message_id_comes_in_once_and_its_send_completes_all_the_same(connection, cluster):
    connection.declare_queue("q", dedupe_window_s=60)
    send(connection, "q", "a", "b", "a", None, None)
    with connect(cluster.address) as another:
        send(another, "q", "b", "c")
    assert bodies(connection) == [b"a", b"b", b"None", b"None", b"c"]
    told = connection.queue("q")
    assert (told["messages"], told["duplicates"], told["enqueued"], told["discarded"]) == (5, 2, 7, 2)
    assert connection.declare_queue("q", dedupe_window_s=60) is False


def test_after_the_window_it_comes_in_again(connection, cluster):
    connection.declare_queue("q", dedupe_window_s=2)
    send(connection, "q", "a")
    cluster.pass_time(2500)
    send(connection, "q", "a", "a")
    assert bodies(connection) == [b"a", b"a"]
    connection.declare_queue("few", dedupe_window_count=2)
    send(connection, "few", "a", "b", "a", "c", "a")
    assert bodies(connection, "few") == [b"a", b"b", b"c", b"a"]


def test_the_other_queues_of_a_fanout_get_it(connection):
    connection.declare_exchange("all", "fanout")
    connection.declare_queue("q", dedupe_window_count=10)
    connection.declare_queue("plain")
    for queue in ("q", "plain"):
        connection.bind("all", queue)
    send(connection, "all", "a", "a")
    assert (bodies(connection), bodies(connection, "plain")) == ([b"a"], [b"a", b"a"])


def test_at_a_limit_a_duplicate_completes(connection, cluster):
    connection.declare_queue("q", dedupe_window_count=10, max_count=2, flow_stop_count=0)
    sender = connection.session().sender("q")
    for id in ("a", "b", "a", "b"):
        sender.send(Message(b"x", message_id=id))
    wait_until(lambda: (cluster.pass_time(100), sender.unsettled == 0)[1])
    sender.sync(5)  # and none was refused
    assert connection.queue("q")["duplicates"] == 2 and connection.queue("q")["refused"] == 0


def test_dead_letters_with_an_id_that_is_known_do_not_come_in(connection, cluster):
    connection.declare_exchange("lost", "fanout")
    connection.declare_queue("dead", dedupe_window_count=10)
    connection.bind("lost", "dead")
    connection.declare_queue("q", alternate="lost")
    send(connection, "q", "a", "b", "a")
    session = connection.session()
    with session.receiver("q") as receiver:
        for _ in range(3):
            session.reject(receiver.fetch(5))
        session.sync(5)
    wait_until(lambda: (cluster.pass_time(100), connection.queue("q")["dead_lettered"] == 3)[1])
    assert bodies(connection, "dead") == [b"a", b"b"] and connection.queue("dead")["duplicates"] == 1


def test_a_window_that_is_none_is_refused_by_its_keyword(connection):
    for wrong in ({"dedupe_window_s": 0}, {"dedupe_window_count": 2_000_000}):
        with pytest.raises(Invalid, match=next(iter(wrong))):
            connection.declare_queue("q", **wrong)


async def test_the_asyncio_twin(cluster):
    async with connect_async(cluster.address) as connection:
        await connection.declare_queue("q", dedupe_window_s=60, dedupe_window_count=5)
        sender = await connection.session().sender("q")
        for id in ("a", "a", "b"):
            await sender.send(Message(b"x", message_id=id))
        await sender.sync(5)
        assert (await connection.queue("q"))["messages"] == 2
