"""Durable queues, with real sequencers, brokers, replicas and stores: what was complete survives a power cut, once."""

from __future__ import annotations

import msgspec
import pytest
from mantamq.protocol.errors import DELETED, NOT_FOUND, UNAVAILABLE, LocalError, PeerError
from mantamq.protocol.limits import Limits
from mantamq.protocol.log.durability import Durability
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.machine import Flush, Received, Retire, Send
from mantamq.protocol.ranges import pairs
from mantamq.protocol.replica.checkpoints import Checkpoints
from mantamq.protocol.replica.status import Status
from mantamq.protocol.store.host import MESSAGES
from mantamq.protocol.stored.acknowledgements import StoredAcknowledgements
from mantamq.protocol.stored.queue import StoredQueue
from mantamq.protocol.stored.replica import StoredReplicaMachine
from mantamq.protocol.wire.client_frames import (
    AttachReceiver,
    AttachSender,
    Command,
    Completed,
    Delivery,
    Detach,
    Detached,
    Dispose,
    Disposed,
    Failed,
    Flow,
    Reply,
    Transfer,
)
from mantamq.protocol.wire.log_frames import Ack, Evicted, UpdateFront, UpdateStart
from mantamq.protocol.wire.queue_frames import ACCEPT
from mantamq.protocol.wire.records import CHECKPOINT, MESSAGE, OPENED
from mantamq.protocol.wire.store_frames import Taken, Write, Written
from stored_cluster import StoredCluster

ALL = ["b1", "b2", "b3"]
ANY_TWO = [["b1", "b2"], ["b3", "b1"], ["b2", "b3"]]


class Sender:
    """A client that sends to a durable queue; `complete` of its transfers are, counted from the first."""

    def __init__(self, cluster: StoredCluster, broker: str, queue: str = "q") -> None:
        self.client = cluster.client(broker)
        for name in (queue, "another"):  # what is declared is known everywhere when the next one is
            reply = self.client.command("declare_queue", name=name, durable=True)
            assert not reply.code, reply
        self.client.send(AttachSender(1, "", queue))
        self.sent = self.complete = 0

    def send(self, count: int, size: int = 1) -> None:
        """Messages of their numbers; `size`: bytes of each, about."""
        for _ in range(count):
            self.sent += 1
            self.client.send(Transfer(1, self.sent, [b"%d" % self.sent * size]))
        for frame in self.client.take(Completed):
            self.complete = max(self.complete, *frame.ranges)


class Receiver:
    """A client that consumes a durable queue; `got`: the messages, in order."""

    def __init__(self, cluster: StoredCluster, broker: str, queue: str = "q", credit: int = 1000) -> None:
        self.cluster = cluster
        self.client = cluster.client(broker)
        self.client.send(AttachReceiver(1, queue), Flow(1, credit))
        self.got: list[bytes] = []
        self.flagged: list[int] = []
        self.runs: list[int] = []
        self.accepts = 0
        self.take()

    def take(self) -> list[bytes]:
        """What has come, to be accepted or not."""
        self.cluster.pass_time(1000)
        for delivery in self.client.take(Delivery):
            self.got += delivery.blobs
            self.flagged += delivery.redelivered
            for first, last in pairs(delivery.ranges):
                self.runs += (delivery.acquisition, first, last)
        return self.got

    def accept(self) -> None:
        """All that it was given; whether it is accepted is known when this returns."""
        self.accepts += 1
        self.client.send(Dispose(1, self.accepts, ACCEPT, self.runs))
        self.cluster.pass_time(1000)
        assert [(frame.number, frame.lost) for frame in self.client.take(Disposed)] == [(self.accepts, [])]
        self.runs = []


def numbers(first: int, last: int, size: int = 1) -> list[bytes]:
    return [b"%d" % number * size for number in range(first, last + 1)]


def queues(cluster: StoredCluster, name: str = "q") -> dict[str, StoredQueue]:
    """Broker -> its copy of the queue."""
    return {
        machine.broker: queue
        for machine in cluster.machines.values()
        if isinstance(machine, StoredReplicaMachine)
        for id, queue in machine.queues.items()
        if id.startswith(name + "#") and isinstance(queue, StoredQueue)
    }


