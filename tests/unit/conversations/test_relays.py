"""What goes through an exchange that numbers, or keeps the last message, in a whole cluster whose members die."""

from __future__ import annotations

from typing import Any

import pytest
from mantamq.client import Message
from mantamq.protocol.wire.client_frames import (
    AttachReceiver,
    AttachSender,
    Command,
    Completed,
    Delivery,
    Flow,
    Reply,
    Transfer,
)
from mantamq.protocol.wire.events import CLUSTER
from mantamq.protocol.wire.log_frames import Append, Results
from mantamq.protocol.wire.message import decode, encode
from mantamq.protocol.wire.queue_frames import DeadLetter, DeadLettered
from mortal_cluster import MortalCluster
from stored_cluster import StoredCluster

NUMBER = "qpid.msg_sequence"


def declared(cluster: Any, **how: Any) -> None:
    """Exchange x, with queue q bound to it."""
    client = cluster.client("b1")
    arguments = {NUMBER: True, "qpid.ive": True}
    assert not client.command("declare_exchange", name="x", type="fanout", arguments=arguments, **how).code
    assert not client.command("declare_queue", name="q", **how).code
    assert not client.command("bind", exchange="x", queue="q").code


def bound(cluster: Any, broker: str, queue: str) -> None:
    """A new queue there, bound to it now."""
    client = cluster.client(broker)
    assert not client.command("declare_queue", name=queue).code
    assert not client.command("bind", exchange="x", queue=queue).code


def sent(cluster: Any, broker: str, *bodies: bytes) -> None:
    """By a client of its own; all of it is complete."""
    sender = cluster.client(broker)
    sender.send(AttachSender(1, "x", ""), Transfer(1, 1, [encode(Message(body)) for body in bodies]))
    cluster.pass_time(500)
    assert [frame.ranges for frame in sender.take(Completed)] == [[1, len(bodies)]]


def got(cluster: Any, broker: str, queue: str = "q") -> list[tuple[bytes, int]]:
    """What a browser at that broker sees: bodies and numbers."""
    client = cluster.client(broker)
    client.send(AttachReceiver(1, queue, "browse"), Flow(1, 100))
    cluster.pass_time(3000)
    messages = [decode(blob, Message) for frame in client.take(Delivery) for blob in frame.blobs]
    return [(message.body, (message.properties or {})[NUMBER]) for message in messages]


@pytest.mark.parametrize("lost", [DeadLetter, DeadLettered])
def test_what_was_on_its_way_as_its_broker_died_is_sent_on_by_others_once_and_in_order(lost: type[Any]):
    cluster = MortalCluster()
    declared(cluster)
    cluster.add_sequencer()
    held = cluster.hold(lost)
    sent(cluster, "b2", b"1", b"2")
    sent(cluster, "b2", b"3")
    assert held and got(cluster, "b1") == ([] if lost is DeadLetter else [(b"1", 1), (b"2", 2)])
    held.clear()  # what it asked for, or was answered, does not come any more
    cluster.kill("b2", "sequencer")
    cluster.let_go(held)
    cluster.pass_time(5000)
    sent(cluster, "b3", b"4")
    assert got(cluster, "b1") == got(cluster, "b3") == [(b"1", 1), (b"2", 2), (b"3", 3), (b"4", 4)]


def test_a_broker_that_has_come_back_goes_on_counting_and_keeps_the_last():
    cluster = StoredCluster()
    declared(cluster, durable=True)
    sent(cluster, "b2", b"1")
    cluster.cut_power("b2")
    cluster.pass_time(3000)
    sent(cluster, "b1", b"2")
    cluster.come_back("b2")
    for _ in range(20):
        cluster.pass_time(300)
    sent(cluster, "b2", b"3")
    bound(cluster, "b2", "late")
    assert got(cluster, "b2") == [(b"1", 1), (b"2", 2), (b"3", 3)] and got(cluster, "b2", "late") == [(b"3", 3)]
    states = cluster.queue_states("manta.exchange.x")
    assert [state.live().flat() for state in states] == [[3, 3]] * 3 and len({one.digest() for one in states}) == 1


def test_whoever_dies_as_a_queue_is_bound_it_gets_the_last_message_once():
    cluster = MortalCluster()
    declared(cluster)
    sent(cluster, "b2", b"1", b"2")
    held = cluster.hold(DeadLettered)
    cluster.client("b3").command("declare_queue", name="late")
    cluster.client("b3").command("bind", exchange="x", queue="late")
    assert {target.partition(".")[0] for target, _ in held} == {"b1", "b2", "b3"}, "each of them has sent it"
    held.clear()
    cluster.kill("b3")
    cluster.let_go(held)
    cluster.pass_time(5000)
    assert got(cluster, "b1", "late") == [(b"2", 2)]


def test_a_power_cut_takes_no_number_and_gives_none_twice():
    cluster = StoredCluster()
    declared(cluster, durable=True)
    sent(cluster, "b1", b"1")
    held = cluster.hold(DeadLetter)
    sent(cluster, "b2", b"2", b"3")
    assert held
    held.clear()
    cluster.let_go(held)
    cluster.blackout("b3", "b1")
    assert not cluster.retired, cluster.retired
    sent(cluster, "b3", b"4")
    bound(cluster, "b1", "late")
    assert got(cluster, "b3") == got(cluster, "b1") == [(b"1", 1), (b"2", 2), (b"3", 3), (b"4", 4)]
    assert got(cluster, "b1", "late") == [(b"4", 4)]


def test_where_its_queue_is_lost_the_exchange_is_too():
    """It is not durable: nobody has its numbers any more."""
    cluster = StoredCluster()
    declared(cluster)
    cluster.blackout("b1", "b2", "b3")
    for _ in range(30):
        cluster.pass_time(1000)
    client = cluster.client("b1")
    assert client.command("declare_exchange", name="x", type="fanout", passive=True).code == "not-found"
    assert client.command("queue", name="manta.exchange.x").code == "not-found"
    declared(cluster)
    sent(cluster, "b1", b"1")
    assert got(cluster, "b2") == [(b"1", 1)]


def test_a_queue_bound_by_a_broker_that_has_not_seen_it_yet_gets_the_last_message_all_the_same():
    """Its client is told to ask again, and may not."""
    cluster = MortalCluster()
    declared(cluster)
    sent(cluster, "b1", b"one", b"two")
    client = cluster.client("b2")
    assert not client.command("declare_queue", name="late").code
    held, requests = cluster.hold(Append), cluster.machines["b2"].requests
    client.send(Command(7, "bind", {"exchange": "x", "queue": "late"}))
    numbers = [number for number, asked in requests.submitter.unanswered.items() if asked.parts[0][0] == CLUSTER]
    requests.answered("sequencer", Results(1, numbers))  # they come by a link on which the rest was lost
    cluster.let_go(held)
    [reply] = client.take(Reply)
    assert reply.code == "unavailable" and "ask again" in reply.text
    cluster.pass_time(500)
    assert got(cluster, "b3", "late") == [(b"two", 2)]
    assert not requests._outcomes, "of what has its answer nothing is kept"
