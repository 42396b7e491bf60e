"""The only consumer of a queue gets, at its next broker, what it held at the last one, first and in order."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_in_memory import MemoryCluster
from fake_broker import FakeBroker, wait_until
from mantamq.client import connect
from mantamq.client.books.receiver import ReceiverCore
from mantamq.protocol.broker.session import BEFORE
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.client_frames import Attached, AttachReceiver, AttachSender, Delivery, Flow, Transfer
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.log_frames import Request
from mantamq.protocol.wire.queue_frames import ACCEPT, Cancel


def queue_of(messages: int) -> tuple[MemoryCluster, Any]:
    memory = MemoryCluster()
    client = memory.client("b1")
    assert client.command("declare_queue", name="q").code == ""
    client.send(AttachSender(1, "", "q"))
    client.send(Transfer(1, 1, [b"%d" % i for i in range(1, messages + 1)]))
    return memory, client


def consumer(memory: MemoryCluster, broker: str, credit: int, before: Any = ()) -> Any:
    client = memory.client(broker)
    client.send(AttachReceiver(1, "q", before=list(before)))
    assert client.take(Attached)
    client.send(Flow(1, credit))
    return client


def standing_still(memory: MemoryCluster, first: int = 1) -> tuple[Any, int]:
    """A consumer at b2 with a full window, whose broker has given the lock up; and its acquisition."""
    client = consumer(memory, "b2", 2)
    (delivery,) = client.take(Delivery)
    assert delivery.ranges == [first, first + 1]
    memory.pass_time(2 * DEFAULT_TIMING.lock_idle_ms)
    assert {state.owner for state in memory.queue_states("q")} == {""}
    return client, delivery.acquisition


def test_what_it_held_comes_first_though_the_lock_has_moved():
    memory, _ = queue_of(6)
    old, acquisition = standing_still(memory)
    new = consumer(memory, "b3", 4, [("b2", -1, [acquisition, 1, 2])])
    memory.pass_time(300)
    assert new.positions() == []
    old.vanish()
    memory.pass_time(300)
    deliveries = new.take(Delivery)
    assert [p for d in deliveries for p in range(d.ranges[0], d.ranges[-1] + 1)] == [1, 2, 3, 4]
    assert deliveries[0].redelivered[:4] == [0, 1, 1, 1]


def test_what_was_on_its_way_to_it_comes_first_too():
    """It had received nothing yet."""
    memory, _ = queue_of(6)
    old, _ = standing_still(memory)
    new = consumer(memory, "b3", 4, [("b2", 0, [])])
    memory.pass_time(300)
    assert new.positions() == []
    old.vanish()
    memory.pass_time(300)
    assert new.positions() == [1, 2, 3, 4]


def test_an_old_broker_that_keeps_it_does_not_stall_the_consumer_for_ever():
    memory, _ = queue_of(6)
    _, acquisition = standing_still(memory)
    held = consumer(memory, "b3", 4, [("b2", -1, [acquisition, 1, 2])])
    unseen = consumer(memory, "b1", 4, [("b2", 0, [])])
    memory.pass_time(DEFAULT_TIMING.resume_unseen_ms - 100)
    assert held.positions() == unseen.positions() == []
    memory.pass_time(600)
    assert unseen.positions() == [3, 4, 5, 6]
    memory.pass_time(DEFAULT_TIMING.resume_held_ms - DEFAULT_TIMING.resume_unseen_ms)
    assert not memory.machines["b3"].sessions[held.name].receivers[1].closing


def test_what_it_knows_it_held_is_waited_for_longer_though_more_may_have_been_on_its_way():
    memory, _ = queue_of(6)
    _, acquisition = standing_still(memory)
    new = consumer(memory, "b1", 4, [("b2", acquisition, [acquisition, 1, 2])])
    memory.pass_time(DEFAULT_TIMING.resume_held_ms - 100)
    assert new.positions() == []
    memory.pass_time(600)
    assert new.positions() == [3, 4, 5, 6]


def test_others_at_the_same_broker_are_not_waited_for():
    """A client that comes back to the broker it was at: its own subscription is over, the others' are not its own."""
    memory, _ = queue_of(6)
    standing_still(memory)
    held = memory.hold(Cancel)
    back = consumer(memory, "b2", 4, [("b2", 0, [])])
    memory.let_go(held)
    assert back.positions() == [3, 4, 5, 6]