def alike(cluster: StoredCluster, name: str = "q") -> None:
    """All copies are equal, and serve."""
    cluster.pass_time(3000)
    copies = queues(cluster, name)
    assert {copy.catch_up.status for copy in copies.values()} == {Status.SERVING}
    assert len({(copy.applied, copy.state.digest()) for copy in copies.values()}) == 1, "the copies differ"


def power_is_cut(kind=StoredReplicaMachine):
    """Of what was complete, all is there but what was accepted, in order, whichever two come back; and they go on."""
    for back in ANY_TWO:
        cluster = StoredCluster(replica_kind=kind)
        sender = Sender(cluster, "b2")
        sender.send(10)
        receiver = Receiver(cluster, "b1", credit=4)
        assert receiver.got == numbers(1, 4)
        receiver.accept()
        sender.send(2)
        assert sender.complete == 12
        cluster.blackout(*back)
        assert not cluster.retired, cluster.retired
        again = Receiver(cluster, back[0])
        assert again.got == numbers(5, 12), "complete, and lost; or accepted, and back"
        again.accept()
        alike(cluster)
        later = Sender(cluster, back[1])
        later.send(3)
        assert later.complete == 3
        assert again.take()[8:] == numbers(1, 3)


def test_what_was_complete_survives_a_power_cut_of_all():
    power_is_cut()


def what_waits_for_a_queue_that_never_opens():
    """It is deleted while b1's replica waits for the store: whatever waits there with it is answered."""
    cluster = StoredCluster()
    client, other = cluster.client("b1"), cluster.client("b2")
    assert not client.command("declare_queue", name="stays", durable=True).code
    assert not client.command("declare_exchange", name="news", type="fanout").code
    held = cluster.hold(Taken)
    other.send(Command(1, "declare_queue", {"name": "q", "durable": True}))
    client.send(Command(100, "bind", {"exchange": "news", "queue": "q"}))
    client.send(AttachSender(1, "news", None), AttachSender(2, "", "q"))
    client.send(Transfer(1, 1, [b"1"], [""]), Transfer(2, 1, [b"1"]))
    client.send(*(Command(number, name, {"name": "q"}) for number, name in enumerate(("purge", "queue"), 101)))
    client.send(Command(103, "queues", {}), Command(104, "delete_queue", {"name": "q", "if_empty": True}))
    client.send(AttachReceiver(3, "q"), Flow(3, 1), AttachReceiver(4, "q", "browse"), AttachReceiver(5, "q"), Detach(5))
    gone = cluster.client("b1")
    gone.send(AttachReceiver(1, "q", "browse"))
    gone.vanish()
    cluster.pass_time(500)
    assert not client.take(Reply), "the queue was not to be open"
    other.send(Command(2, "delete_queue", {"name": "q"}))
    cluster.pass_time(1000)
    assert [(reply.number, reply.code) for reply in other.take(Reply)] == [(1, ""), (2, "")]
    replies = {reply.number: reply for reply in client.take(Reply)}
    assert {number: reply.code for number, reply in replies.items()} == {
        100: "", 101: NOT_FOUND, 102: NOT_FOUND, 103: "", 104: NOT_FOUND,
    }  # fmt: skip
    assert [queue["name"] for queue in replies[103].value] == ["stays"]
    assert sorted((frame.handle, frame.code) for frame in client.take(Detached)) == [
        (2, DELETED), (3, DELETED), (4, DELETED), (5, DELETED),
    ]  # fmt: skip
    assert [(frame.handle, frame.code) for frame in client.take(Failed)] == [(1, NOT_FOUND)]
    cluster.let_go(held)
    cluster.pass_time(1000)
    assert not cluster.retired and not client.take(Reply)
    assert all(
        [stream.partition("#")[0] for stream in disk.recovered().logs[MESSAGES].index.streams] == ["stays"]
        for disk in cluster.disks.values()
    )


def test_whatever_waits_for_a_queue_that_is_deleted_while_it_is_opened_is_answered():
    what_waits_for_a_queue_that_never_opens()


