"""What becomes a dead letter, what it says of that, and where it goes."""

from __future__ import annotations

from typing import Any

import pytest
from fake_broker import wait_until
from mantamq.client import Exists, Invalid, connect
from mantamq.client.message import Message

pytestmark = [pytest.mark.timeout(20), pytest.mark.usefixtures("lost")]


@pytest.fixture
def session(connection):
    return connection.session()


def send(session, *messages: Any, queue: str = "q") -> None:
    sender = session.sender(queue)
    for message in messages:
        sender.send(message)
    sender.sync(5)


def letters(cluster, connection, count: int, queue: str = "dead") -> list[Message]:
    """All that is in a queue, when so many are."""

    def there() -> bool:
        cluster.pass_time(100)
        return connection.queue(queue)["messages"] >= count

    wait_until(there)
    found = list(connection.session().browse(queue))
    assert len(found) == count
    return found


def causes(found: list[Message]) -> list[tuple[bytes, Any]]:
    return [(message.body, (message.properties or {}).get("manta.death_cause")) for message in found]


def test_what_expires_goes_there(cluster, connection, session):
    connection.declare_queue("q", alternate="lost")
    send(session, Message(b"1", ttl=0.2), b"2", Message(b"3", ttl=0.2))
    assert causes(letters(cluster, connection, 2)) == [(b"1", "expired"), (b"3", "expired")]
    told = connection.queue("q")
    assert (told["messages"], told["expired"], told["dead_expired"]) == (1, 0, 2)
    cluster.pass_time(5000)
    assert connection.queue("dead")["messages"] == 2, "there it does not expire"


def test_and_does_not_where_only_rejected_messages_are_to(cluster, connection, session):
    connection.declare_queue("q", alternate="lost", dead_letters="rejected")
    send(session, b"1")
    with session.receiver("q") as receiver:
        session.reject(receiver.fetch(5))
        session.sync(5)
    send(session, Message(b"2", ttl=0.2))
    wait_until(lambda: (cluster.pass_time(100), connection.queue("q")["expired"] == 1)[1])
    assert causes(letters(cluster, connection, 1)) == [(b"1", "rejected")]


def test_what_comes_back_too_often_goes_there_and_says_how_often(cluster, connection, session):
    connection.declare_queue("q", alternate="lost", delivery_limit=2)
    send(session, b"poison")
    receiver = session.receiver("q", capacity=1)
    for delivered in range(3):
        message = receiver.fetch(5)
        assert message.delivery_count == delivered
        session.release(message)
        session.sync(5)
    (letter,) = letters(cluster, connection, 1)
    assert causes([letter]) == [(b"poison", "delivery_limit")]
    assert (letter.properties or {})["manta.death_deliveries"] == 3
    assert connection.queue("q")["dead_too_often"] == 1


@pytest.mark.parametrize(("give_back", "counts"), [
    (lambda session, message: session.release(message), True),
    (lambda session, message: session.modify(message, failed=True), True),
    (lambda session, message: session.modify(message), False),
])  # fmt: skip
def test_which_outcomes_count(cluster, connection, session, give_back, counts):
    connection.declare_queue("q", alternate="lost", delivery_limit=1)
    send(session, b"x")
    receiver = session.receiver("q", capacity=1)
    for _ in range(2):
        give_back(session, receiver.fetch(5))
        session.sync(5)
    assert connection.queue("q")["messages"] == (0 if counts else 1)


def test_a_connection_that_ends_counts_for_all_that_it_had(cluster, connection, session):
    connection.declare_queue("q", alternate="lost", delivery_limit=1)
    send(session, b"fetched", b"in store")
    for _ in range(2):
        with connect(cluster.address) as other:
            assert other.session().receiver("q", capacity=10).fetch(5).body == b"fetched"
    found = causes(letters(cluster, connection, 2))
    assert found == [(b"fetched", "delivery_limit"), (b"in store", "delivery_limit")]


def test_without_an_alternate_it_is_discarded(cluster, connection, session):
    connection.declare_queue("q", delivery_limit=1)
    send(session, b"x")
    receiver = session.receiver("q", capacity=1)
    for _ in range(2):
        session.release(receiver.fetch(5))
        session.sync(5)
    told = connection.queue("q")
    assert (told["messages"], told["discarded"], told["discarded_too_often"]) == (0, 1, 1)


