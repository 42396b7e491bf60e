"""Named senders: a program that is started anew goes on where the one before it ended, and sends nothing twice."""

from __future__ import annotations

import asyncio
import threading

import pytest
from fake_broker import FakeBroker, wait_until
from mantamq.client import (
    Deleted,
    Empty,
    Invalid,
    LinkClosed,
    NotFound,
    ResourceLimitExceeded,
    connect,
    connect_async,
)
from mantamq.client.message import Message

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def cluster():
    with FakeBroker(3) as cluster:
        yield cluster


@pytest.fixture
def connection(cluster):
    with connect(cluster.address) as connection:
        connection.declare_queue("q")
        yield connection


def bodies(connection, queue: str = "q") -> list[bytes]:
    return [message.body for message in connection.session().browse(queue)]


def test_who_is_started_anew_goes_on_behind_what_is_complete(cluster, connection):
    with connect(cluster.address) as first:
        sender = first.session().sender("q", name="import")
        assert sender.last_completed == 0
        for number in (1, 2, 3):
            sender.send(b"%d" % number)
        sender.sync(5)
        assert sender.last_completed == 3
    with connect(cluster.address) as second:
        sender = second.session().sender("q", name="import")
        assert sender.last_completed == 3
        sender.send(b"4")
        sender.sync(5)
        assert sender.last_completed == 4
        other = second.session().sender("q", name="another")
        assert other.last_completed == 0
    assert bodies(connection) == [b"1", b"2", b"3", b"4"]


def test_what_is_sent_again_under_its_number_does_not_come_in_twice(cluster, connection):
    for last, repeated in ((5, 0), (8, 5)):
        with connect(cluster.address) as program:
            sender = program.session().sender("q", name="import")
            for number in range(1, last + 1):
                sender.send(b"%d" % number, number=number)
            sender.sync(5)
            assert (sender.repeated, sender.last_completed) == (repeated, last)
    assert bodies(connection) == [b"%d" % number for number in range(1, 9)]


def test_numbers_may_have_gaps_and_rise(connection):
    sender = connection.session().sender("q", name="lines", capacity=2)
    for number in (3, 10, 11, 4_000_000_000):
        sender.send(b"%d" % number, number=number)
    sender.send(b"next")
    sender.sync(5)
    assert sender.last_completed == 4_000_000_001 and sender.unsettled == 0
    for wrong in (5, 4_000_000_001, 0, -1, True, "7", 1 << 62):
        with pytest.raises(Invalid, match="number"):
            sender.send(b"x", number=wrong)
    assert len(bodies(connection)) == 5


def test_who_sends_again_by_numbers_goes_on_with_them_until_the_last(cluster, connection):
    with connect(cluster.address) as program:
        sender = program.session().sender("q", name="import")
        for _ in range(3):
            sender.send(b"first")
        sender.sync(5)
    with connect(cluster.address) as program:
        sender = program.session().sender("q", name="import")
        sender.send(b"again", number=2)
        for send in (sender.send, lambda message: sender.send_later(message, delay=60)):
            with pytest.raises(Invalid, match="give this message its number: the queue has had numbers up to 3"):
                send(b"which?")
        sender.send(b"again", number=3)
        sender.send(b"4")
        sender.sync(5)
        assert (sender.repeated, sender.last_completed) == (2, 4)
    assert bodies(connection) == [b"first"] * 3 + [b"4"]


def test_the_last_one_to_begin_has_the_name_and_the_first_ends(cluster, connection):
    with connect(cluster.address) as first, connect(cluster.address) as second:
        old = first.session().sender("q", name="import")
        old.send(b"1")
        old.sync(5)
        new = second.session().sender("q", name="import")
        assert new.last_completed == 1
        with pytest.raises(LinkClosed, match="another sender of the name 'import'"):
            wait_until(lambda: old.send(b"old", number=2))
        new.send(b"2")
        new.sync(5)
        connection.declare_queue("other")
        assert second.session().sender("other", name="import").last_completed == 0, "which ends nobody's"
        new.send(b"3")
        new.sync(5)
    assert bodies(connection) in ([b"1", b"2", b"3"], [b"1", b"old", b"3"])


def test_its_client_goes_on_at_another_broker(cluster, connection):
    with connect(cluster.address) as program:
        sender = program.session().sender("q", name="import")
        sender.send(b"1")
        sender.sync(5)
        cluster.kick("b1")
        sender.send(b"2")
        sender.sync(10)
        assert sender.last_completed == 2
    assert bodies(connection) == [b"1", b"2"]


