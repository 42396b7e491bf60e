"""Queues and exchanges on demand, as their users see them, through both clients."""

from __future__ import annotations

import threading
import time

import pytest
from mantamq.client import Deleted, Exists, Invalid, NotAllowed, NotFound, Unavailable, connect, connect_async

pytestmark = [pytest.mark.timeout(20), pytest.mark.usefixtures("time_passes")]


def names(connection):
    return [one["name"] for one in connection.queues()]


def test_whoever_attaches_makes_it(cluster, connection):
    with pytest.raises(NotFound):
        connection.session().sender("jobs.a")
    assert connection.add_pattern("jobs", "^jobs[.]", queue={"max_count": 2, "overflow": "ring"})
    assert not connection.add_pattern("jobs", "^jobs[.]", queue={"max_count": 2, "overflow": "ring"})
    with connect(cluster.addresses["b2"]) as other:
        receiver = other.session().receiver("jobs.a")
        found = other.queue("jobs.a")
        assert found["definition"]["max_count"] == 2 and found["definition"]["overflow"] == "ring"
        sender = connection.session().sender("jobs.a")
        sender.send(b"1")
        sender.sync(5)
        assert receiver.fetch(5).body == b"1"
        assert names(connection) == ["jobs.a"], "the one that is there"
        sender = connection.session().sender("jobs.b")
        for n in range(3):
            sender.send(str(n))
        sender.sync(5)
        assert [one.body for one in other.session().browse("jobs.b")] == [b"1", b"2"]
        assert list(other.session().browse("jobs.c")) == [] and "jobs.c" in names(other)
        assert not other.declare_queue("jobs.c", max_count=2, overflow="ring"), "as anybody would have declared it"
        with pytest.raises(Exists):
            other.declare_queue("jobs.c")
        with pytest.raises(NotFound):
            other.session().receiver("job")
        other.delete_pattern("jobs")
        with pytest.raises(NotFound, match=r"there is no queue 'jobs\.d'"):
            other.session().receiver("jobs.d")
        with pytest.raises(NotFound, match="there is no pattern 'jobs'"):
            other.delete_pattern("jobs")
        assert names(other) == ["jobs.a", "jobs.b", "jobs.c"], "what was made stays"


def test_exchanges(connection):
    connection.add_pattern("news", "^news", exchange={"type": "topic"})
    connection.add_pattern("some", "^n", queue={})
    sender = connection.session().sender("news")
    (made,) = [one for one in connection.exchanges() if one["name"] == "news"]
    assert made["type"] == "topic"
    connection.declare_queue("q")
    connection.bind("news", "q", "eu.#")
    sender.send_to(b"hello", ["eu.x"])
    sender.sync(5)
    assert [one.body for one in connection.session().browse("q")] == [b"hello"]
    connection.session().sender("news2/eu")
    assert "news2" in [one["name"] for one in connection.exchanges()]
    with pytest.raises(NotFound):
        connection.session().receiver("news3")
    assert names(connection) == ["q"], "the name is an exchange's, by the first pattern"
    connection.add_pattern("some", "^n", queue={}, priority=1)
    connection.session().receiver("news3")
    assert names(connection) == ["news3", "q"]


def test_what_a_declaration_is_refused_for_attaching_is(connection):
    connection.add_pattern("p", "^.*$", queue={"alternate": "dead", "dead_letters": "rejected"})
    with pytest.raises(NotFound, match="alternate"):
        connection.session().receiver("a")
    connection.declare_exchange("dead", "fanout")
    connection.session().receiver("a")
    assert connection.queue("a")["alternate"] == "dead"
    with pytest.raises(NotAllowed, match=r"names that begin with manta\.exchange"):
        connection.session().receiver("manta.exchange.x")
    with pytest.raises(Invalid, match="control characters"):
        connection.session().sender("a\nb")
    with connect(connection.address, rescue=True) as looking, pytest.raises(NotFound):
        looking.session().receiver("c", mode="browse")