def test_what_it_held_at_the_same_broker_comes_first_before_that_is_ordered():
    """Its line was cut: what it was given there is neither acquired nor back, as far as is committed."""
    memory, _ = queue_of(6)
    assert consumer(memory, "b2", 1).positions() == [1]  # b2 has the lock
    held = memory.hold(Request)
    old = consumer(memory, "b2", 2)
    (delivery,) = old.take(Delivery)
    old.vanish()
    new = consumer(memory, "b2", 4, [("b2", -1, [delivery.acquisition, 2, 3])])
    assert held and new.positions() == []
    memory.let_go(held)
    assert new.positions() == [2, 3, 4, 5]


def test_malformed_runs_end_the_connection():
    memory, _ = queue_of(1)
    for runs in ([1, 2], [1, 3, 2]):
        client = memory.client("b1")
        client.send(AttachReceiver(1, "q", before=[("b2", -1, runs)]))
        assert client.closed is not None and client.closed[0] == "invalid"


# ---- what the client says


def books(capacity: int = 10) -> tuple[ReceiverCore, list[Frame]]:
    said: list[Frame] = []
    core = ReceiverCore(1, "q", capacity, True, said.append)
    core.open()
    return core, said


def test_the_client_tells_all_it_held():
    core, _ = books()
    core.delivered(Delivery(1, 7, [1, 3], [b"\x90"] * 3))
    core.delivered(Delivery(1, 8, [4, 5], [b"\x90"] * 2))
    core.interrupted("b1")
    assert core.before == [("b1", -1, [7, 1, 3, 8, 4, 5])]
    core.resume()
    core.interrupted("b2")  # nothing came from there: what the first one held is waited for still
    assert core.before == [("b1", -1, [7, 1, 3, 8, 4, 5]), ("b2", 0, [])]
    core.resume()
    core.delivered(Delivery(1, 3, [1, 1], [b"\x90"]))
    core.interrupted("b3")
    assert core.before == [("b3", -1, [3, 1, 1])]


def test_brokers_visited_in_vain_do_not_crowd_out_the_one_that_holds_it():
    core, _ = books()
    core.delivered(Delivery(1, 7, [1, 3], [b"\x90"] * 3))
    core.interrupted("b2")
    for _ in range(20):
        for broker in ("b1", "b2", "b3"):
            core.resume()
            core.interrupted(broker)
    assert core.before == [("b2", -1, [7, 1, 3]), ("b1", 0, []), ("b2", 0, []), ("b3", 0, [])]
    assert len(core.before) <= BEFORE


def test_settlements_on_their_way_are_told_as_well():
    core, _ = books()
    core.delivered(Delivery(1, 7, [1, 2], [b"1", b"2"]))
    for _ in range(2):
        message = core.fetch()
        assert message is not None
        core.settle(ACCEPT, message)
    core.interrupted("b1")
    assert core.before == [("b1", 7, [7, 1, 1, 7, 2, 2])]


@pytest.mark.timeout(20)
def test_a_program_gets_its_messages_in_order_through_the_loss_of_its_broker():
    with FakeBroker(2) as cluster, connect(cluster.address, reconnect_s=10, heartbeat_ms=200) as connection:
        connection.declare_queue("q")
        session = connection.session()
        sender = session.sender("q")
        for number in range(20):
            sender.send(str(number))
        sender.sync(5)
        receiver = session.receiver("q", capacity=10)
        wait_until(lambda: receiver.available == 10)
        cluster.pass_time(2 * DEFAULT_TIMING.lock_idle_ms)  # the lock is given up
        cluster.freeze("b1")
        wait_until(lambda: connection.reconnects == 1 and connection.broker == "b2")
        cluster.pass_time(300)
        assert receiver.available == 0
        cluster.thaw()  # what it held is back now
        cluster.pass_time(300)
        bodies = []
        for _ in range(20):
            message = receiver.fetch(5)
            bodies.append(int(message.body))
            session.acknowledge(message)
        assert bodies == list(range(20))