def test_a_new_queue_of_the_name_is_not_the_one_it_sent_to(cluster, connection):
    """Nothing of what it has sent is there: it hears of the deletion that it has missed, and may begin anew."""
    with connect(cluster.address) as program, connect(cluster.addresses["b2"]) as other:
        session = program.session()
        sender = session.sender("q", name="import")
        for number in (1, 2):
            sender.send(b"%d" % number)
            sender.sync(5)
        cluster.freeze("b1")
        other.delete_queue("q")
        other.declare_queue("q")
        cluster.kick("b1")
        cluster.thaw()
        with pytest.raises(Deleted, match="queue 'q' was deleted"):
            wait_until(lambda: sender.send(b"3"))
        assert bodies(other) == []
        assert session.sender("q", name="import").last_completed == 0


def test_no_local_knows_who_sent_it(connection):
    session = connection.session()
    sender = session.sender("q", name="import")
    sender.send(b"mine")
    sender.sync(5)
    assert bodies(connection) == [b"mine"]
    receiver = session.receiver("q", mode="browse", no_local=True)
    with pytest.raises(Empty):
        receiver.get()


def test_with_a_name_and_an_id_both_count(connection):
    connection.declare_queue("once", dedupe_window_count=10)
    sender = connection.session().sender("once", name="import")
    for id in ("a", "a", "b"):
        sender.send(Message(b"x", message_id=id))
    sender.sync(5)
    assert sender.last_completed == 3 and connection.queue("once")["duplicates"] == 1


def test_a_name_is_of_one_queue(connection):
    connection.declare_exchange("all", "fanout")
    session = connection.session()
    for address in ("all", "all/key"):
        with pytest.raises(Invalid, match="sends to one queue"):
            session.sender(address, name="import")
    with pytest.raises(NotFound):
        session.sender("nothing", name="import")
    for wrong in ("", "x" * 256, 7):
        with pytest.raises(Invalid, match="a sender's name is a text"):
            session.sender("q", name=wrong)


def test_what_is_delayed_keeps_its_number(cluster, connection):
    for last, repeated in ((3, 0), (4, 3)):
        with connect(cluster.address) as program:
            sender = program.session().sender("q", name="import")
            assert sender.last_completed == repeated
            sender.send(b"1", number=1)
            sender.send_later(b"2", delay=1000, number=2)
            sender.send(b"3", number=3)
            if last > 3:
                sender.send_later(b"4", delay=0.01)
            sender.sync(5)
            assert (sender.repeated, sender.last_completed) == (repeated, last)
    assert sorted(bodies(connection)) == [b"1", b"2", b"3", b"4"]


@pytest.mark.usefixtures("time_passes")
def test_no_local_knows_who_sent_what_was_delayed(connection):
    session = connection.session()
    sender = session.sender("q", name="import")
    sender.send_later(b"mine", delay=0.01)
    sender.sync(5)
    wait_until(lambda: connection.queue("q")["delayed"] == 0)
    receiver = session.receiver("q", mode="browse", no_local=True)
    with pytest.raises(Empty):
        receiver.get()


def test_a_name_is_free_of_the_numbers_of_its_connections_other_senders(connection):
    session = connection.session()
    for _ in range(3):
        other = session.sender("q")
        for _ in range(5):
            other.send(b"x")
        other.close()
    sender = session.sender("q", name="import")
    assert sender.last_completed == 0
    sender.send(b"1", number=1)
    sender.sync(5)
    assert sender.last_completed == 1


@pytest.mark.usefixtures("time_passes")
def test_what_is_moved_on_or_purged_is_not_sent_again(cluster, connection):
    connection.declare_queue("other")
    with connect(cluster.address) as program:
        sender = program.session().sender("q", name="import")
        for number in (1, 2, 3):
            sender.send(b"%d" % number)
        sender.sync(5)
    assert connection.move("q", "other", count=2).moved == 2
    connection.purge("q")
    with connect(cluster.address) as program:
        sender = program.session().sender("q", name="import")
        assert sender.last_completed == 3
        for number in (1, 2, 3, 4):
            sender.send(b"%d" % number, number=number)
        sender.sync(5)
        assert program.session().sender("other", name="import").last_completed == 0
    assert (bodies(connection), bodies(connection, "other")) == ([b"4"], [b"1", b"2"])


@pytest.mark.usefixtures("time_passes")
def test_what_has_expired_is_not_sent_again(cluster, connection):
    for last in (2, 3):
        with connect(cluster.address) as program:
            sender = program.session().sender("q", name="import")
            for number in range(1, last + 1):
                sender.send(Message(b"%d" % number, ttl=0.01 if number == 1 else None), number=number)
            sender.sync(5)
        wait_until(lambda: b"1" not in bodies(connection))
    assert bodies(connection) == [b"2", b"3"]


