"""The synchronous client against a broker's machines behind a socket."""

from __future__ import annotations

import threading

import pytest
from fake_broker import FakeBroker, wait_until
from mantamq.client import (
    ConnectionLost,
    Deleted,
    Empty,
    Exists,
    Full,
    Invalid,
    Message,
    NoStore,
    NotAllowed,
    NotFound,
    Timeout,
    TooLarge,
    Unauthorized,
    connect,
)
from mantamq.protocol.limits import Limits
from mantamq.protocol.wire.client_frames import Blocked, Completed, Dispose, Failed, Flow, Transfer


@pytest.fixture
def broker():
    with FakeBroker() as broker:
        yield broker


@pytest.fixture
def connection(broker):
    with connect(broker.address) as connection:
        connection.declare_queue("q")
        yield connection


@pytest.fixture
def session(connection):
    return connection.session()


def bodies(receiver, count):
    return [receiver.fetch(timeout=5).body for _ in range(count)]


def numbered(count):
    return [b"%d" % i for i in range(count)]


# ---- opening


def test_a_connection_knows_its_broker(connection):
    assert connection.broker == "b1" and list(connection.members) == ["b1"]


def test_a_wrong_token_is_refused():
    with FakeBroker(token="right") as broker:
        with connect(broker.address, token="right"):
            pass
        with pytest.raises(Unauthorized, match="token"):
            connect(broker.address, token="wrong")


def test_the_first_broker_that_answers_is_taken(broker):
    with connect(["127.0.0.1:1", broker.address]) as connection:
        assert connection.broker == "b1"
    with connect(f"127.0.0.1:1,{broker.address}") as connection:
        assert connection.broker == "b1"


def test_nobody_answers():
    with pytest.raises(ConnectionLost, match=r"127\.0\.0\.1:1"):
        connect("127.0.0.1:1")


@pytest.mark.parametrize("address", ["nowhere", "host:", ":1", "host:0", "host:99999"])
def test_an_address_of_another_form(address):
    with pytest.raises(Invalid, match="host:port"):
        connect(address)


# ---- commands


def test_declaring_twice_alike_and_differently(connection):
    assert connection.declare_queue("other") is True
    assert connection.declare_queue("other") is False
    with pytest.raises(Exists):
        connection.declare_queue("other", arguments={"mine": 1})
    with pytest.raises(NotFound):
        connection.declare_queue("none", passive=True)


def test_nothing_is_declared_durable_where_there_is_no_store(connection):
    for name in ("lasting", "q"):  # a new one, and one that is there
        with pytest.raises(NoStore, match=r"--data DIR") as caught:
            connection.declare_queue(name, durable=True)
        assert caught.value.code == "no-store"
    with pytest.raises(NotFound):
        connection.queue("lasting")


def test_questions_about_queues_exchanges_and_bindings(connection):
    connection.declare_exchange("news", type="topic")
    connection.bind("news", "q", key="a.#")
    assert [queue["name"] for queue in connection.queues()] == ["q"]
    assert connection.queue("q")["messages"] == 0
    assert "news" in [exchange["name"] for exchange in connection.exchanges()]
    assert {"exchange": "news", "queue": "q", "key": "a.#", "arguments": {}} in connection.bindings()
    assert connection.status()["broker"] == "b1"
    connection.unbind("news", "q", key="a.#")
    connection.delete_exchange("news")
    connection.delete_queue("q")
    with pytest.raises(NotFound):
        connection.queue("q")


def test_purge_says_how_many(connection, session):
    sender = session.sender("q")
    for body in numbered(3):
        sender.send(body)
    sender.sync()
    assert connection.purge("q", 2) == 2
    assert connection.purge("q") == 1


# ---- sending


def test_messages_arrive_in_order_with_all_they_carry(session):
    sender = session.sender("q")
    sender.send(Message(b"1", subject="s", properties={"n": 1}, priority=3, correlation_id="c", message_id="m"))
    sender.send("two")
    sender.send(b"3")
    sender.sync()
    assert sender.unsettled == 0
    receiver = session.receiver("q")
    first, second, third = (receiver.fetch(timeout=5) for _ in range(3))
    assert (first.subject, first.properties, first.priority) == ("s", {"n": 1}, 3)
    assert (first.queue, first.position, first.redelivered, first.delivery_count) == ("q", 1, False, 0)
    assert (second.body, second.content_type) == (b"two", "text/plain")
    assert third.body == b"3"


def test_single_sends_become_batches_on_the_wire(broker, session):
    sender = session.sender("q")
    broker.hold(Completed)
    for body in numbered(1000):
        sender.send(body)
    broker.let_go()
    sender.sync()
    transfers = broker.said(Transfer)
    assert sum(len(frame.blobs) for frame in transfers) == 1000 and len(transfers) < 50
    assert bodies(session.receiver("q"), 1000) == numbered(1000)


