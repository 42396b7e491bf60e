"""A cluster stream whose voters keep it in stores: real sequencers, keepers and stores, on disks of lists.

A member here is the voter's half of a broker, with the way it comes back: take the stream, read its records, open it,
and only then speak to a sequencer. Links are instant; a disk flushes at once unless it stalls; power goes out for
whatever was not flushed.
"""

from __future__ import annotations

from collections import deque

import pytest
from mantamq.protocol.log.acceptor import Acceptor
from mantamq.protocol.log.durability import Durability, Promises, RecordWriter
from mantamq.protocol.log.history import StreamHistory
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.machine import Flush, Multicast, PeerDown, PeerUp, Received, Send, Tick, is_sequencer
from mantamq.protocol.sequencer.machine import SequencerMachine
from mantamq.protocol.store.host import TX, Commit
from mantamq.protocol.store.machine import StoreMachine
from mantamq.protocol.wire.events import CLUSTER
from mantamq.protocol.wire.log_frames import Append, Nack, Promise, Request, Results, Suspect
from mantamq.protocol.wire.records import OPENED, OpenedRecord, encode_record
from mantamq.protocol.wire.store_frames import Ousted, Take, Taken, Written
from toy_disk import ToyDisk

MEMBERS = ["b1", "b2", "b3"]


class Member(Acceptor):
    """A durable voter of the cluster stream in its life `life`."""

    def __init__(self, name, life, keeper=Keeper, promises=Promises) -> None:
        super().__init__()
        self.name, self.life = name, life
        self.classes = keeper, promises
        self.writer = RecordWriter()
        self.keeper: Keeper | None = None
        self.applied = []
        self.needs_ack = False
        self.ready = False  # its life is on disk

    # ---- beginning

    def taken(self, frame, records) -> None:
        """The store has given the stream, and its records are read: go on where they end, and open it."""
        history = StreamHistory()
        for record in records:
            history.read(record.kind, record.payload)
        keeper, promises = self.classes
        log_inc = history.log_inc or self.life
        self.view.promised = frame.promised
        self.promises = promises(self.writer, frame.promised)
        self.keeper = keeper(
            CLUSTER, self.name, self.life, frame.blank, frame.promised, MEMBERS, log_inc, frame.opened, True
        )
        self.keeper.durability = Durability(CLUSTER, self.writer, self.wrote)
        if records:
            self.applied = self.keeper.resume(history)
        record = OpenedRecord(self.life, log_inc, self.keeper.blank, self.keeper.voters)
        self.writer.put(OPENED, CLUSTER, encode_record(record), self.opened)

    def opened(self, lsn) -> None:
        self.ready = True

    # ---- what an acceptor must have

    def keepers(self):
        return [self.keeper]

    def keeper_of(self, stream):
        return self.keeper

    def pledge(self) -> None:
        keeper, leader = self.keeper, self.view.leader
        self.send(leader, keeper.log_report())
        said = self.view.promised
        self.send(
            leader, Promise(said, self.name, keeper.log_inc, keeper.blank, [], self.life, keeper.opened, keeper.earlier)
        )

    def attached(self) -> None:
        self.needs_ack = True

    def append(self, peer, frame) -> None:
        if self.follow(peer, frame.ballot):
            committed, refusal = self.keeper.append(frame)
            self.applied += committed
            self.needs_ack = True
            if refusal is not None:
                self.send(peer, refusal)

    def wrote(self) -> None:
        self.applied += self.keeper.wrote()
        self.needs_ack = True

    def hear(self, peer, frame) -> None:
        if isinstance(frame, Append):
            self.append(peer, frame)
        elif (rule := self.rules().get(type(frame))) is not None:
            rule(peer, frame)

    def flush(self):
        if (write := self.writer.gathered()) is not None:
            self.send(f"{self.name}.store", write)
        if self.needs_ack and self.keeper is not None:
            self.needs_ack = False
            self.lead(self.keeper.ack(self.keeper.commit))
        return self.take()


