"""The synchronous client through the loss of its broker: two brokers of one cluster behind sockets."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import pytest
from fake_broker import FakeBroker, wait_until
from mantamq.client import ConnectionLost, Empty, LinkClosed, NotAllowed, connect
from mantamq.client.books.reconnect import FIRST_WAIT_S, FLAPS, LONGEST_WAIT_S, SETTLED_S, Reconnecting, Search
from mantamq.client.message import Message
from mantamq.protocol.wire.client_frames import (
    AttachReceiver,
    AttachSender,
    Command,
    Completed,
    Disposed,
    MembersChanged,
    Open,
    Reply,
    Transfer,
)
from mantamq.protocol.wire.link_frames import Refused
from mantamq.protocol.wire.message import decode, encode

pytestmark = pytest.mark.timeout(20)


@pytest.fixture
def cluster():
    with FakeBroker(2) as cluster:
        yield cluster


@pytest.fixture
def connection(cluster):
    with connect(cluster.address, reconnect_s=10, heartbeat_ms=200) as connection:
        connection.declare_queue("q")
        yield connection


@pytest.fixture
def session(connection):
    return connection.session()


def in_thread(function):
    box = []

    def run():
        try:
            box.append(function())
        except BaseException as error:
            box.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.box = box
    thread.start()
    return thread


def result(thread):
    thread.join(10)
    assert not thread.is_alive()
    return thread.box[0]


def there(connection, reconnects=1):
    wait_until(lambda: connection.reconnects == reconnects)


def bodies_of(cluster, queue="q"):
    """What is in the queue, in order, at every broker alike."""
    cluster.pass_time(1000)

    def look():
        contents = [[s.blobs[p] for p in sorted(s.blobs)] for s in cluster.cluster.queue_states(queue)]
        assert contents[0] == contents[1]
        return [decode(blob, Message).body for blob in contents[0]]

    return cluster.call(look)


# ---- sending


@pytest.mark.parametrize("how", ["cut", "frozen"])
def test_what_is_not_complete_is_sent_again_and_applied_once(cluster, connection, session, how):
    sender = session.sender("q", capacity=1000)
    cluster.hold(Completed)
    for i in range(300):
        sender.send(b"%d" % i)
    thread = in_thread(sender.sync)
    wait_until(lambda: cluster.said(Transfer))
    if how == "cut":
        cluster.shut("b1")
    else:
        cluster.freeze("b1")
    there(connection)
    cluster.let_go()
    assert result(thread) is None
    assert connection.broker == "b2" and sender.unsettled == 0
    for i in range(300, 310):
        sender.send(b"%d" % i)
    sender.sync(5)
    firsts = [transfer.first for transfer in cluster.said(Transfer)]
    assert len(firsts) > len(set(firsts)), "nothing was sent again: the test proves nothing"
    assert bodies_of(cluster) == [b"%d" % i for i in range(310)]
    if how == "frozen":  # what the lost broker hears only now is a repeat
        cluster.thaw()
        assert len(bodies_of(cluster)) == 310


def test_the_client_and_its_handles_stay_the_same_and_numbers_go_on(cluster, connection, session):
    sender = session.sender("q")
    for _ in range(5):
        sender.send(b"x")
        sender.sync(5)
    cluster.shut("b1")
    there(connection)
    sender.send(b"y")
    sender.sync(5)
    assert len({open.client for open in cluster.said(Open)}) == 1
    first, again = cluster.said(AttachSender)
    assert again.handle == first.handle and again.next == 6 and cluster.said(Transfer)[-1].first == 6
    assert len(bodies_of(cluster)) == 6


# ---- another cluster at an address


@pytest.fixture
def other():
    with FakeBroker() as other:
        other.cluster.machines["b1"].connections.cluster = "two"
        yield other


def test_a_broker_of_another_cluster_does_not_take_over(cluster, other):
    for broker in ("b1", "b2"):
        cluster.cluster.machines[broker].connections.cluster = "one"
    with connect([cluster.address, other.address], reconnect_s=10, heartbeat_ms=200) as connection:
        connection.declare_queue("q")
        sender = connection.session().sender("q")
        cluster.freeze("b2")  # the other cluster is asked before b1 is again
        cluster.hold(Completed)
        sender.send(b"1")
        thread = in_thread(sender.sync)
        wait_until(lambda: cluster.said(Transfer))
        cluster.kick("b1")
        there(connection)
        cluster.let_go()
        assert result(thread) is None and bodies_of(cluster) == [b"1"]
        assert other.said(Open), "it was not tried: the test proves nothing"
        assert {type(frame) for frame in other.received} == {Open}


def test_where_only_another_cluster_answers_the_error_says_so(cluster, other):
    cluster.cluster.machines["b1"].connections.cluster = "one"
    cluster.know("b1")
    with connect([cluster.address, other.address], reconnect_s=0.5, heartbeat_ms=200) as connection:
        session = connection.session()
        connection.declare_queue("q")
        receiver = session.receiver("q")
        cluster.shut("b1")
        with pytest.raises(ConnectionLost, match=rf"{other.address} \(another cluster's\)"):
            receiver.fetch(timeout=10)


def test_the_next_broker_lets_it_in_when_it_knows_as_much_of_the_wiring(cluster):
    for broker in ("b1", "b2"):
        cluster.cluster.machines[broker].connections.cluster = "one"
    with connect(cluster.address, reconnect_s=10, heartbeat_ms=2000) as connection:
        connection.declare_queue("q")
        state = cluster.cluster.machines["b2"].cluster
        knows = state.keeper.commit
        cluster.call(lambda: setattr(state.keeper, "commit", knows - 1))  # it has not heard of that yet
        cluster.shut("b1")
        wait_until(lambda: cluster.said(Open)[-1].wired == knows)
        assert connection.reconnects == 0
        cluster.call(lambda: (setattr(state.keeper, "commit", knows), state.applied(), cluster.pump()))
        wait_until(lambda: connection.reconnects == 1)
        sender = connection.session().sender("q")
        sender.send(b"1")
        sender.sync(5)


def test_complete_transfers_are_not_sent_again(cluster, connection, session):
    sender = session.sender("q")
    sender.send(b"1")
    sender.sync(5)
    cluster.hold(Completed)
    sender.send(b"2")
    cluster.shut("b1")
    there(connection)
    cluster.let_go()
    sender.sync(5)
    assert [t.first for t in cluster.said(Transfer)] == [1, 2, 2]


def test_sends_wait_while_there_is_no_broker_and_capacity_still_bounds_them(cluster, connection, session):
    sender = session.sender("q", capacity=3)
    cluster.freeze("b1", "b2")
    for i in range(3):
        sender.send(b"%d" % i)
    fourth = in_thread(lambda: sender.send(b"3"))
    wait_until(lambda: not connection._conversation.online)
    time.sleep(0.05)
    assert fourth.is_alive()
    cluster.thaw()
    result(fourth)
    sender.sync(5)
    assert len(bodies_of(cluster)) == 4


def test_a_sender_opened_after_a_detach_of_another_is_not_confused(connection, session):
    for i in range(3):
        with session.sender("q") as sender:
            sender.send(b"%d" % i)
    assert connection.queue("q")["messages"] == 3


# ---- receiving


def sent(session, *bodies):
    sender = session.sender("q")
    for body in bodies:
        sender.send(body)
    sender.sync(5)


def test_what_was_accepted_does_not_come_again_and_what_was_not_does(cluster, connection, session):
    sent(session, b"1", b"2", b"3", b"4")
    receiver = session.receiver("q", capacity=3)
    one, two, three = (receiver.fetch(5) for _ in range(3))
    session.acknowledge(one)
    session.sync(5)
    cluster.hold(Disposed)
    session.acknowledge(two)  # it happens, but we do not hear of it
    cluster.shut("b1")
    there(connection)
    cluster.let_go()
    session.sync(5)
    assert session.lost == [("q", 2)]
    session.acknowledge(three)
    assert session.lost == [("q", 2), ("q", 3)]
    with pytest.raises(NotAllowed):
        session.acknowledge(three)
    cluster.pass_time(100)
    again = [receiver.fetch(5) for _ in range(2)]
    assert [m.body for m in again] == [b"3", b"4"] and again[0].redelivered
    session.acknowledge()
    session.sync(5)
    assert bodies_of(cluster) == [] and len(session.lost) == 2


def test_accepts_a_frozen_broker_never_took_are_lost_and_the_messages_come_again(cluster, connection, session):
    sent(session, b"1", b"2")
    receiver = session.receiver("q")
    one, two = receiver.fetch(5), receiver.fetch(5)
    cluster.freeze("b1")
    session.acknowledge(one)
    session.release(two)
    there(connection)
    session.sync(5)
    assert session.lost == [("q", 1)], "a release needs no telling: the message is back anyway"
    cluster.kick("b1")
    cluster.call(lambda: [end._late.clear() for end in cluster._ends])  # its machine died with what it had not heard
    cluster.call(lambda: [end._late.append(None) for end in cluster._ends if end.name == "b1"])
    cluster.thaw()
    cluster.pass_time(100)
    assert sorted(receiver.fetch(5).body for _ in range(2)) == [b"1", b"2"]


def test_prefetched_messages_of_a_lost_broker_are_not_handed_out(cluster, connection, session):
    sent(session, *[b"%d" % i for i in range(10)])
    receiver = session.receiver("q", capacity=10)
    receiver.fetch(5)
    wait_until(lambda: receiver.available == 9)
    cluster.freeze("b1", "b2")
    wait_until(lambda: not connection._conversation.online)
    assert receiver.available == 0
    with pytest.raises(Empty):
        receiver.fetch(0.05)
    cluster.thaw()
    cluster.shut("b1")
    cluster.pass_time(100)
    got = [receiver.fetch(5) for _ in range(10)]
    session.acknowledge()
    session.sync(5)
    assert [m.body for m in got] == [b"%d" % i for i in range(10)] and bodies_of(cluster) == []


def test_a_fetch_under_way_and_a_get_live_through_it(cluster, connection, session):
    fetching = session.receiver("q", capacity=0)
    thread = in_thread(lambda: fetching.fetch(10))
    wait_until(lambda: fetching._core.credit == 1)
    cluster.shut("b1")
    there(connection)
    sent(session, b"1")
    cluster.pass_time(100)
    assert result(thread).body == b"1"
    session.acknowledge()
    session.sync(5)
    with pytest.raises(Empty):
        session.receiver("q").get()


def test_a_drain_under_way_is_asked_again(cluster, connection, session):
    receiver = session.receiver("q", capacity=0)
    cluster.freeze("b1")
    thread = in_thread(receiver.get)
    assert isinstance(result(thread), Empty)
    assert connection.broker == "b2"


def test_a_browser_goes_on_where_it_was(cluster, connection, session):
    sent(session, b"1", b"2", b"3")
    browser = session.receiver("q", mode="browse", capacity=2)
    assert browser.fetch(5).body == b"1"
    wait_until(lambda: browser.available == 1)
    cluster.shut("b1")
    there(connection)
    assert [browser.fetch(5).body for _ in range(2)] == [b"2", b"3"]
    with pytest.raises(Empty):
        browser.get()


def test_a_browser_sees_a_queue_that_was_declared_anew_from_its_beginning(cluster, connection, session):
    """While it is cut off, the queue is deleted and another one of that name declared."""
    sent(session, b"1", b"2", b"3")
    browser = session.receiver("q", mode="browse", capacity=5)
    assert [browser.fetch(5).body for _ in range(3)] == [b"1", b"2", b"3"]

    def swap() -> None:
        for end in list(cluster._ends):
            end.transport.abort()
        client = cluster.cluster.client("b2")
        assert client.command("delete_queue", name="q").code == ""
        assert client.command("declare_queue", name="q").code == ""
        client.send(AttachSender(1, "", "q"))
        client.send(Transfer(1, 1, [encode(Message(body)) for body in (b"4", b"5", b"6", b"7")]))

    cluster.call(swap)
    assert [browser.fetch(5).body for _ in range(4)] == [b"4", b"5", b"6", b"7"]


def test_what_need_not_be_settled_is_kept(cluster, connection, session):
    sent(session, b"1", b"2")
    receiver = session.receiver("q", capacity=5, accept=False)
    wait_until(lambda: receiver.available == 2)
    cluster.shut("b1")
    there(connection)
    assert [receiver.fetch(5).body for _ in range(2)] == [b"1", b"2"]
    sent(session, b"3")
    cluster.pass_time(100)
    assert receiver.fetch(5).body == b"3"


def test_a_queue_deleted_meanwhile_ends_only_its_own_links(cluster, connection, session):
    connection.declare_queue("other")
    gone, stays = session.receiver("other"), session.receiver("q")
    cluster.freeze("b1")
    with connect(cluster.addresses["b2"]) as second:
        second.delete_queue("other")
    with pytest.raises(LinkClosed, match="other"):
        gone.fetch(5)
    there(connection)
    cluster.thaw()
    assert not isinstance(gone._core.failure, ConnectionLost)
    sent(session, b"1")
    cluster.pass_time(100)
    assert stays.fetch(5).body == b"1"


# ---- commands


def test_a_question_under_way_is_asked_again_and_one_that_must_not_be_is_not(cluster, connection):
    cluster.hold(Reply)
    asking = [in_thread(lambda: connection.queue("q")), in_thread(lambda: connection.declare_queue("new"))]
    purging = in_thread(lambda: connection.purge("q"))
    wait_until(lambda: len(cluster.said(Command)) == 4)
    cluster.shut("b1")
    failure = result(purging)
    assert isinstance(failure, ConnectionLost) and "purge" in str(failure) and "look" in str(failure)
    there(connection)
    cluster.let_go()
    assert result(asking[0])["messages"] == 0
    assert result(asking[1]) is False  # it was declared the first time
    assert not connection._conversation.failure
    assert [c.name for c in cluster.said(Command)].count("purge") == 1


def test_an_unbind_that_had_happened_is_no_error(cluster, connection):
    connection.bind("amq.topic", "q", key="a")
    cluster.hold(Reply)
    unbinding = in_thread(lambda: connection.unbind("amq.topic", "q", key="a"))
    wait_until(lambda: cluster.call(lambda: any(c.name == "unbind" for c in cluster.received if type(c) is Command)))
    cluster.shut("b1")
    there(connection)
    cluster.let_go()
    assert result(unbinding) is None


def test_commands_and_attaches_asked_while_there_is_no_broker_wait_for_one(cluster, connection, session):
    cluster.freeze("b1", "b2")
    wait_until(lambda: not connection._conversation.online)
    asking = [
        in_thread(lambda: connection.purge("q")),  # never sent before, so it may be
        in_thread(lambda: session.receiver("q")),
        in_thread(lambda: session.sender("amq.topic/a")),
    ]
    wait_until(lambda: len(connection._conversation._asked) == 1 and len(connection._conversation._attaching) == 2)
    cluster.thaw()
    assert result(asking[0]) == 0
    assert result(asking[1]).fetch_nowait is not None and result(asking[2])._core.failure is None
    sent(session, b"1")
    cluster.pass_time(100)
    assert result(asking[1]).fetch(5).body == b"1"


def test_what_was_closed_meanwhile_is_not_attached_again(cluster, connection, session):
    receiver, sender = session.receiver("q"), session.sender("q")
    cluster.freeze("b1")
    closing = in_thread(receiver.close)
    assert result(closing) is None
    there(connection)
    sender.close()
    assert len(cluster.said(AttachReceiver)) == 1 and len(cluster.said(AttachSender)) == 2
    assert connection._conversation.links() == []


# ---- where to, and when to give up


def test_members_that_came_later_are_known(cluster):
    cluster.know("b1")
    with connect(cluster.address, heartbeat_ms=200) as connection:
        assert list(connection.members) == ["b1"]
        cluster.know("b1", "b2")
        wait_until(lambda: connection.members == cluster.addresses)
        cluster.shut("b1")
        there(connection)
        assert connection.broker == "b2" and connection.address == cluster.addresses["b2"]


def test_given_addresses_count_even_when_the_members_are_unreachable(cluster):
    with connect(list(cluster.addresses.values()), heartbeat_ms=200) as connection:
        cluster.inject(MembersChanged({"b1": "127.0.0.1:1", "b9": "127.0.0.1:2", "b8": "not an address"}))
        wait_until(lambda: len(connection.members) == 3)
        cluster.shut("b1")
        there(connection)
        assert connection.broker == "b2"


def test_the_application_hears_of_it_when_nobody_answers_in_time(cluster):
    connection = connect(cluster.address, reconnect_s=0.5, heartbeat_ms=200)
    connection.declare_queue("q")
    session = connection.session()
    sender, receiver = session.sender("q"), session.receiver("q")
    fetching = in_thread(receiver.fetch)
    begun = time.monotonic()
    cluster.freeze("b2")
    cluster.shut("b1")
    failure = result(fetching)
    assert 0.4 < time.monotonic() - begun < 4
    assert isinstance(failure, ConnectionLost)
    assert all(address in str(failure) for address in cluster.addresses.values())
    for operation in (lambda: sender.send(b"x"), receiver.fetch, lambda: connection.queue("q"), session.sync):
        with pytest.raises(ConnectionLost):
            operation()
    connection.close()


def test_the_same_broker_again_will_do(cluster, connection):
    cluster.shut("b2")
    cluster.kick("b1")
    there(connection)
    assert connection.broker == "b1" and connection.queue("q")["messages"] == 0


def test_a_broker_that_says_it_is_unavailable_is_left(cluster, connection, session):
    sender = session.sender("q")
    cluster.inject(Refused("unavailable", "it shuts down"))
    there(connection)
    sender.send(b"x")
    sender.sync(5)
    assert connection.broker == "b2"


def test_two_connections_of_one_client_do_not_fight(cluster, monkeypatch):
    """The newer wins; the older says so and stays away."""
    monkeypatch.setattr("mantamq.client.books.conversation.uuid.uuid4", lambda: SimpleNamespace(hex="me"))
    with connect(cluster.address) as older, connect(cluster.address) as newer:
        wait_until(lambda: older._conversation.failure)
        with pytest.raises(ConnectionLost, match="in-use"):
            older.queues()
        assert newer.queues() == [] and newer.reconnects == older.reconnects == 0


def test_closing_while_a_broker_is_looked_for(cluster, connection, session):
    receiver = session.receiver("q")
    fetching = in_thread(receiver.fetch)
    cluster.shut("b1", "b2")
    wait_until(lambda: not connection._conversation.online)
    begun = time.monotonic()
    connection.close()
    assert time.monotonic() - begun < 2 and isinstance(result(fetching), ConnectionLost)


def test_threads_are_not_piled_up(cluster, connection):
    before = threading.active_count()
    for number in range(1, 6):
        cluster.kick()
        there(connection, number)
    wait_until(lambda: threading.active_count() <= before)


def test_on_reconnect_is_told_and_its_errors_harm_nobody(cluster, caplog):
    told = []

    def tell(connection):
        told.append(connection.broker)
        raise RuntimeError("the application's own")

    with connect(cluster.address, on_reconnect=tell) as connection:
        cluster.shut("b1")
        wait_until(lambda: told)
        assert told == ["b2"] and connection.status()["broker"] == "b2"
    wait_until(lambda: "on_reconnect failed" in caplog.text)


def test_a_quiet_connection_stays_and_one_without_heartbeats_waits_for_ever(cluster):
    with connect(cluster.address, heartbeat_ms=200) as beating, connect(cluster.address, heartbeat_ms=0) as patient:
        time.sleep(0.8)
        assert beating.reconnects == 0
        cluster.freeze("b1")
        there(beating)
        assert patient.reconnects == 0 and patient._conversation.online


def test_wrong_arguments():
    for wrong in ({"reconnect_s": -1}, {"reconnect_s": float("nan")}, {"heartbeat_ms": -1}, {"heartbeat_ms": 0.5}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            connect("127.0.0.1:1", **wrong)
    assert Reconnecting(0, 0).reconnect_s == 0


# ---- the search alone


def search(given=("a:1",), seconds=10.0, chance=0.5):
    return Search(given, seconds, lambda: chance)


def test_a_round_tries_members_then_the_given_then_the_lost_one_each_once():
    looking = search(["a:1", "x:1"])
    looking.lost(0.0, "b1", "a:1", {"b1": "m:1", "b2": "m:2"})
    steps = [looking.next(0.0) for _ in range(4)]
    assert [step[1] for step in steps] == ["m:2", "x:1", "m:1", "a:1"]
    assert [step[0] for step in steps] == [0.0] * 4
    assert looking.tried == ["m:2", "x:1", "m:1", "a:1"]


def test_rounds_wait_longer_each_time_with_jitter_up_to_a_bound():
    for chance in (0.0, 1.0):
        looking = search(seconds=1000.0, chance=chance)
        looking.lost(0.0, "b1", "a:1", {})
        waits = [looking.next(0.0)[0] for _ in range(12)]
        share = 0.5 + 0.5 * chance
        assert waits[:4] == [0.0, FIRST_WAIT_S * share, 2 * FIRST_WAIT_S * share, 4 * FIRST_WAIT_S * share]
        assert waits[-1] == LONGEST_WAIT_S * share


def test_the_search_ends_in_time_and_its_last_trial_too():
    looking = search(seconds=2.0)
    looking.lost(100.0, "b1", "a:1", {})
    assert looking.next(101.5)[2] == 0.5
    assert looking.next(102.0) is None


def test_a_new_loss_after_a_good_connection_begins_anew():
    looking = search(seconds=2.0)
    looking.lost(0.0, "b1", "a:1", {})
    looking.next(0.0)
    looking.found(1.0)
    looking.lost(1.0 + SETTLED_S + 0.1, "b1", "a:1", {})
    assert looking.next(4.0)[0] == 0.0


def test_a_connection_that_breaks_again_and_again_is_given_up_in_the_end():
    looking, now = search(seconds=2.0), 0.0
    looking.lost(now, "b1", "a:1", {})
    for flap in range(100):
        step = looking.next(now)
        if step is None:
            break
        assert flap == 0 or step[0] > 0, "who breaks at once is not tried at once"
        now += step[0] + 0.1
        looking.found(now)
        now += 0.1
        looking.lost(now, "b1", "a:1", {})
    assert FLAPS <= flap < FLAPS + 5
