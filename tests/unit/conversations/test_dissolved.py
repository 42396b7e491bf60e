"""What a deleted queue still held goes to its alternate: once, in order, whoever dies in the middle."""

from __future__ import annotations

from typing import Any

import pytest
from cluster_in_memory import Client, MemoryCluster
from mantamq.client.message import Message
from mantamq.protocol.errors import DELETED, IN_USE, NOT_EMPTY, NOT_FOUND
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Command,
    Completed,
    Delivery,
    Detached,
    Dispose,
    Flow,
    Reply,
    Transfer,
)
from mantamq.protocol.wire.log_frames import Request
from mantamq.protocol.wire.message import decode, encode
from mantamq.protocol.wire.queue_frames import ACCEPT, DeadLetter, DeadLettered
from mantamq.protocol.wire.version import KNOWS_DISSOLVED
from mortal_cluster import MortalCluster

BEAT_MS = DEFAULT_TIMING.heartbeat_ms


def declared(cluster: MemoryCluster, broker: str = "b1", **arguments: Any) -> Client:
    client = cluster.client(broker)
    for name in ("lost", "lost.too"):
        assert client.command("declare_exchange", name=name, type="fanout").code == ""
    assert client.command("declare_queue", name="dead").code == ""
    assert client.command("bind", exchange="lost", queue="dead").code == ""
    assert client.command("declare_queue", name="q", alternate="lost", arguments=arguments).code == ""
    return client


def sent(client: Client, count: int, exchange: str = "", handle: int = 7, delays: Any = ()) -> None:
    client.send(AttachSender(handle, exchange, "q"))
    blobs = [encode(Message(f"{n}".encode())) for n in range(1, count + 1)]
    client.send(Transfer(handle, 1, blobs, delays=list(delays)))


def holder(cluster: MemoryCluster, broker: str, credit: int, queue: str = "q") -> Client:
    client = cluster.client(broker)
    client.send(AttachReceiver(1, queue, "consume"))
    assert client.take(Attached)
    client.send(Flow(1, credit))
    cluster.pass_time(50)
    return client


def letters(cluster: MemoryCluster, broker: str = "b2") -> list[tuple[bytes, Any]]:
    """What waits in the queue of the dead: bodies, and why they died."""
    client = cluster.client(broker)
    client.send(AttachReceiver(3, "dead", "browse"))
    client.send(Flow(3, 1000))
    messages = [decode(blob, Message) for delivery in client.take(Delivery) for blob in delivery.blobs]
    client.vanish()
    return [(bytes(one.body), one.properties.get("manta.death_cause")) for one in messages]


def kept(cluster: MemoryCluster) -> set[str]:
    """Names of the queues that replicas keep."""
    found = {id for name, one in cluster.machines.items() if "." in name for id in getattr(one, "queues", ())}
    return {id.rpartition("#")[0] for id in found}


def test_what_waits_and_what_is_held_goes_to_the_alternate_in_order():
    cluster = MemoryCluster()
    client = declared(cluster)
    sent(client, 5)
    consumer = holder(cluster, "b2", 2)
    assert len(consumer.take(Delivery)) >= 1
    answer = cluster.client("b3").command("delete_queue", name="q")
    assert (answer.code, answer.value) == ("", {"changed": True, "dead_letters": 5})
    cluster.pass_time(3 * BEAT_MS)
    assert letters(cluster) == [(b"%d" % n, "deleted") for n in range(1, 6)]
    assert kept(cluster) == {"dead"} and not cluster.machines["b1"].wiring.dissolving
    assert [frame.code for frame in consumer.take(Detached)] == [DELETED]
    assert client.command("delete_exchange", name="lost").code == ""


def test_its_name_is_free_at_once_and_its_alternate_is_in_use():
    cluster = MemoryCluster()
    client = declared(cluster)
    sent(client, 3)
    held = cluster.hold(DeadLetter)
    assert client.command("delete_queue", name="q").value["dead_letters"] == 3
    assert client.command("queue", name="q").code == NOT_FOUND
    assert client.command("declare_queue", name="q").value == {"changed": True}
    sent(client, 1, handle=8)
    refused = client.command("delete_exchange", name="lost")
    assert refused.code == IN_USE and "q (deleted, and not empty yet)" in refused.text
    assert [row["name"] for row in client.command("queues").value] == ["dead", "q"]
    cluster.let_go(held)
    cluster.pass_time(3 * BEAT_MS)
    assert [body for body, _ in letters(cluster)] == [b"1", b"2", b"3"]
    assert client.command("queue", name="q").value["messages"] == 1
    assert client.command("delete_exchange", name="lost").code == ""


