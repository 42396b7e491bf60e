"""A broker that comes back names all queues of which it may have a log, and takes back those that never were (S13)."""

from __future__ import annotations

import pytest
from mantamq.protocol.store.host import MESSAGES
from mantamq.protocol.stored.broker import StoredBrokerMachine
from mantamq.protocol.stored.hosting import Hosting
from mantamq.protocol.wire.client_frames import Command
from mantamq.protocol.wire.log_frames import Append, LogDropped, Promise
from mantamq.protocol.wire.queue_frames import Unhost
from mantamq.protocol.wire.records import DROPPED, OPENED, OpenedRecord, encode_record
from stored_cluster import StoredCluster

ALL = ["b1", "b2", "b3"]


def promises(cluster, broker):
    return [frame for name, _, frame in cluster.traffic if name == broker and isinstance(frame, Promise)]


def what_was_declared_last_is_named():
    """All lose power before anybody has written down that the declaration is committed."""
    cluster = StoredCluster()
    assert not cluster.client("b1").command("declare_queue", name="q", durable=True).code
    queue = cluster.machines["b1"].wiring.queue("q").id
    cluster.cut_power(*ALL)
    cluster.kill(*cluster.sequencers())
    cluster.traffic.clear()
    cluster.start_again(*ALL)
    for name in ALL:
        assert queue in promises(cluster, name)[0].hosting, "it may have voted there, and would not count"
        assert cluster.machines[name].wiring.by_id(queue)
    assert not any(isinstance(frame, LogDropped) for _, _, frame in cluster.traffic)
    assert queue in cluster.leader().order.streams


def what_nobody_has_any_more_goes():
    """After a stop of all, a transient queue has no log anywhere: it goes, and its binding with it; what is durable
    stays, and the exchange."""
    cluster = StoredCluster()
    client = cluster.client("b2")
    for what, more in (
        ("declare_exchange", {"name": "news", "type": "fanout"}),
        ("declare_queue", {"name": "lasting", "durable": True}),
        ("declare_queue", {"name": "passing"}),
        ("bind", {"exchange": "news", "queue": "passing"}),
        ("declare_queue", {"name": "last"}),
    ):
        assert not client.command(what, **more).code
    cluster.blackout(*ALL)
    for name in ALL:
        wiring = cluster.machines[name].wiring
        assert [queue.name for queue in wiring.queues()] == ["lasting"], "a queue that nobody has is waited for"
        assert wiring.exchange("news") and not wiring.bindings()
    assert not cluster.client("b1").command("declare_queue", name="last").code


def only_at_b1(cluster):
    """A declaration that reaches the log of b1 alone; its queue's id."""
    held = cluster.hold(Append)
    cluster.client("b1").send(Command(9, "declare_queue", {"name": "never", "durable": True}))
    cluster._holding = (), []
    cluster._inbox += [item for item in held if item[0] == "b1"]
    cluster.settle()
    return f"never#{cluster.machines['b1'].keeper.end}"


def what_never_was_is_taken_back():
    """The others have overruled what only b1 has in its log; it comes back, names it, and finds out."""
    cluster = StoredCluster()
    queue = only_at_b1(cluster)
    cluster.cut_power("b1")
    cluster.kill("sequencer")
    cluster.add_sequencer()
    cluster.pass_time(500)
    assert cluster.leader()
    cluster.traffic.clear()
    cluster.come_back("b1")
    for _ in range(20):
        cluster.pass_time(200)
    assert not cluster.retired and queue in promises(cluster, "b1")[0].hosting
    assert cluster.machines["b1"].wiring.by_id(queue) is None
    assert queue not in cluster.leader().order.streams, "nobody has it, and it is waited for"
    assert not cluster.client("b1").command("declare_queue", name="never").code


def what_only_the_store_knows_is_named_and_dropped():
    """A queue was deleted, and the store was not told so before the power went."""
    cluster = StoredCluster()
    assert not cluster.client("b1").command("declare_queue", name="q", durable=True).code
    cluster.cut_power(*ALL)
    cluster.kill(*cluster.sequencers())
    disk = cluster.disks["b2"]
    disk.logs[MESSAGES].write([(OPENED, "gone#1", encode_record(OpenedRecord(1, 1, False)))], (0, 0))
    disk.flush()
    cluster.traffic.clear()
    cluster.start_again(*ALL)
    assert "gone#1" in promises(cluster, "b2")[0].hosting
    last = [record for record in disk.logs[MESSAGES].records if record.stream == "gone#1"][-1]
    assert last.kind == DROPPED and not cluster.machines["b2"].hosting.stored
    assert "gone#1" not in cluster.leader().order.streams
    assert not cluster.retired


def deleted_as_soon_as_it_is_back(kind=StoredBrokerMachine):
    """A queue that the store has, the wiring knows, and an entry deletes that is applied together with the return: a
    replica has taken it by then, and drops it."""
    cluster = StoredCluster(kind=kind)
    client = cluster.client("b1")
    assert not client.command("declare_queue", name="q", durable=True).code
    queue = cluster.machines["b1"].wiring.queue("q").id
    cluster.cut_power("b3")
    assert not client.command("delete_queue", name="q").code
    cluster.come_back("b3")
    for _ in range(10):
        cluster.pass_time(200)
    assert not cluster.retired, "two have taken the same stream"
    assert queue not in cluster.disks["b3"].recovered().logs[MESSAGES].index.streams