@pytest.mark.usefixtures("time_passes")
def test_a_queue_that_is_deleted_ends_its_named_senders_and_the_next_of_its_name_knows_none(connection):
    session = connection.session()
    connection.declare_exchange("rest", "fanout")
    connection.declare_queue("kept")
    connection.bind("rest", "kept")
    connection.declare_queue("going", alternate="rest")
    sender = session.sender("going", name="import")
    for number in (1, 2, 3):
        sender.send(b"%d" % number)
    sender.sync(5)
    connection.delete_queue("going")
    with pytest.raises(Deleted):
        wait_until(lambda: sender.send(b"4"))
    with pytest.raises(NotFound):
        session.sender("going", name="import")
    wait_until(lambda: bodies(connection, "kept")[:3] == [b"1", b"2", b"3"])
    connection.declare_queue("going")
    assert session.sender("going", name="import").last_completed == 0


@pytest.mark.usefixtures("time_passes")
def test_what_a_full_queue_refuses_keeps_its_number_and_is_not_sent_again(cluster, connection):
    connection.declare_queue("small", max_count=2, flow_stop_count=0)
    with connect(cluster.address) as program:
        sender = program.session().sender("small", name="import")
        for number in (1, 2, 3):
            sender.send(b"%d" % number)
        with pytest.raises(ResourceLimitExceeded) as refused:
            sender.sync(5)
        assert refused.value.numbers == [3, 3] and sender.last_completed == 3
    connection.purge("small")
    with connect(cluster.address) as program:
        sender = program.session().sender("small", name="import")
        assert sender.last_completed == 3
        sender.send(b"3", number=3)
        sender.send(b"4", number=4)
        sender.sync(5)
        assert sender.repeated == 1
    assert bodies(connection, "small") == [b"4"]


def test_a_policy_may_make_its_queue_a_ring(cluster, connection):
    connection.add_policy("ring", "ring", max_count=2, overflow="ring")
    connection.declare_queue("ring")
    for last in (3, 4):
        with connect(cluster.address) as program:
            sender = program.session().sender("ring", name="import")
            for number in range(1, last + 1):
                sender.send(b"%d" % number, number=number)
            sender.sync(5)
            assert sender.last_completed == last
    assert bodies(connection, "ring") == [b"3", b"4"]


@pytest.mark.usefixtures("time_passes")
def test_a_queue_that_is_nearly_full_holds_it_back(connection):
    connection.declare_queue("slow", max_count=5)
    sender = connection.session().sender("slow", name="import")
    for number in range(1, 6):
        sender.send(b"%d" % number)
    wait_until(lambda: sender.blocked)
    assert sender.last_completed < 5
    with connection.session().receiver("slow", accept=False) as receiver:
        for _ in range(5):
            receiver.get(timeout=5)
    sender.sync(5)
    assert sender.last_completed == 5


async def test_the_asyncio_twin(cluster, connection):
    for last, repeated in ((2, 0), (3, 2)):
        async with connect_async(cluster.address) as program:
            sender = await program.session().sender("q", name="import")
            for number in range(1, last + 1):
                await sender.send(b"%d" % number, number=number)
            await sender.sync(5)
            assert (sender.repeated, sender.last_completed) == (repeated, last)
    assert bodies(connection) == [b"1", b"2", b"3"]


async def test_tasks_that_wait_for_room_put_each_message_under_its_own_number(cluster, connection):
    numbers = range(10, 200, 10)
    async with connect_async(cluster.address) as program:
        sender = await program.session().sender("q", capacity=2, name="lines")
        await asyncio.gather(*(sender.send(b"%d" % number, number=number) for number in numbers))
        await sender.sync(5)
    async with connect_async(cluster.address) as program:
        sender = await program.session().sender("q", capacity=2, name="lines")
        assert sender.last_completed == numbers[-1]
        await asyncio.gather(*(sender.send_later(b"again", delay=60, number=number) for number in (190, 191, 200)))
        await sender.sync(5)
        assert (sender.repeated, sender.last_completed) == (1, 200)
    assert bodies(connection) == [b"%d" % number for number in numbers] + [b"again"] * 2


def test_threads_that_wait_for_room_put_each_message_under_its_own_number(cluster, connection):
    sender = connection.session().sender("q", capacity=1, name="lines")
    taken = list(range(1, 60))
    turn = threading.Lock()
    refused: list[int] = []

    def send() -> None:
        while True:
            with turn:
                if not taken:
                    return
                number = taken.pop(0)
            try:
                sender.send(b"%d" % number, number=number, timeout=5)
            except Invalid:  # the other thread's, which is higher, was first
                refused.append(number)

    threads = [threading.Thread(target=send) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(15)
    sender.sync(5)
    came = [int(body) for body in bodies(connection)]
    assert came == sorted(came) and sorted(came + refused) == list(range(1, 60))
    assert sender.last_completed == max(came)