@pytest.mark.parametrize("when", ["asked", "routed"])
def test_whoever_sees_to_it_may_die(when):
    cluster = MortalCluster()
    client = declared(cluster, "b2")
    sent(client, 4)
    held = cluster.hold(*([DeadLetter] if when == "asked" else [DeadLettered]))
    cluster.client("b1").command("delete_queue", name="q")
    held.clear()
    cluster.kill("b1", "b1.r0")
    cluster.hold()
    cluster.pass_time(60_000)
    assert [body for body, _ in letters(cluster)] == [b"1", b"2", b"3", b"4"]
    assert kept(cluster) == {"dead"}, "nor is the dead broker waited for"


def test_what_was_on_its_way_comes_to_the_alternate_too():
    cluster = MemoryCluster()
    client, late = declared(cluster), cluster.client("b2")
    late.send(AttachSender(7, "", "q"))
    cluster.client("b3").command("bind", exchange="lost.too", queue="q")
    late.send(AttachSender(9, "lost.too", "q"))
    held = cluster.hold(Request)
    late.send(Transfer(9, 1, [encode(Message(b"late"))]))
    client.send(Command(9, "delete_queue", {"name": "q"}))
    for _ in range(10):  # what b2 asks for stays on its way, and all else goes on
        others = [one for one in held if one[1].peer != "b2"]
        held[:] = [one for one in held if one[1].peer == "b2"]
        cluster._inbox += others
        cluster.pass_time(BEAT_MS)
    assert client.take(Reply) and late.take(Detached) and not late.take(Completed)
    assert kept(cluster) == {"dead", "q"}, "b2 has not said that nothing more comes from it"
    cluster.let_go(held)
    cluster.pass_time(3 * BEAT_MS)
    assert late.take(Completed) and letters(cluster) == [(b"late", "deleted")]
    assert kept(cluster) == {"dead"}


def test_what_is_delayed_goes_at_once_and_so_does_what_comes_late():
    cluster = MemoryCluster()
    client, late = declared(cluster), cluster.client("b2")
    sent(client, 3, delays=[(0, 3_600_000, False), (2, 3_600_000, False)])
    late.send(AttachSender(7, "", "q"))
    assert client.command("delete_queue", name="q", if_empty=True).code == NOT_EMPTY
    held = cluster.hold(Request)
    late.send(Transfer(7, 1, [encode(Message(b"late"))], delays=[(0, 3_600_000, False)]))
    client.send(Command(9, "delete_queue", {"name": "q"}))
    for _ in range(10):
        others = [one for one in held if one[1].peer != "b2"]
        held[:] = [one for one in held if one[1].peer == "b2"]
        cluster._inbox += others
        cluster.pass_time(BEAT_MS)
    assert [reply.value for reply in client.take(Reply)] == [{"changed": True, "dead_letters": 3}]
    cluster.let_go(held)
    cluster.pass_time(3 * BEAT_MS)
    assert letters(cluster) == [(body, "deleted") for body in (b"1", b"2", b"3", b"late")]
    assert kept(cluster) == {"dead"}, "it is not waited for what would be due in an hour"


def test_what_is_on_its_way_to_a_queue_that_is_deleted_is_that_queues_letter_once():
    cluster = MemoryCluster()
    client, mover = declared(cluster), cluster.client("b2")
    assert client.command("declare_queue", name="from").code == ""
    client.send(AttachSender(8, "", "from"))
    client.send(Transfer(8, 1, [encode(Message(b"%d" % n)) for n in range(3)]))
    held = cluster.hold(Request)
    mover.send(Command(5, "move", {"name": "from", "token": "t", "key": "q"}))
    asked = False
    for _ in range(20):  # what b2 asks for stays on its way, and all else goes on
        others = [one for one in held if one[1].peer != "b2"]
        held[:] = [one for one in held if one[1].peer == "b2"]
        cluster._inbox += others
        if held and not asked:
            asked = True
            client.send(Command(9, "delete_queue", {"name": "q"}))
        cluster.pass_time(BEAT_MS)
    assert asked and kept(cluster) == {"dead", "from", "q"} and not mover.take(Reply)
    cluster.let_go(held)
    cluster.pass_time(5 * BEAT_MS)
    assert letters(cluster) == [(b"%d" % n, "deleted") for n in range(3)]
    assert [reply.value for reply in mover.take(Reply)] == [{"moved": 3, "left": 0, "more": False}]
    assert client.command("queue", name="from").value["messages"] == 0 and kept(cluster) == {"dead", "from"}


def test_what_a_move_brings_back_to_a_deleted_queue_is_its_letter():
    cluster = MemoryCluster()
    client, mover = declared(cluster), cluster.client("b2")
    small = {"qpid.max_count": 1, "qpid.policy_type": "reject"}
    assert client.command("declare_queue", name="small", arguments=small).code == ""
    sent(client, 3)
    held = cluster.hold(DeadLetter)
    mover.send(Command(5, "move", {"name": "q", "token": "t", "key": "small"}))
    cluster.pass_time(5 * BEAT_MS)
    assert [received.frame.cause for _, received in held] == ["moved"]
    client.send(Command(9, "delete_queue", {"name": "q"}))
    cluster.pass_time(3 * BEAT_MS)
    assert [reply.value["dead_letters"] for reply in client.take(Reply)] == [0]
    assert kept(cluster) == {"dead", "q", "small"}, "it is waited for what is on its way"
    cluster.let_go(held)
    cluster.pass_time(5 * BEAT_MS)
    assert letters(cluster) == [(b"2", "deleted"), (b"3", "deleted")] and kept(cluster) == {"dead", "small"}
    assert client.command("queue", name="small").value["messages"] == 1