class Cluster:
    """Three members with their stores, and a sequencer. `answered`: numbers of requests that were answered."""

    def __init__(self, keeper=Keeper, promises=Promises) -> None:
        self.classes = keeper, promises
        self.disks = {name: ToyDisk(1 << 20) for name in MEMBERS}
        self.stalled: set[str] = set()
        self.machines: dict[str, object] = {}
        self.frames: deque[tuple[str, str, object]] = deque()
        self.commits: dict[str, Commit] = {}
        self.answered: set[int] = set()
        self.evicted: list[object] = []
        self.asked = 0
        self.life = 0
        self.now_ms = 1000
        self.sequencer = "sequencer"
        self.machines["sequencer"] = SequencerMachine(7, MEMBERS)
        for name in MEMBERS:
            self.start(name)

    # ---- processes

    def start(self, name, linked=True) -> None:
        """A member and its store begin, with what is on their disk."""
        self.life += 10
        store = self.machines[f"{name}.store"] = StoreMachine(f"{name}.store")
        member = self.machines[name] = Member(name, self.life, *self.classes)
        self.carry_out(f"{name}.store", store.step(self.disks[name].recovered()))
        self.carry_out(f"{name}.store", store.step(PeerUp(name)))
        self.frames.append((name, f"{name}.store", Take(CLUSTER, member.life)))
        self.run()
        assert member.ready
        if linked:
            self.link(name)

    def link(self, name) -> None:
        self.machines[name].view.up(self.sequencer)
        self.carry_out(self.sequencer, self.machines[self.sequencer].step(PeerUp(name)))
        self.run()

    def cut_power(self, *names, kept=lambda unflushed: 0) -> None:
        """These members end, with all that was not flushed, but for the first `kept(how many)` records."""
        for name in names:
            del self.machines[name], self.machines[f"{name}.store"]
            self.commits.pop(f"{name}.store", None)
            self.disks[name].cut_power(kept)
            self.frames = deque(
                one for one in self.frames if one[0].split(".")[0] != name and one[1].split(".")[0] != name
            )
            if self.sequencer in self.machines:
                self.carry_out(self.sequencer, self.machines[self.sequencer].step(PeerDown(name)))

    def take_over(self, uid=9) -> None:
        """Another sequencer comes to lead."""
        self.machines.pop(self.sequencer, None)
        self.frames.clear()
        for name in MEMBERS:
            if name in self.machines:
                self.machines[name].view.down(self.sequencer, self.now_ms)
        self.sequencer = f"sequencer{uid}"
        self.machines[self.sequencer] = SequencerMachine(uid, MEMBERS, leading=False)
        here = [name for name in MEMBERS if name in self.machines]
        for name in here:
            self.link(name)
        for name in here:
            self.frames.append((name, self.sequencer, Suspect(self.machines[name].view.promised, name, MEMBERS)))
        for _ in range(10):
            self.run()
            self.now_ms += 200
            self.carry_out(self.sequencer, self.machines[self.sequencer].step(Tick(self.now_ms)))

    # ---- talk

    def carry_out(self, name, effects) -> None:
        for effect in effects:
            if isinstance(effect, Commit):
                self.commits[name] = effect
            for peer in (
                effect.peers if isinstance(effect, Multicast) else [effect.peer] if isinstance(effect, Send) else ()
            ):
                self.frames.append((name, peer, effect.frame))

    def run(self) -> None:
        """Until nobody has anything to say."""
        for _ in range(2000):
            if self.frames:
                source, target, frame = self.frames.popleft()
                self.deliver(source, target, frame)
                if not any(target == other for _, other, _ in self.frames):
                    self.flush(target)
            else:
                ready = [name for name in self.commits if name.split(".")[0] not in self.stalled]
                if not ready:
                    return
                self.flushed(ready[0])
        raise AssertionError("they never stop talking")

    def flushed(self, store) -> None:
        disk = self.disks[store.split(".")[0]]
        self.carry_out(store, self.machines[store].step(disk.carry_out(self.commits.pop(store))))
        self.flush(store)

    def deliver(self, source, target, frame) -> None:
        machine = self.machines.get(target)
        if target == "client":
            if isinstance(frame, Results):
                self.answered.update(frame.numbers)
        elif isinstance(machine, Member):
            if isinstance(frame, Taken):
                machine.taken(frame, self.disks[target].chain(TX, frame.last, frame.checkpoint))
            elif isinstance(frame, Written):
                machine.writer.written(frame)
            elif isinstance(frame, Ousted):
                raise AssertionError(f"{target} is ousted")
            else:
                machine.hear(source, frame)
        elif machine is not None:
            self.carry_out(target, machine.step(Received(source, frame)))

    def flush(self, name) -> None:
        machine = self.machines.get(name)
        if isinstance(machine, Member):
            self.carry_out(name, machine.flush())
        elif machine is not None:
            self.carry_out(name, machine.step(Flush()))

    def ask(self, count=1) -> set[int]:
        """Ask for events; returns the numbers that are answered."""
        first = self.asked + 1
        for _ in range(count):
            self.asked += 1
            event = b"\x92\x7d%c" % (self.asked % 100)
            self.frames.append(("client", self.sequencer, Request("client", 1, self.asked, [(CLUSTER, event)])))
        self.run()
        return self.answered & set(range(first, self.asked + 1))

    def applied(self, name) -> list[int]:
        """The numbers of the events that a member has applied, by what it shows."""
        return [entry.number for entry in self.machines[name].applied if entry.origin == "client"]

    def on_disk(self, name) -> list[int]:
        history = StreamHistory()
        for record in self.disks[name].logs[TX].records:
            history.read(record.kind, record.payload)
        return [entry.number for entry in history.entries.values() if entry.origin == "client"]