def test_what_the_store_asks_while_a_queue_is_opened_is_done_when_it_is(monkeypatch):
    """It asks each owner once: a queue that did not hear would hold the old end of the log for ever."""
    cluster = StoredCluster()
    sender = Sender(cluster, "b2")
    sender.send(10)
    found, end = StoredReplicaMachine._found, cluster.disks["b3"].logs[MESSAGES].records[-1].lsn

    def asked_meanwhile(self, *arguments):
        self._ahead(end)
        found(self, *arguments)

    monkeypatch.setattr(StoredReplicaMachine, "_found", asked_meanwhile)
    cluster.cut_power("b3")
    cluster.come_back("b3")
    cluster.pass_time(3000)
    records = cluster.disks["b3"].logs[MESSAGES].records
    after = {record.stream for record in records if record.kind == CHECKPOINT and record.lsn > end}
    assert {queue.rpartition("#")[0] for queue in after} == {"q", "another"}


def test_a_queue_that_is_too_far_behind_is_given_up_on_disk_before_its_process_ends():
    """Else the next process finds the same log, and is sent away again, for ever."""
    cluster = StoredCluster()
    Sender(cluster, "b2").send(3)
    queue = queues(cluster)["b3"]
    (name,) = [name for name, machine in cluster.machines.items() if queue in getattr(machine, "queues", {}).values()]
    replica = cluster.machines[name]
    frame = Evicted("too far behind", forget=True, stream=queue.id)
    said = [*replica.step(Received(replica.view.leader, frame)), *replica.step(Flush())]
    (write,) = [effect.frame for effect in said if isinstance(effect, Send) and isinstance(effect.frame, Write)]
    assert [(kind, stream) for kind, stream, _ in write.records] == [(OPENED, queue.id)]
    assert not any(isinstance(effect, Retire) for effect in said), "before that is on disk"
    cluster._carry_out(name, said)
    cluster.settle()
    assert cluster.retired[name] == "too far behind"


def test_a_queue_that_is_given_up_is_not_called_deleted():
    """Whoever asks while that is written hears that the replica has stopped; only a deleted queue is deleted."""
    cluster = StoredCluster()
    Sender(cluster, "b2").send(3)
    queue = queues(cluster)["b3"]
    (name,) = [name for name, machine in cluster.machines.items() if queue in getattr(machine, "queues", {}).values()]
    held = cluster.hold(Written)
    replica = cluster.machines[name]
    frame = Evicted("too far behind", forget=True, stream=queue.id)
    cluster._carry_out(name, [*replica.step(Received(replica.view.leader, frame)), *replica.step(Flush())])
    client = cluster.client("b3")
    client.send(Command(1, "purge", {"name": "q"}))
    cluster.pass_time(200)
    assert not client.take(Reply)
    cluster.let_go(held)
    cluster.settle()
    assert cluster.retired[name] == "too far behind"
    cluster.kill(name)
    cluster.settle()
    assert [(reply.number, reply.code) for reply in client.take(Reply)] == [(1, UNAVAILABLE)]


# ---- one member


def a_replica_dies_alone(kind=StoredReplicaMachine):
    """Another replica of the broker takes its queue with its log: no update, the same vote, and what is not accepted is
    there."""
    cluster = StoredCluster(replica_kind=kind)
    sender = Sender(cluster, "b2")
    sender.send(5)
    cluster.pass_time(1000)
    for broker in ("b1", "b3"):
        cluster.add_replica(broker)
        cluster.kill(cluster.replica(broker, "q"))
        cluster.pass_time(1000)
        sender.send(2)
    assert sender.complete == 9
    alike(cluster)
    assert not any(isinstance(frame, (UpdateStart, UpdateFront)) for _, _, frame in cluster.traffic), "it had its log"
    assert {queue.keeper.opened > 0 for broker, queue in queues(cluster).items() if broker != "b2"} == {True}
    assert Receiver(cluster, "b1").got == numbers(1, 9)


def test_a_replica_that_dies_alone_gives_its_queue_with_its_log():
    a_replica_dies_alone()