def test_a_queue_that_goes_is_made_again_for_who_comes_anew(connection):
    connection.add_pattern("p", "^t", queue={"auto_delete": True, "auto_delete_timeout_s": 0, "message_ttl_s": 0.5})
    session = connection.session()
    receiver = session.receiver("t")
    first = connection.queue("t")["id"]
    sender = session.sender("t")
    receiver.close()
    while connection.queue_exists("t"):
        time.sleep(0.01)
    with pytest.raises(Deleted):
        sender.send(b"")
        sender.sync(5)
    session.receiver("t")
    assert connection.queue("t")["id"] != first


def test_what_there_is(connection):
    connection.add_pattern(
        "b", "^b", queue={"max_count": 3, "retry_delay_s": (1, 2), "arguments": {"qpid.priorities": 3}}
    )
    connection.add_pattern("a", "^a", exchange={"type": "fanout", "auto_delete": True, "internal": False}, priority=-4)
    one, two = connection.patterns()
    assert (one["name"], one["makes"], one["priority"]) == ("a", "exchange", -4)
    assert one["settings"] == {"type": "fanout", "auto_delete": True}
    assert two["pattern"] == "^b" and two["settings"]["retry_delay_s"] == [1, 2]
    assert two["settings"]["max_count"] == 3 and two["settings"]["priorities"] == 3


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "give one of queue= and exchange="),
        ({"queue": {}, "exchange": {}}, "give one of queue= and exchange="),
        ({"queue": {"max_cont": 3}}, "= has 'max_cont': leave it out"),
        ({"queue": {"exclusive": True}}, "= has 'exclusive': leave it out"),
        ({"queue": {"lifetime": "delete-on-close"}}, "cannot be one client's alone"),
        ({"queue": {"max_count": 0}}, r"argument 'qpid.max_count' \(max_count\) is 0"),
        ({"queue": {"overflow": "ring"}}, "needs a limit"),
        ({"queue": {"dead_letter_key": "k"}}, "needs an alternate exchange"),
        ({"queue": 3}, "give the keywords of declare_queue"),
        ({"exchange": {"type": "fan"}}, "an exchange's type is one of"),
        ({"exchange": {"arguments": {"qpid.nothing": 1}}}, "there is no exchange argument"),
        ({"queue": {}, "priority": 1 << 40}, "add_pattern"),
    ],
)
def test_what_is_refused(connection, given, why):
    with pytest.raises(Invalid, match=why):
        connection.add_pattern("p", "^p", **given)
    with pytest.raises(Invalid, match="a group has no end"):
        connection.add_pattern("p", "(p", queue={})
    assert connection.patterns() == []


def test_older_members_have_none(cluster, connection):
    cluster.cluster.machines["b1"].cluster.versions.least = 11
    with pytest.raises(Unavailable, match="upgrade all members first"):
        connection.add_pattern("p", ".*", queue={})


async def test_the_asyncio_twin(cluster):
    async with connect_async(cluster.address) as connection:
        assert await connection.add_pattern("p", "^q", queue={"max_count": 7})
        sender = await connection.session().sender("q1")
        await sender.send(b"1")
        await sender.sync(5)
        receiver = await connection.session().receiver("q1")
        assert (await receiver.fetch(5)).body == b"1"
        assert (await connection.queue("q1"))["definition"]["max_count"] == 7
        assert [one["name"] for one in await connection.patterns()] == ["p"]
        await connection.delete_pattern("p")
        assert await connection.patterns() == []


def test_a_request_makes_its_queue(connection):
    connection.add_pattern("p", "^rpc", queue={})
    session = connection.session()
    server = session.receiver("rpc.add")

    def serve():
        message = server.fetch(5)
        session.reply(message, b"2")
        session.acknowledge(message)

    thread = threading.Thread(target=serve)
    thread.start()
    assert connection.request("rpc.add", b"1+1", timeout_s=5).body == b"2"
    thread.join()