def test_the_oldest_that_waits_makes_room(cluster, connection, session):
    connection.declare_queue("q", alternate="lost", max_count=2, overflow="dead-letter")
    send(session, b"1")
    held = session.receiver("q", capacity=1).fetch(5)
    wait_until(lambda: (cluster.pass_time(10), connection.queue("q")["acquired"] == 1)[1])
    send(session, b"2", b"3", b"4")
    assert causes(letters(cluster, connection, 2)) == [(b"2", "maxlen"), (b"3", "maxlen")]
    session.acknowledge(held)
    session.sync(5)
    told = connection.queue("q")
    assert (told["accepted"], told["messages"], told["dead_pushed_out"], session.lost) == (1, 1, 2, [])


def test_by_its_own_key(cluster, connection, session):
    connection.declare_exchange("sorted", "direct")
    connection.declare_queue("late")
    connection.bind("sorted", "late", "by-key")
    connection.declare_queue("q", alternate="sorted", dead_letter_key="by-key")
    send(session, b"x")
    session.reject(session.receiver("q").fetch(5))
    assert causes(letters(cluster, connection, 1, "late")) == [(b"x", "rejected")]


def test_in_rabbitmqs_words(cluster, connection, session):
    words = {"x-dead-letter-exchange": "lost", "x-max-length": 1, "x-delivery-limit": 3}
    connection.declare_queue("q", arguments=words)
    assert not connection.declare_queue("q", arguments=words), "again it is the same"
    assert not connection.declare_queue("q", alternate="lost", max_count=1, overflow="dead-letter", delivery_limit=3)
    send(session, b"1", b"2")
    (letter,) = letters(cluster, connection, 1)
    (death,) = (letter.properties or {})["x-death"]
    assert (death["queue"], death["reason"], death["count"]) == ("q", "maxlen", 1)
    for wrong in ({"x-dead-letter-exchange": ""}, {"x-dead-letter-exchange": 3}):
        with pytest.raises(Invalid, match="x-dead-letter-exchange"):
            connection.declare_queue("r", arguments=wrong)
    with pytest.raises(Invalid, match="give one"):
        connection.declare_queue("r", alternate="amq.fanout", arguments={"x-dead-letter-exchange": "lost"})


def test_a_queue_that_is_bound_to_its_own_alternate_does_not_go_round(cluster, connection, session):
    connection.declare_exchange("round", "fanout")
    for name in ("q", "r"):
        connection.declare_queue(name, alternate="round", max_count=1, overflow="dead-letter")
        connection.bind("round", name)
    send(session, b"1", b"2")
    told = [message.body for name in ("q", "r") for message in letters(cluster, connection, 1, name)]
    assert told == [b"2", b"1"]
    send(session, b"3")
    cluster.pass_time(2000)
    assert [connection.queue(name)["messages"] for name in ("q", "r")] == [1, 1]
    assert connection.queue("q")["dead_lettered"] == 2


@pytest.mark.parametrize("options", [
    {"overflow": "dead-letter", "max_count": 3}, {"dead_letters": "all"}, {"dead_letter_key": "k"},
    {"delivery_limit": 0}, {"delivery_limit": "many"}, {"dead_letters": "some", "alternate": "lost"},
    {"overflow": "dead-letter", "alternate": "lost"},
    {"overflow": "dead-letter", "alternate": "lost", "max_count": 3, "last_value_key": "k"},
])  # fmt: skip
def test_what_cannot_be_is_refused_and_creates_nothing(connection, options):
    with pytest.raises(Invalid):
        connection.declare_queue("q", **options)
    assert [queue["name"] for queue in connection.queues()] == ["dead"]


def test_declared_again_with_other_letters_it_is_another(connection):
    connection.declare_queue("q", alternate="lost")
    assert not connection.declare_queue("q") and not connection.declare_queue("q", alternate="lost")
    with pytest.raises(Exists):
        connection.declare_queue("q", alternate="lost", dead_letters="rejected")
    with pytest.raises(Exists):
        connection.declare_queue("q", alternate="lost", delivery_limit=3)