def deleted_while_no_replica_keeps_it():
    """Nobody has taken it since the start, so nobody drops it: its records would hold the old end of the log."""
    cluster = StoredCluster()
    client = cluster.client("b1")
    for name in ("stays", "goes"):
        assert not client.command("declare_queue", name=name, durable=True).code
    queue = cluster.machines["b1"].wiring.queue("goes").id
    cluster.cut_power("b3")
    cluster.add_broker("b3", replicas=0)
    for _ in range(10):
        cluster.pass_time(200)
    assert queue in cluster.machines["b3"].placement.homeless
    assert not client.command("delete_queue", name="goes").code
    cluster.add_replica("b3")
    for _ in range(10):
        cluster.pass_time(200)
    streams = cluster.disks["b3"].recovered().logs[MESSAGES].index.streams
    assert not cluster.retired and [stream.partition("#")[0] for stream in streams] == ["stays"]


def deleted_while_its_replica_dies():
    """The replica that was to drop the log died before it heard of that: nobody else would take it any more."""
    cluster = StoredCluster()
    client = cluster.client("b1")
    for name in ("stays", "goes", "went"):
        assert not client.command("declare_queue", name=name, durable=True).code
    ids = {name: cluster.machines["b3"].wiring.queue(name).id for name in ("goes", "went")}
    replica = cluster.machines["b3"].placement.of[ids["goes"]]
    assert not client.command("delete_queue", name="went").code
    held = cluster.hold(Unhost)
    client.send(Command(9, "delete_queue", {"name": "goes"}))
    cluster.pass_time(200)
    assert held
    cluster.kill(replica)
    cluster.let_go([one for one in held if one[0] != replica])
    cluster.add_replica("b3")
    for _ in range(10):
        cluster.pass_time(200)
    records = cluster.disks["b3"].logs[MESSAGES].records
    dropped = [record.stream for record in records if record.kind == DROPPED]
    assert sorted(dropped) == sorted(ids.values()), "each once"
    streams = cluster.disks["b3"].recovered().logs[MESSAGES].index.streams
    assert not cluster.retired and [stream.partition("#")[0] for stream in streams] == ["stays"]


def declared_and_deleted_while_no_replica_keeps_it():
    """A durable queue may have records that nobody knows of (damage has swallowed them, say): it is dropped. Of a
    transient one the store has never heard, and does not now."""
    cluster = StoredCluster()
    client = cluster.client("b1")
    cluster.cut_power("b3")
    cluster.add_broker("b3", replicas=0)
    for _ in range(10):
        cluster.pass_time(200)
    for name, durable in (("lasting", True), ("passing", False)):
        client.send(Command(1, "declare_queue", {"name": name, "durable": durable}))
        cluster.pass_time(200)
        placement = cluster.machines["b3"].placement
        placement.restored()  # its wiring was another broker's
        assert [(found.name, blank) for found, blank in placement.homeless.values()] == [(name, True)]
        client.send(Command(2, "delete_queue", {"name": name}))
        cluster.pass_time(200)
        assert not placement.homeless
    records = cluster.disks["b3"].logs[MESSAGES].records
    assert [(record.stream.partition("#")[0], record.kind) for record in records if record.stream] == [
        ("lasting", DROPPED)
    ]


@pytest.mark.parametrize(
    "story",
    [
        deleted_while_no_replica_keeps_it,
        deleted_while_its_replica_dies,
        declared_and_deleted_while_no_replica_keeps_it,
        what_was_declared_last_is_named,
        what_nobody_has_any_more_goes,
        what_never_was_is_taken_back,
        deleted_as_soon_as_it_is_back,
        what_only_the_store_knows_is_named_and_dropped,
    ],
)
def test_hosting(story):
    story()


def _applied_only(patch: pytest.MonkeyPatch) -> None:
    """Hosting from the applied wiring."""
    patch.setattr(Hosting, "queues", lambda self: [queue.id for queue in self._cluster.wiring.queues()])


def _never_taken_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StoredBrokerMachine, "_not_there", lambda self, queue, stored: None)


def _taken_twice(patch: pytest.MonkeyPatch) -> None:
    """The broker takes from a replica what the wiring knew when it came back."""
    patch.setattr(Hosting, "hosted", lambda self, committed: None)


@pytest.mark.parametrize(
    ("plant", "story"),
    [
        (_applied_only, what_was_declared_last_is_named),
        (_applied_only, what_nobody_has_any_more_goes),
        (_applied_only, what_only_the_store_knows_is_named_and_dropped),
        (_never_taken_back, what_never_was_is_taken_back),
        (_taken_twice, deleted_as_soon_as_it_is_back),
        (_never_taken_back, what_only_the_store_knows_is_named_and_dropped),
    ],
)
def test_planted_bugs_are_found(plant, story, monkeypatch):
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        story()