def test_a_send_waits_while_much_waits_for_the_brokers_room(broker, connection, session):
    sender = session.sender("q", capacity=1000)
    broker.inject(Blocked(True))
    wait_until(lambda: connection._conversation.gate.blocked)
    with pytest.raises(Full, match="no room"):
        for _ in range(100):
            sender.send_nowait(bytes(1024 * 1024))
    taken = sender.unsettled
    assert 8 <= taken <= 10, "MiB: it is kept in memory"
    sending = threading.Thread(target=sender.send, args=(b"last",))
    sending.start()
    wait_until(lambda: sender._core.waiters)
    assert not broker.said(Transfer)
    broker.inject(Blocked(False))
    sending.join(5)
    assert not sending.is_alive()
    sender.sync(5)
    assert connection.queue("q")["messages"] == taken + 1


def test_capacity_is_kept(broker, session):
    sender = session.sender("q", capacity=3)
    broker.hold(Completed)
    for body in numbered(3):
        sender.send_nowait(body)
    with pytest.raises(Full):
        sender.send_nowait(b"x")
    sent = threading.Event()
    thread = threading.Thread(target=lambda: (sender.send(b"3"), sent.set()))
    thread.start()
    assert not sent.is_set()
    broker.let_go()
    thread.join(5)
    assert sent.is_set()
    sender.sync()
    assert bodies(session.receiver("q"), 4) == numbered(4)


def test_sync_in_time(broker, session):
    sender = session.sender("q")
    broker.hold(Completed)
    sender.send(b"x")
    with pytest.raises(Timeout, match="1 message"):
        sender.sync(timeout=0.01)
    broker.let_go()
    sender.sync(timeout=5)


def test_a_failure_is_raised_once_with_its_numbers(broker, session):
    sender = session.sender("q")
    broker.hold(Completed)
    sender.send(b"x")
    broker.inject(Failed(1, [1, 1], "not-found", "there is no queue"))
    with pytest.raises(NotFound) as caught:
        sender.sync(timeout=5)
    assert caught.value.numbers == [1, 1]
    assert sender.unsettled == 0


def test_a_message_that_is_too_large_is_refused_here():
    with FakeBroker(limits=Limits(message_bytes=100)) as broker, connect(broker.address) as connection:
        connection.declare_queue("q")
        sender = connection.session().sender("q")
        with pytest.raises(TooLarge, match="100"):
            sender.send(b"x" * 101)
        sender.send(b"y")
        sender.sync()
        assert broker.said(Transfer)[0].blobs == [b"\x91\xc4\x01y"]


def test_addresses_of_exchanges(connection, session):
    connection.declare_exchange("news", type="topic")
    connection.bind("news", "q", key="a.*")
    fixed, each = session.sender("news/a.b"), session.sender("news")
    fixed.send(b"1")
    fixed.sync()
    each.send(Message(b"2", subject="a.c"))
    each.send(Message(b"-", subject="b"))
    each.sync()
    assert bodies(session.receiver("q"), 2) == [b"1", b"2"]
    with pytest.raises(NotFound):
        session.sender("nobody")
    with pytest.raises(NotFound):
        session.sender("nobody/key")


def test_a_headers_exchange_gets_the_properties(connection, session):
    connection.declare_exchange("h", type="headers")
    connection.bind("h", "q", arguments={"x-match": "all", "n": 1})
    sender = session.sender("h")
    sender.send(Message(b"yes", properties={"n": 1}))
    sender.send(Message(b"no", properties={"n": 2}))
    sender.send(b"none")
    sender.sync()
    assert bodies(session.receiver("q"), 1) == [b"yes"]
    with pytest.raises(Empty):
        session.receiver("q").get()


def test_ttl_is_a_sparse_column(broker, session):
    sender = session.sender("q")
    broker.hold(Completed)
    sender.send(b"0")
    sender.send(b"1")
    sender.send(Message(b"2", ttl=1.5))
    broker.let_go()
    sender.sync()
    assert [frame.ttl for frame in broker.said(Transfer)] == [[], [1, 1500]]


# ---- receiving


def test_the_window_is_replenished_in_quarters(broker, session):
    sender = session.sender("q")
    for body in numbered(20):
        sender.send(body)
    sender.sync()
    receiver = session.receiver("q", capacity=8)
    assert bodies(receiver, 20) == numbered(20)
    assert [frame.messages for frame in broker.said(Flow)] == [8] + [2] * 10


def test_fetching_from_an_empty_queue(session):
    receiver = session.receiver("q")
    with pytest.raises(Empty):
        receiver.fetch_nowait()
    with pytest.raises(Empty):
        receiver.fetch(timeout=0.01)
    with pytest.raises(Empty):
        receiver.get()