def test_what_an_owner_held_is_back_flagged():
    """The owner's broker loses power while a consumer there has messages; the others go on without them being lost."""
    cluster = StoredCluster()
    sender = Sender(cluster, "b2")
    sender.send(6)
    held = Receiver(cluster, "b1", credit=3)
    assert held.got == numbers(1, 3)
    cluster.cut_power("b1")
    cluster.pass_time(5000)
    again = Receiver(cluster, "b3")
    assert again.got == numbers(1, 6) and again.flagged[::2] == [0, 1, 2]
    again.accept()
    sender.send(1)
    assert again.take()[6:] == numbers(7, 7)
    cluster.come_back("b1")
    alike(cluster)
    cluster.blackout("b1", "b2")
    assert Receiver(cluster, "b1").got == numbers(7, 7)


def test_a_second_power_cut_finds_what_the_first_had_left():
    cluster = StoredCluster()
    expected: list[bytes] = []
    for round_, back in enumerate([*ANY_TWO, ALL]):
        sender = Sender(cluster, "b1" if not round_ else back[0])
        sender.send(3)
        assert sender.complete == 3
        expected += numbers(1, 3)
        receiver = Receiver(cluster, sender.client.broker, credit=1)
        assert receiver.got == expected[:1]
        receiver.accept()
        expected = expected[1:]
        cluster.blackout(*back)
        copies = queues(cluster)
        assert [list(copy.state.blobs.values()) for copy in copies.values()] == [expected] * len(back)
        if back != ALL:
            cluster.come_back(*[broker for broker in ALL if broker not in back])
            alike(cluster)


# ---- updates


def a_lost_disk(kind=StoredReplicaMachine):
    """A broker without its disk is updated, and then is one of the two that come back."""
    cluster = StoredCluster(replica_kind=kind, limits=Limits(retained_entries=0))
    sender = Sender(cluster, "b1")
    sender.send(8, size=300_000)
    cluster.cut_power("b3")
    cluster.pass_time(5000)
    del cluster.disks["b3"]
    sender.send(2)
    cluster.blank.add("b3")
    cluster.come_back("b3")
    for _ in range(30):
        cluster.pass_time(300)
    assert any(isinstance(frame, UpdateFront) for _, _, frame in cluster.traffic)
    alike(cluster)
    sender.send(1)
    cluster.pass_time(1000)
    cluster.blank.clear()
    cluster.blackout("b3", "b2")
    copies = queues(cluster)
    assert not any(queue.keeper.blank for queue in copies.values()), "it came back without its vote"
    assert Receiver(cluster, "b3").got == [*numbers(1, 8, 300_000), *numbers(9, 11)], "complete, and lost"
    alike(cluster)


def test_an_update_is_on_disk_before_it_counts():
    a_lost_disk()


def test_a_clean_stop_leaves_a_checkpoint_of_each_queue():
    cluster = StoredCluster()
    sender = Sender(cluster, "b1")
    sender.send(4)
    cluster.pass_time(1000)
    cluster.stop_clean()
    cluster.loads.clear()
    cluster.start_again(*ALL)
    assert {load.checkpoint == load.last for load in cluster.loads} == {True}
    assert Receiver(cluster, "b2").got == numbers(1, 4)


# ---- checkpoints and moves


def tails_move(kind=StoredReplicaMachine):
    """Many messages go through a small log beside one that nobody takes: containers are freed, and nothing is lost."""
    cluster = StoredCluster(replica_kind=kind, container_bytes=4096)
    kept = Sender(cluster, "b1", "kept")
    kept.send(3, size=50)
    sender = Sender(cluster, "b1", "q")
    receiver = Receiver(cluster, "b2", "q")
    for _ in range(30):
        sender.send(10, size=100)
        receiver.take()
        receiver.accept()
        cluster.pass_time(1000)
    bases = [cluster.disks[broker].logs[MESSAGES].base for broker in ALL]
    assert min(bases) > 4096, "the log only grows"
    moves = [record for record in cluster.disks["b1"].logs[MESSAGES].records if record.kind == MESSAGE]
    assert moves, "what stays was moved"
    sender.send(2)
    for back in ANY_TWO:
        cluster.blackout(*back)
        assert Receiver(cluster, back[0], "kept", 0).got == []
        copies = queues(cluster, "kept")
        assert {tuple(copy.state.blobs.values()) for copy in copies.values()} == {tuple(numbers(1, 3, 50))}, "lost"
        copies = queues(cluster, "q")
        assert {tuple(copy.state.blobs.values()) for copy in copies.values()} == {tuple(numbers(301, 302))}
        cluster.come_back(*[broker for broker in ALL if broker not in back])
        alike(cluster)