def a_majority_is_on_disk(*classes) -> None:
    """Whatever a member shows is on its disk and on another; an answer waits until every member shows it."""
    cluster = Cluster(*classes)
    assert cluster.ask(3) == {1, 2, 3}
    assert all(cluster.applied(name) == cluster.on_disk(name) == [1, 2, 3] for name in MEMBERS)
    cluster.stalled = {"b2", "b3"}
    assert cluster.ask(2) == set(), "two disks stall"
    assert cluster.on_disk("b1") == [1, 2, 3, 4, 5] and cluster.applied("b2") == [1, 2, 3]
    assert cluster.applied("b1") == [1, 2, 3], "one disk is no majority"
    cluster.stalled = {"b3"}
    cluster.run()
    assert cluster.applied("b1") == cluster.applied("b2") == [1, 2, 3, 4, 5]
    assert cluster.applied("b3") == [1, 2, 3] and cluster.answered == {1, 2, 3}, "applied <= on disk (I22)"
    cluster.stalled = set()
    cluster.run()
    assert cluster.answered == {1, 2, 3, 4, 5} and cluster.ask() == {6} and cluster.applied("b3")[:5] == [1, 2, 3, 4, 5]


def power_is_cut(*classes):
    """All lose power while a disk stalls; what any member showed is there, whoever comes back, in any order (I23)."""
    for back in (["b1", "b2"], ["b3", "b1"], ["b2", "b3"]):
        cluster = Cluster(*classes)
        cluster.ask(3)
        cluster.stalled = {"b3"}
        cluster.ask(2)
        cluster.stalled = {"b2", "b3"}
        cluster.ask(4)
        seen = set(cluster.answered).union(*map(cluster.applied, MEMBERS))
        cluster.machines.pop(cluster.sequencer)
        cluster.cut_power(*MEMBERS)
        cluster.stalled = set()
        cluster.machines["sequencer"] = SequencerMachine(8, MEMBERS, leading=False)
        for name in back:
            cluster.start(name)
        cluster.take_over()
        asked = cluster.asked
        assert cluster.ask() == {asked + 1}, "two of three logs are enough, and they vote at once"
        for name in back:
            shown = cluster.applied(name)
            assert seen <= set(shown), f"seen, and lost at {name}"
            assert shown == sorted(shown) and shown == cluster.applied(back[0])
        yield seen


