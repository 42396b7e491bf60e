"""Queues are deleted on a condition only where it holds everywhere, whoever dies in the middle."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from cluster_in_memory import Client, MemoryCluster
from fake_broker import FakeBroker
from mantamq.client import InUse, NotEmpty, NotFound, connect
from mantamq.protocol.wire import events
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Command,
    Completed,
    Delivery,
    Detach,
    Detached,
    Dispose,
    Failed,
    Flow,
    Reply,
    Transfer,
)
from mantamq.protocol.wire.log_frames import Heartbeat, HeartbeatReply, Request, Results, UpdateStart
from mantamq.protocol.wire.queue_frames import REJECT, DeadLettered, QueueCommand, QueueReply
from mantamq.protocol.wiring.wiring import Wiring
from mortal_cluster import MortalCluster

IF_UNUSED, IF_EMPTY = {"if_unused": True}, {"if_empty": True}


def declared(cluster: MemoryCluster, broker: str = "b1") -> Client:
    client = cluster.client(broker)
    assert client.command("declare_queue", name="q").code == ""
    return client


def consumer(cluster: MemoryCluster, broker: str, mode: str = "consume") -> Client:
    client = cluster.client(broker)
    client.send(AttachReceiver(1, "q", mode))
    return client


def sender(cluster: MemoryCluster, broker: str, exchange: str = "", key: str = "q") -> Client:
    client = cluster.client(broker)
    client.send(AttachSender(1, exchange, key))
    client.take(Attached)
    return client


def delete(client: Client, **conditions: bool) -> str:
    return client.command("delete_queue", name="q", **conditions).code


def start_deleting(client: Client, **conditions: bool) -> None:
    client.send(Command(77, "delete_queue", {"name": "q", **conditions}))


def codes(client: Client) -> list[str]:
    return [reply.code for reply in client.take(Reply) if reply.number == 77]


def wirings(cluster: MemoryCluster) -> set[int]:
    return {cluster.machines[broker].wiring.digest() for broker in cluster.members if broker in cluster.machines}


@pytest.mark.parametrize("broker", ["b1", "b2", "b3"])
def test_a_consumer_without_credit_is_seen_from_every_broker(broker):
    cluster = MemoryCluster()
    declared(cluster)
    held = consumer(cluster, "b2")
    admin = cluster.client(broker)
    assert held.take(Attached)
    assert delete(admin, **IF_UNUSED) == "in-use" and delete(admin, if_unused=True, if_empty=True) == "in-use"
    another = consumer(cluster, "b2")
    held.send(Detach(1))
    assert held.take(Detached) and delete(admin, **IF_UNUSED) == "in-use"
    another.send(Detach(1))
    assert another.take(Detached) and delete(admin, **IF_UNUSED) == ""
    assert len(wirings(cluster)) == 1


def test_a_consumer_is_attached_when_others_know_it():
    cluster = MemoryCluster()
    admin = declared(cluster)
    held = cluster.hold(Request)
    client = consumer(cluster, "b2")
    assert not client.take(Attached)
    cluster.let_go(held)
    assert client.take(Attached) and delete(admin, **IF_UNUSED) == "in-use"


def test_browsers_and_consumers_that_have_gone_do_not_use_a_queue():
    cluster = MemoryCluster()
    admin = declared(cluster)
    browser = consumer(cluster, "b2", "browse")
    consumer(cluster, "b3").vanish()
    assert delete(admin, **IF_UNUSED) == "" and browser.take(Detached)


def test_a_queue_whose_only_consumer_was_at_a_broker_that_died_is_not_in_use():
    cluster = MortalCluster()
    admin = declared(cluster)
    consumer(cluster, "b3")
    assert delete(admin, **IF_UNUSED) == "in-use"
    cluster.kill("b3")
    cluster.pass_time(5000)
    assert delete(admin, **IF_UNUSED) == ""


def test_a_broker_that_comes_back_knows_who_uses_a_queue():
    cluster = MortalCluster()
    declared(cluster)
    consumer(cluster, "b2")
    cluster.kill("b3")
    cluster.pass_time(5000)
    cluster.add_broker("b3")
    cluster.pass_time(5000)
    assert delete(cluster.client("b3"), **IF_UNUSED) == "in-use"
    assert len(wirings(cluster)) == 1


@pytest.mark.parametrize("empty", [True, False])
def test_who_comes_while_it_is_decided_waits(empty):
    cluster = MemoryCluster()
    admin = declared(cluster)
    if not empty:
        sender(cluster, "b1").send(Transfer(1, 1, [b"x"]))
    held = cluster.hold(QueueCommand)
    start_deleting(admin, if_unused=True, if_empty=True)
    client = consumer(cluster, "b2")
    assert held and not client.take(Attached) and not client.take(Detached)
    cluster.let_go(held)
    if empty:
        assert codes(admin) == [""] and [d.code for d in client.take(Detached)] == ["not-found"]
    else:
        assert codes(admin) == ["not-empty"] and client.take(Attached)
        assert delete(admin, **IF_UNUSED) == "in-use"


@pytest.mark.parametrize(("exchange", "key"), [("", "q"), ("amq.fanout", "")])
@pytest.mark.parametrize("broker", ["b1", "b2", "b3"])
def test_what_is_sent_behind_the_look_does_not_complete(broker, exchange, key):
    cluster = MemoryCluster()
    admin = declared(cluster)
    admin.command("bind", exchange="amq.fanout", queue="q")
    client = sender(cluster, broker, exchange, key)
    held = cluster.hold(QueueReply)
    start_deleting(admin, **IF_EMPTY)
    client.send(Transfer(1, 1, [b"late"]))
    assert held and not client.take(Completed) and not client.take(Failed)
    cluster.let_go(held)
    assert codes(admin) == [""] and not client.take(Completed)
    assert [failed.code for failed in client.take(Failed)] == ["not-found"] or client.take(Detached)
    assert all(not cluster.machines[b].transfers.gone for b in cluster.members)


def test_what_is_answered_after_the_queue_has_gone_does_not_complete():
    cluster = MemoryCluster()
    admin = declared(cluster)
    admin.command("bind", exchange="amq.fanout", queue="q")
    client = sender(cluster, "b2", "amq.fanout", "")
    late: list[Any] = []
    held = cluster.hold(QueueReply)
    start_deleting(admin, **IF_EMPTY)
    results = cluster.hold(Results)
    client.send(Transfer(1, 1, [b"late"]))
    assert results and not late
    cluster._holding = (Results,), late  # pyright: ignore[reportPrivateUsage]
    mine = [item for item in results if item[0] == "b2"]
    cluster._inbox += held  # pyright: ignore[reportPrivateUsage]
    cluster.settle()
    cluster.let_go([item for item in late if item not in mine])
    assert codes(admin) == [""]
    cluster.let_go(mine)
    assert not client.take(Completed) and [failed.code for failed in client.take(Failed)] == ["not-found"]
    assert not cluster.machines["b2"].transfers.gone


@pytest.mark.parametrize("late", [False, True])
def test_none_of_several_that_went_with_the_queue_completes(late):
    """Once the first was told to have failed the queue was forgotten, and the second was complete."""
    cluster = MemoryCluster()
    admin = declared(cluster)
    admin.command("bind", exchange="amq.fanout", queue="q")
    client = sender(cluster, "b2", "amq.fanout", "")
    look = cluster.hold(QueueReply)
    start_deleting(admin, **IF_EMPTY)
    if late:  # their answers come when the queue has gone, all in one frame
        cluster._holding = (QueueReply, Request), look  # pyright: ignore[reportPrivateUsage]
    for number in (1, 2, 3):
        client.send(Transfer(1, number, [b"late"]))
    requests = [item for item in look if isinstance(item[1].frame, Request)]
    cluster.let_go([item for item in look if item not in requests])
    assert codes(admin) == [""]
    cluster.let_go(requests)
    assert not client.take(Completed)
    assert [number for failed in client.take(Failed) for number in failed.ranges[::2]] == [1, 2, 3]
    assert not cluster.machines["b2"].transfers.gone


def test_what_waits_for_one_queue_still_knows_of_another_that_went():
    cluster = MemoryCluster()
    admin = declared(cluster)
    assert admin.command("declare_queue", name="r").code == ""
    for name in ("q", "r"):
        admin.command("bind", exchange="amq.fanout", queue=name)
    client = sender(cluster, "b2", "amq.fanout", "")
    held = cluster.hold(QueueReply)
    start_deleting(admin, **IF_EMPTY)
    admin.send(Command(78, "delete_queue", {"name": "r", **IF_EMPTY}))
    client.send(Transfer(1, 1, [b"late"]))
    waits = [id for id, again in cluster.machines["b2"].transfers.held.items() if again]
    first = [item for item in held if item[1].frame.queue not in waits]
    assert len(waits) == 1 and len(first) == 1
    rest = [item for item in held if item not in first]
    cluster._inbox += first  # pyright: ignore[reportPrivateUsage]
    cluster.settle()
    assert not client.take(Completed) and cluster.machines["b2"].transfers.gone
    cluster.let_go(rest)
    assert not client.take(Completed) and [failed.code for failed in client.take(Failed)] == ["not-found"]


def test_what_has_come_to_another_queue_by_its_exchange_completes():
    """It was told to have failed: sent again, it was twice in the other queue."""
    cluster = MemoryCluster()
    admin = declared(cluster)
    assert admin.command("declare_queue", name="r").code == ""
    for queue, key in (("q", "both"), ("r", "both"), ("q", "alone")):
        admin.command("bind", exchange="amq.direct", queue=queue, key=key)
    client = sender(cluster, "b2", "amq.direct", "")
    held = cluster.hold(QueueReply)
    start_deleting(admin, **IF_EMPTY)
    client.send(Transfer(1, 1, [b"1", b"2", b"3"], ["both", "alone", "both"]))
    client.send(Transfer(1, 4, [b"4"], ["both"]))
    assert not client.take(Completed) and not client.take(Failed)
    cluster.let_go(held)
    assert codes(admin) == [""]
    assert [(failed.ranges, failed.code) for failed in client.take(Failed)] == [([2, 2], "not-found")]
    assert [n for completed in client.take(Completed) for n in completed.ranges] == [1, 1, 3, 4]
    assert messages(admin, "r") == (3, 0)
    assert all(not cluster.machines[broker].transfers.gone for broker in cluster.members)


def test_nothing_is_said_of_a_sender_after_its_end():
    """It was told to be complete when its queue was deleted long ago, and another had its name."""
    cluster = MemoryCluster()
    admin = declared(cluster)
    client = sender(cluster, "b2")
    held = cluster.hold(Request)
    client.send(Transfer(1, 1, [b"x"]))
    cluster.hold()
    assert delete(admin) == "" and admin.command("declare_queue", name="q").code == ""
    assert [frame.code for frame in client.take(Detached)] == ["deleted"]
    cluster.let_go(held)
    assert not client.take(Completed) and not client.take(Failed)
    assert [len(state.blobs) for state in cluster.queue_states("q")] == [0, 0, 0]


def test_what_is_sent_meanwhile_completes_when_the_queue_stays():
    cluster = MemoryCluster()
    admin = declared(cluster)
    client = sender(cluster, "b3")
    client.send(Transfer(1, 1, [b"there"]))
    assert client.take(Completed)
    held = cluster.hold(QueueReply)
    start_deleting(admin, **IF_EMPTY)
    client.send(Transfer(1, 2, [b"late"]))
    assert not client.take(Completed)
    cluster.let_go(held)
    assert codes(admin) == ["not-empty"] and [c.ranges for c in client.take(Completed)] == [[2, 2]]
    assert all(not cluster.machines[b].transfers.held for b in cluster.members)


def test_what_is_acquired_counts():
    cluster = MemoryCluster()
    admin = declared(cluster)
    sender(cluster, "b1").send(Transfer(1, 1, [b"x"]))
    assert delete(admin, **IF_EMPTY) == "not-empty"
    assert admin.command("purge", name="q").code == "" and delete(admin, **IF_EMPTY) == ""


@pytest.mark.parametrize("frame", [QueueCommand, QueueReply])
def test_the_broker_that_asks_dies_and_the_queue_is_of_use_again(frame):
    cluster = MortalCluster()
    declared(cluster, "b2")
    admin = cluster.client("b1")
    client = sender(cluster, "b2")
    cluster.hold(frame)
    start_deleting(admin, if_unused=True, if_empty=True)
    client.send(Transfer(1, 1, [b"x"]))
    waits = consumer(cluster, "b3")
    assert not client.take(Completed) and not waits.take(Attached)
    cluster.kill("b1")
    cluster.let_go([])
    cluster.pass_time(5000)
    assert client.take(Completed) and waits.take(Attached)
    assert delete(cluster.client("b2"), **IF_EMPTY) == "not-empty"


def test_two_that_delete_at_once_both_get_an_answer():
    cluster = MemoryCluster()
    one, other = declared(cluster), cluster.client("b2")
    held = cluster.hold(QueueReply)
    start_deleting(one, **IF_EMPTY)
    start_deleting(other, **IF_EMPTY)
    cluster.let_go(held)
    assert codes(one) == [""] and codes(other) == ["not-found"]


def test_another_deletes_the_queue_and_declares_it_anew_before_the_end():
    """It was told that nothing was decided in time, and to ask again: then the new queue would have gone."""
    cluster = MemoryCluster()
    one, other = declared(cluster), cluster.client("b2")
    look = cluster.hold(QueueReply)
    start_deleting(one, **IF_EMPTY)
    late = cluster.hold(Request)
    cluster._inbox += look  # pyright: ignore[reportPrivateUsage]
    cluster.settle()
    assert [frame.frame.origin for _, frame in late] == ["b1"]
    cluster.hold()
    assert delete(other) == "" and other.command("declare_queue", name="q").code == ""
    cluster.let_go(late)
    (reply,) = one.take(Reply)
    assert (reply.code, reply.text) == ("not-found", "queue 'q' was deleted by another")
    assert other.command("queue", name="q").code == ""
    assert all(not cluster.machines[broker].report().condemned for broker in cluster.members)


def test_a_sequencer_dies_in_the_middle():
    cluster = MortalCluster()
    cluster.add_sequencer()
    admin = declared(cluster)
    client = sender(cluster, "b2")
    held = cluster.hold(QueueReply)
    start_deleting(admin, if_unused=True, if_empty=True)
    cluster.kill("sequencer")
    cluster.pass_time(5000)
    client.send(Transfer(1, 1, [b"x"]))
    assert not client.take(Completed)
    cluster.let_go(held)
    cluster.pass_time(1000)
    assert codes(admin) == [""] and not client.take(Completed)


def test_a_deletion_counts_only_while_its_condition_stands():
    wiring = Wiring()
    id = f"q#{1}"
    wiring.apply(events.DeclareQueue("q", {}), 1)
    assert wiring.apply(events.Condemn(id, "b1", 5, 1, True, False), 2).code == ""
    assert wiring.apply(events.InUse(id, "b2", 1, True), 3).code == "busy"
    restored = Wiring.restore(wiring.snapshot())
    assert restored.digest() == wiring.digest()
    wiring.apply(events.Evict("b1", 5), 4)
    assert wiring.apply(events.DeleteQueue("q", "b1", 5, 1), 5).code == "busy"
    assert wiring.apply(events.Condemn(id, "b1", 5, 2, True, False), 6).code == "busy"
    assert restored.apply(events.DeleteQueue("q", "b1", 5, 2), 4).code == "busy"
    assert restored.apply(events.DeleteQueue("q", "b1", 5, 1), 5).changed
    older = Wiring.restore(wiring.snapshot()[:5])
    assert older.queue("q") and not older.uses.condemned


def rejecting(cluster: MemoryCluster) -> tuple[Client, Client, Delivery]:
    """What is rejected at `source` goes to `q` and `other`; who asks, and a consumer of one message there."""
    admin = declared(cluster)
    admin.command("declare_queue", name="other")
    for queue in ("q", "other"):
        admin.command("bind", exchange="amq.fanout", queue=queue)
    admin.command("declare_queue", name="source", alternate="amq.fanout")
    sender(cluster, "b1", key="source").send(Transfer(1, 1, [b"bad"]))
    client = cluster.client("b2")
    client.send(AttachReceiver(1, "source"), Flow(1, 10))
    (delivery,) = client.take(Delivery)
    return admin, client, delivery


def reject(client: Client, delivery: Delivery) -> None:
    client.send(Dispose(1, 1, REJECT, [delivery.acquisition, *delivery.ranges]))


def messages(client: Client, queue: str) -> tuple[int, int]:
    """In a queue, and of them rejected and on their way to the alternate exchange."""
    found = client.command("queue", name=queue).value
    return found["messages"], found["dead_lettering"]


def test_what_is_rejected_behind_the_look_goes_where_queues_are_left():
    cluster = MemoryCluster()
    admin, client, delivery = rejecting(cluster)
    held = cluster.hold(QueueReply)
    start_deleting(admin, **IF_EMPTY)
    reject(client, delivery)
    assert not [frame for _, _, frame in cluster.traffic if isinstance(frame, DeadLettered)]
    admin.command("declare_queue", name="late")
    admin.command("bind", exchange="amq.fanout", queue="late")
    cluster.let_go(held)
    assert codes(admin) == [""]
    assert [messages(admin, queue) for queue in ("source", "other", "late")] == [(0, 0), (1, 0), (1, 0)]
    assert all(not cluster.machines[broker].transfers.gone for broker in cluster.members)


def test_what_is_rejected_meanwhile_is_in_the_queue_when_it_stays():
    cluster = MemoryCluster()
    admin, client, delivery = rejecting(cluster)
    sender(cluster, "b3").send(Transfer(1, 1, [b"there"]))
    held = cluster.hold(QueueReply)
    start_deleting(admin, **IF_EMPTY)
    reject(client, delivery)
    assert not [frame for _, _, frame in cluster.traffic if isinstance(frame, DeadLettered)]
    cluster.let_go(held)
    assert codes(admin) == ["not-empty"]
    assert messages(admin, "source") == (0, 0) and messages(admin, "q") == (2, 0)


def test_what_is_rejected_and_not_elsewhere_yet_is_in_its_queue():
    cluster = MemoryCluster()
    admin, client, delivery = rejecting(cluster)
    held = cluster.hold(DeadLettered)
    reject(client, delivery)
    client.send(Detach(1))
    reply = admin.command("delete_queue", name="source", if_empty=True)
    assert held and reply.code == "not-empty"
    cluster.let_go(held)
    assert admin.command("delete_queue", name="source", if_unused=True, if_empty=True).code == ""


def test_a_look_that_is_not_answered_ends_and_the_queue_stays():
    cluster = MortalCluster()
    admin = declared(cluster)
    client = sender(cluster, "b2")
    cluster.hold(QueueCommand)
    start_deleting(admin, if_unused=True, if_empty=True)
    client.send(Transfer(1, 1, [b"x"]))
    waits = consumer(cluster, "b3")
    cluster.pass_time(3000)
    for broker in cluster.members:
        (said,) = cluster.machines[broker].report().condemned
        assert 3000 <= said.for_ms < 3500
        assert (said.queue, said.by, said.if_unused, said.if_empty) == ("q", "b1", True, True)
    assert not client.take(Completed) and not waits.take(Attached)
    cluster.pass_time(3000)
    (reply,) = admin.take(Reply)
    assert reply.code == "unavailable" and "has not answered for 5 s" in reply.text and "ask again" in reply.text
    assert client.take(Completed) and waits.take(Attached)
    assert all(not cluster.machines[broker].report().condemned for broker in cluster.members)


def test_a_look_that_takes_long_ends_when_the_queue_is_deleted_all_the_same():
    cluster = MortalCluster()
    admin = declared(cluster)
    held = cluster.hold(QueueCommand)
    start_deleting(admin, **IF_EMPTY)
    cluster.pass_time(1000)
    assert delete(cluster.client("b2")) == ""
    cluster.let_go(held)
    cluster.pass_time(6000)
    assert codes(admin) == ["not-found"]
    assert all(not cluster.machines[broker].report().condemned for broker in cluster.members)


class Mixed(MortalCluster):
    """Some programs are of an older minor version: brokers `older`, the leader too if so said.

    Attributes:
        forgets: what a broker tells of the wiring is what an older one would.
    """

    def __init__(self, older: tuple[str, ...] = (), leader: bool = False) -> None:
        self.older, self.leader_is_older, self.forgets = older, leader, False
        super().__init__()

    def post(self, source: str, target: str, frame: Any) -> None:
        if isinstance(frame, HeartbeatReply) and source in self.older:
            frame = msgspec.structs.replace(frame, minor=1)
        if isinstance(frame, Heartbeat) and self.leader_is_older:
            frame = msgspec.structs.replace(frame, older=None)
        if isinstance(frame, UpdateStart) and frame.stream == events.CLUSTER and self.forgets:
            frame = msgspec.structs.replace(frame, state=frame.state[:5])
        super().post(source, target, frame)


@pytest.mark.parametrize(("older", "leader", "named"), [(("b3",), False, "b3"), ((), True, "sequencer")])
def test_where_a_member_is_older_it_is_refused_and_who_is_upgraded_first(older, leader, named):
    cluster = Mixed(older, leader)
    admin = declared(cluster)
    cluster.pass_time(1000)
    ordered = cluster.machines["b1"].keeper.commit
    for condition in (IF_UNUSED, IF_EMPTY):
        reply = admin.command("delete_queue", name="q", **condition)
        assert reply.code == "unavailable" and reply.text.startswith(f"{named} must be upgraded first")
    assert admin.command("queue", name="q").code == "" and cluster.machines["b1"].keeper.commit == ordered
    cluster.older, cluster.leader_is_older = (), False
    cluster.pass_time(1000)
    assert delete(admin, **IF_UNUSED) == ""


def test_one_that_comes_while_it_is_decided_ends_it():
    cluster = Mixed()
    admin = declared(cluster)
    held = cluster.hold(QueueReply)
    start_deleting(admin, **IF_EMPTY)
    cluster.older = ("b3",)
    cluster.pass_time(1000)
    cluster.let_go(held)
    assert codes(admin) == ["unavailable"] and admin.command("queue", name="q").code == ""


@pytest.mark.parametrize("broker", ["b1", "b3"])
def test_who_has_the_wiring_from_an_older_one_learns_who_uses_what(broker):
    cluster = Mixed()
    declared(cluster)
    held = consumer(cluster, "b2")
    cluster.kill("b3")
    cluster.pass_time(5000)
    cluster.forgets = True
    cluster.add_broker("b3")
    cluster.pass_time(5000)
    assert not cluster.machines["b3"].wiring.uses.whole
    admin = cluster.client(broker)
    assert delete(admin, **IF_UNUSED) == "in-use"
    assert cluster.machines["b3"].wiring.queue("q")
    another = consumer(cluster, "b2")
    held.vanish()
    assert another.take(Attached) and delete(cluster.client("b3"), **IF_UNUSED) == "in-use"
    assert cluster.machines["b3"].wiring.uses.whole
    another.vanish()
    assert delete(admin, **IF_UNUSED) == ""
    assert {machine.wiring.queue("q") for name, machine in cluster.machines.items() if name in cluster.members} == {
        None
    }


@pytest.mark.timeout(20)
def test_as_a_program_sees_it():
    with FakeBroker(2) as cluster, connect(cluster.address) as connection:
        connection.declare_queue("q")
        session = connection.session()
        receiver = session.receiver("q", capacity=0)
        with pytest.raises(InUse, match="b1"):
            connection.delete_queue("q", if_unused=True)
        session.sender("q").send(b"x")
        session.sync(5)
        with pytest.raises(NotEmpty, match="purge"):
            connection.delete_queue("q", if_empty=True)
        receiver.close()
        connection.delete_queue("q", if_unused=True)
        connection.declare_queue("q")
        connection.delete_queue("q", if_unused=True, if_empty=True)
        with pytest.raises(NotFound):
            connection.queue("q")