@pytest.mark.parametrize("capacity", [0, 1, 100])
def test_get_means_the_cluster(session, capacity):
    sender = session.sender("q")
    receiver = session.receiver("q", capacity=capacity)
    for body in numbered(3):
        sender.send(body)
        sender.sync()
        assert receiver.get().body == body
        with pytest.raises(Empty):
            receiver.get()


def test_without_a_window_nothing_is_sent_ahead(connection, session):
    sender = session.sender("q")
    for body in numbered(2):
        sender.send(body)
    sender.sync()
    receiver = session.receiver("q", capacity=0)
    assert receiver.fetch(timeout=5).body == b"0"
    assert connection.queue("q")["available"] == 1
    assert receiver.fetch(timeout=5).body == b"1"
    with pytest.raises(Empty):
        receiver.fetch(timeout=0.01)
    sender.send(b"late")
    sender.sync()
    assert connection.queue("q")["available"] == 1, "the credit of a fetch that gave up must be taken back"


def test_a_browser_takes_nothing(connection, session):
    sender = session.sender("q")
    sender.send(b"x")
    sender.sync()
    assert bodies(session.receiver("q", mode="browse"), 1) == [b"x"]
    assert connection.queue("q")["available"] == 1


def test_a_receiver_that_does_not_accept(connection, session):
    sender = session.sender("q")
    sender.send(b"x")
    sender.sync()
    message = session.receiver("q", accept=False).fetch(timeout=5)
    assert connection.queue("q")["messages"] == 0
    with pytest.raises(NotAllowed):
        session.acknowledge(message)


# ---- settling


@pytest.fixture
def ten(session):
    sender = session.sender("q")
    for body in numbered(10):
        sender.send(body)
    sender.sync()
    receiver = session.receiver("q")
    return receiver, [receiver.fetch(timeout=5) for _ in range(10)]


def test_acknowledged_messages_are_gone(connection, session, ten):
    for message in ten[1]:
        session.acknowledge(message)
    session.sync()
    assert connection.queue("q")["messages"] == 0 and session.lost == []


def test_all_that_was_fetched_is_acknowledged_in_one_frame(broker, connection, session, ten):
    session.acknowledge(ten[1][4])
    session.sync()
    session.acknowledge()
    session.sync()
    assert connection.queue("q")["messages"] == 0
    first, *others = broker.said(Dispose)
    assert first.runs[1:] == [5, 5]
    assert sum(frame.runs[i + 2] - frame.runs[i + 1] + 1 for frame in others for i in range(0, len(frame.runs), 3)) == 9


def test_released_messages_come_back_flagged(session, ten):
    receiver, messages = ten
    session.release(messages[2])
    again = receiver.fetch(timeout=5)
    assert (again.body, again.position, again.redelivered, again.delivery_count) == (b"2", 3, True, 1)


def test_rejected_messages_go_to_the_alternate_exchange(connection):
    connection.declare_queue("dead")
    connection.declare_queue("source", alternate="amq.fanout")
    connection.bind("amq.fanout", "dead")
    session = connection.session()
    sender = session.sender("source")
    sender.send(b"x")
    sender.sync()
    session.reject(session.receiver("source").fetch(timeout=5))
    assert session.receiver("dead").fetch(timeout=5).body == b"x"


def test_settling_twice_or_what_was_never_received(session, ten):
    session.acknowledge(ten[1][0])
    with pytest.raises(NotAllowed, match="settled"):
        session.acknowledge(ten[1][0])
    with pytest.raises(Invalid):
        session.acknowledge(Message(b"mine"))


def test_a_closed_receiver_gives_back_what_it_held(connection, session, ten):
    session.acknowledge(ten[1][0])
    session.sync()
    ten[0].close()
    assert connection.queue("q")["available"] == 9
    assert session.receiver("q").fetch(timeout=5).redelivered


# ---- the end of things


def test_a_deleted_queue_ends_its_links(connection, session):
    sender, receiver = session.sender("q"), session.receiver("q")
    connection.delete_queue("q")
    with pytest.raises(Deleted, match="'q'"):
        receiver.fetch(timeout=5)
    with pytest.raises(Deleted):
        sender.send(b"x")


def test_without_reconnection_a_lost_broker_ends_everything(broker):
    connection = connect(broker.address, reconnect_s=0)
    connection.declare_queue("q")
    session = connection.session()
    sender, receiver = session.sender("q"), session.receiver("q")
    failures = []

    def fetch():
        try:
            receiver.fetch()
        except ConnectionLost as error:
            failures.append(error)

    thread = threading.Thread(target=fetch)
    thread.start()
    broker.kick()
    thread.join(5)
    assert broker.address in str(failures[0])
    for operation in (lambda: sender.send(b"x"), receiver.fetch, lambda: connection.queue("q"), session.sync):
        with pytest.raises(ConnectionLost):
            operation()