def test_a_settlement_behind_the_end_is_lost():
    cluster = MemoryCluster()
    client = declared(cluster)
    sent(client, 1)
    consumer = holder(cluster, "b2", 1)
    (delivery,) = consumer.take(Delivery)
    client.command("delete_queue", name="q")
    consumer.send(Dispose(1, 1, ACCEPT, [delivery.acquisition, 1, 1]))
    cluster.pass_time(3 * BEAT_MS)
    assert [body for body, _ in letters(cluster)] == [b"1"]


@pytest.mark.parametrize("arguments", [{"manta.dead_letters": "rejected"}])
def test_a_queue_that_sends_only_what_is_rejected_goes_with_what_is_in_it(arguments):
    cluster = MemoryCluster()
    client = declared(cluster, **arguments)
    sent(client, 2)
    assert client.command("delete_queue", name="q").value == {"changed": True, "dead_letters": 0}
    cluster.pass_time(3 * BEAT_MS)
    assert letters(cluster) == [] and kept(cluster) == {"dead"}


def test_one_that_goes_by_itself_leaves_letters_too():
    cluster = MemoryCluster()
    client = declared(cluster, **{"manta.auto_delete": True, "qpid.auto_delete_timeout": 1})
    sent(client, 2)
    holder(cluster, "b2", 1).vanish()
    cluster.pass_time(5000)
    assert [cause for _, cause in letters(cluster)] == ["deleted"] * 2 and kept(cluster) == {"dead"}


def test_if_unused_leaves_letters_too_and_if_empty_has_none():
    cluster = MemoryCluster()
    client = declared(cluster)
    sent(client, 2)
    assert client.command("delete_queue", name="q", if_unused=True).value == {"changed": True, "dead_letters": 2}
    assert client.command("declare_queue", name="q", alternate="lost").value == {"changed": True}
    assert client.command("delete_queue", name="q", if_empty=True).value == {"changed": True, "dead_letters": 0}
    cluster.pass_time(3 * BEAT_MS)
    assert len(letters(cluster)) == 2 and kept(cluster) == {"dead"}


def test_a_replica_that_begins_anew_takes_part():
    cluster = MortalCluster(replicas=2)
    client = declared(cluster)
    sent(client, 3)
    held, dies = cluster.hold(DeadLetter), cluster.replica("b1", "q")
    client.command("delete_queue", name="q")
    held[:] = [one for one in held if one[1].peer != dies]
    cluster.kill(dies)
    cluster.let_go(held)
    cluster.pass_time(30_000)
    assert [body for body, _ in letters(cluster)] == [b"1", b"2", b"3"]
    assert kept(cluster) == {"dead"}


def test_what_is_deleted_does_not_come_back_to_a_queue_of_its_name():
    cluster = MemoryCluster()
    client = declared(cluster)
    assert client.command("bind", exchange="lost", queue="q").code == ""
    sent(client, 2)
    held = cluster.hold(DeadLetter)
    assert client.command("delete_queue", name="q").value["dead_letters"] == 2
    assert client.command("declare_queue", name="q", alternate="lost").code == ""
    assert client.command("bind", exchange="lost", queue="q").code == ""
    cluster.let_go(held)
    cluster.pass_time(3 * BEAT_MS)
    assert len(letters(cluster)) == 2 and client.command("queue", name="q").value["messages"] == 0


def test_while_a_member_is_older_it_goes_with_what_is_in_it():
    cluster = MemoryCluster()
    client = declared(cluster)
    sent(client, 2)
    for broker in cluster.members:
        cluster.machines[broker].cluster.versions.least = KNOWS_DISSOLVED - 1
    assert client.command("delete_queue", name="q").value == {"changed": True, "dead_letters": 0}
    assert kept(cluster) == {"dead"} and letters(cluster) == []


def test_a_broker_that_begins_anew_says_that_nothing_more_comes_from_it():
    cluster = MortalCluster()
    client = declared(cluster)
    sent(client, 2)
    held = cluster.hold(DeadLetter)
    cluster.kill("b3", "b3.r0")
    client.command("delete_queue", name="q")
    cluster.pass_time(3000)
    cluster.add_broker("b3")
    cluster.pass_time(5000)
    assert set(cluster.machines["b3"].wiring.dissolving) == set(cluster.machines["b1"].wiring.dissolving) != set()
    cluster.let_go(held)
    cluster.pass_time(3 * BEAT_MS)
    assert [body for body, _ in letters(cluster)] == [b"1", b"2"] and kept(cluster) == {"dead"}