def test_what_is_seen_is_on_a_majority_of_the_disks():
    a_majority_is_on_disk()


def test_what_was_seen_survives_a_power_cut_of_all():
    assert list(power_is_cut()) == [{1, 2, 3, 4, 5}] * 3, "with two disks stalled, no more is seen"


def test_a_member_that_comes_back_with_its_log_votes_at_once():
    cluster = Cluster()
    cluster.ask(3)
    cluster.cut_power("b2")
    assert cluster.ask(2) == {4, 5}
    cluster.start("b2")
    assert cluster.applied("b2")[:3] == [1, 2, 3] and not cluster.machines["b2"].keeper.blank
    cluster.cut_power("b3")
    assert cluster.ask(2) == {6, 7}, "with b3 away its vote is needed, and counts"
    assert cluster.applied("b2") == [1, 2, 3, 4, 5, 6, 7] == cluster.on_disk("b2")


@pytest.mark.parametrize("left", [0, 1, 2, 3])
def test_a_member_that_lost_the_end_of_its_log_gets_it_again(left):
    cluster = Cluster()
    cluster.ask(3)
    cluster.stalled = {"b2"}
    cluster.ask(3)
    cluster.cut_power("b2", kept=lambda unflushed: min(left, unflushed))
    cluster.stalled = set()
    cluster.start("b2")
    cluster.ask()
    assert cluster.applied("b2") == cluster.on_disk("b2") == [1, 2, 3, 4, 5, 6, 7]


def a_promise_survives(*classes) -> None:
    cluster = Cluster(*classes)
    cluster.ask(2)
    older = cluster.machines[cluster.sequencer].order.ballot
    cluster.take_over()
    newer = cluster.machines["b1"].view.promised
    assert newer > older and cluster.ask() == {3}
    cluster.cut_power("b1")
    cluster.start("b1", linked=False)
    member = cluster.machines["b1"]
    assert member.view.promised == newer
    member.hear("sequencer", Append(older, CLUSTER, 0, (0, 0), 0, 0, []))
    (nack,) = [effect.frame for effect in member.take()]
    assert nack == Nack(newer)


def test_a_promise_survives_the_process():
    a_promise_survives()


def test_the_store_ousts_nobody_and_each_life_is_on_disk():
    cluster = Cluster()
    cluster.cut_power("b1")
    cluster.start("b1")
    opened = [record.read() for record in cluster.disks["b1"].logs[TX].records if record.kind == OPENED]
    assert [(one.life, one.log_inc) for one in opened] == [(10, 10), (40, 10)], "the log is as old as before"
    assert all(is_sequencer(name) or name.split(".")[0] in MEMBERS for name in cluster.machines)


# ---- planted bugs


class AckBeforeFlush(Keeper):
    def ack(self, applied, eager=True):
        durability, self.durability = self.durability, None
        ack = super().ack(applied, eager)
        self.durability = durability
        return ack


class MemoryOnly(Promises):
    def keep(self, ballot):
        self._asked = self._flushed = max(ballot, self._asked)


@pytest.mark.parametrize(("story", "found"), [(a_majority_is_on_disk, "no majority"), (power_is_cut, "seen, and lost")])
def test_an_acknowledgement_before_the_flush_is_found(story, found):
    with pytest.raises(AssertionError, match=found):
        list(story(AckBeforeFlush) or ())


def test_a_promise_in_memory_only_is_found():
    with pytest.raises(AssertionError):
        a_promise_survives(Keeper, MemoryOnly)