def test_the_log_of_a_queue_that_lives_long_does_not_grow():
    tails_move()


# ---- nothing is shown that is not on disk


def nothing_is_shown_that_is_not_on_disk(kind=StoredReplicaMachine):
    """While two disks stall, nothing is complete nor delivered; after a power cut of all, what was complete is there."""
    cluster = StoredCluster(replica_kind=kind)
    sender = Sender(cluster, "b1")
    sender.send(2)
    receiver = Receiver(cluster, "b2")
    cluster.stalled = {"b2", "b3"}
    sender.send(2)
    cluster.pass_time(300)
    sender.send(0)
    assert sender.complete == 2, "complete, and on one disk of three"
    assert receiver.take() == numbers(1, 2), "delivered, and not on disk here"
    cluster.resume("b3")
    cluster.pass_time(300)
    sender.send(0)
    assert sender.complete == 4
    assert receiver.take() == numbers(1, 2), "delivered, and not on disk here"
    cluster.resume("b2")
    assert receiver.take() == numbers(1, 4)


def test_nothing_is_shown_that_is_not_on_disk():
    nothing_is_shown_that_is_not_on_disk()


# ---- planted bugs


class CountsUnflushed(Durability):
    """What has come counts as written."""

    def appended(self, frame, end, known):
        super().appended(frame, end, known)
        self.flushed = end
        return min(end, self.known)


class OpensBlank(StoredReplicaMachine):
    def _resumed(self, *args):
        return None


class TellsAtOnce(StoredReplicaMachine):
    """An update counts before it is on disk, and no checkpoint comes."""

    def queue(self, kind, frame, keeper):
        queue = super().queue(kind, frame, keeper)
        if isinstance(queue, StoredQueue):
            patched = type("Forgetful", (StoredQueue,), {"__slots__": (), "_bring": lambda self, bodies: None})
            queue.__class__ = patched
        return queue


def test_what_counts_before_it_is_flushed_is_found(monkeypatch):
    monkeypatch.setattr("mantamq.protocol.stored.replica.Durability", CountsUnflushed)
    with pytest.raises(LocalError, match="K5"):
        nothing_is_shown_that_is_not_on_disk()


def test_an_acknowledgement_before_the_flush_is_found(monkeypatch):
    def ack(self, applied, eager=True):
        return Ack(self.promised, self.stream, self.voter, max(self._sure, self.commit), applied, eager)

    def append(self, leader, frame):
        committed = exact(self, leader, frame)
        self.wrote()
        return committed

    exact = StoredAcknowledgements.append
    monkeypatch.setattr(Keeper, "ack", ack)
    monkeypatch.setattr(StoredAcknowledgements, "append", append)
    with pytest.raises(AssertionError, match="on one disk of three"):
        nothing_is_shown_that_is_not_on_disk()


def test_a_log_that_is_not_resumed_is_found():
    with pytest.raises(AssertionError):
        power_is_cut(OpensBlank)


def test_an_update_whose_messages_are_not_written_is_found():
    with pytest.raises((AssertionError, PeerError)):
        a_lost_disk(TellsAtOnce)


def test_a_base_that_passes_moves_is_found(monkeypatch):
    """The checkpoint names the old places, and says that it needs none of them."""

    def early(self, lsn):
        self._moving = None

    monkeypatch.setattr(Checkpoints, "moved", early)
    complete = Checkpoints.complete
    monkeypatch.setattr(
        Checkpoints, "complete", lambda self, record: msgspec.structs.replace(complete(self, record), low=self._upto)
    )
    with pytest.raises((AssertionError, KeyError)):
        tails_move()
