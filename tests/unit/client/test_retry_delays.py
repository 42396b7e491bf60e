"""Queues that give a message that came back only after a while."""

from __future__ import annotations

import pytest
from mantamq.client import Exists, Invalid, Unavailable

pytestmark = pytest.mark.timeout(20)


def test_it_waits_longer_each_time(cluster, connection):
    connection.declare_queue("q", retry_delay_s=[0.2, 1])
    session = connection.session()
    session.sender("q").send("1")
    receiver = session.receiver("q")
    for count, wait_ms in enumerate([200, 1000, 1000]):
        message = receiver.fetch(5)
        assert message.delivery_count == count
        session.modify(message, failed=True) if count % 2 else session.release(message)
        session.sync(5)
        cluster.pass_time(wait_ms - 50)
        assert not receiver.available and connection.queue("q")["delayed"] == 1
        cluster.pass_time(100)
    session.acknowledge(receiver.fetch(5))
    session.sync(5)


def test_it_waits_longer_by_the_same_each_time_up_to_a_bound(cluster, connection):
    connection.declare_queue("q", retry_delay_min_s=0.2, retry_delay_max_s=0.5)
    session = connection.session()
    session.sender("q").send("1")
    receiver = session.receiver("q")
    for wait_ms in (200, 400, 500, 500):
        session.release(receiver.fetch(5))
        session.sync(5)
        cluster.pass_time(wait_ms - 50)
        assert not receiver.available and connection.queue("q")["delayed"] == 1
        cluster.pass_time(100)
    session.acknowledge(receiver.fetch(5))
    session.sync(5)


def test_what_a_consumer_held_that_goes_waits_and_what_it_had_not_seen_does_not(cluster, connection):
    connection.declare_queue("q", retry_delay_s=[10])
    session = connection.session()
    sender = session.sender("q")
    sender.send("1")
    sender.send("2")
    sender.sync(5)
    receiver = session.receiver("q", 2)
    message = receiver.fetch(5)
    session.modify(message)
    session.sync(5)
    assert connection.queue("q")["delayed"] == 0
    assert receiver.fetch(5).position
    receiver.close()
    cluster.pass_time(100)
    assert connection.queue("q")["delayed"] == 2, "all that it had been sent"
    cluster.pass_time(10_000)
    assert connection.queue("q")["delayed"] == 0


@pytest.mark.parametrize("delays", [[], [-1], ["soon"], [1] * 101, 5])
def test_what_is_no_back_off_is_refused(connection, delays):
    with pytest.raises(Invalid, match=r"retry_delay_s.*\[1, 5, 30\]"):
        connection.declare_queue("q", arguments={"manta.retry_delay_s": delays})
    with pytest.raises(Invalid, match=r"retry_delay_s.*\[1, 5, 30\]"):
        connection.declare_queue("q", retry_delay_s=delays)


def test_a_number_alone_is_refused_and_what_may_be_meant_is_said(connection):
    with pytest.raises(Invalid, match=r"\(retry_delay_s\) is 5.*retry_delay_min_s=5 for 5, 10, 15"):
        connection.declare_queue("q", retry_delay_s=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"retry_delay_s": [1], "retry_delay_min_s": 1}, "two ways to say how long"),
        ({"retry_delay_s": [1], "retry_delay_max_s": 1}, "two ways to say how long"),
        ({"retry_delay_max_s": 1}, "is missing: give retry_delay_min_s"),
        ({"arguments": {"x-delayed-retry-type": "failed"}}, "is missing: give retry_delay_min_s"),
        ({"retry_delay_min_s": 2, "retry_delay_max_s": 1.5}, "retry_delay_max_s 1.5 is below retry_delay_min_s 2"),
        ({"retry_delay_min_s": 0}, r"\(retry_delay_min_s\) is 0: give a number of milliseconds"),
        ({"retry_delay_min_s": -1}, "give a number of seconds, at least 0"),
        ({"retry_delay_min_s": 1, "arguments": {"x-delayed-retry-type": "all"}}, "give failed"),
    ],
)
def test_what_contradicts_itself_is_refused(connection, given, said):
    with pytest.raises(Invalid, match=said):
        connection.declare_queue("q", **given)


def test_rabbitmqs_words_mean_the_same(connection):
    said = {"x-delayed-retry-min": 5000, "x-delayed-retry-max": 60_000, "x-delayed-retry-type": "failed"}
    assert connection.declare_queue("q", arguments=said)
    assert not connection.declare_queue("q", retry_delay_min_s=5, retry_delay_max_s=60)
    assert connection.queue("q")["definition"] == {"retry_delay_min_s": 5, "retry_delay_max_s": 60}
    assert connection.declare_queue("r", arguments=said | {"x-delayed-retry-type": "disabled"})
    assert connection.queue("r")["definition"] == {}


def test_it_is_part_of_what_a_queue_is(cluster, connection):
    assert connection.declare_queue("q", retry_delay_s=[1, 5])
    assert not connection.declare_queue("q", retry_delay_s=(1.0, 5.0))
    assert connection.queue("q")["definition"] == {"retry_delay_s": [1, 5]}
    with pytest.raises(Exists):
        connection.declare_queue("q")
    broker = cluster.cluster.machines["b1"]
    cluster.call(lambda: setattr(broker.cluster.versions, "least", 11))
    with pytest.raises(Unavailable, match="of an older version"):
        connection.declare_queue("r", retry_delay_s=[1])
    with pytest.raises(Unavailable, match="of an older version"):
        connection.declare_queue("r", retry_delay_min_s=1)
