"""What a voter says and applies is on its disk (K1', K2', K5), through crashes; and each rule's planted bug is found.

A voter is told a random but possible history: leaders one after another, each with a log that has all that is committed,
sent in pieces, again, and in conflict with what an older one sent. Its disk takes records when it likes; a crash keeps
what was flushed, and any first part of what was not. The checks read the disk with a few lines of their own.
"""

from __future__ import annotations

import random

import pytest
from made_up_logs import ONE, TWO, append, entries, entry
from mantamq.protocol.errors import LocalError
from mantamq.protocol.log.acceptor import Acceptor
from mantamq.protocol.log.durability import Durability, Promises, RecordWriter
from mantamq.protocol.log.history import StreamHistory
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.machine import Send
from mantamq.protocol.wire.events import ZERO, Enqueue, Entry, encode_event
from mantamq.protocol.wire.log_frames import Ack, Append, Heartbeat, LogReport, Nack, Prepare, UpdateStart
from mantamq.protocol.wire.records import (
    CHECKPOINT,
    ENTRIES,
    OPENED,
    PROMISE,
    CheckpointRecord,
    EntriesRecord,
    OpenedRecord,
    decode_record,
    encode_record,
)
from mantamq.protocol.wire.store_frames import Room, Write, Written


class Voter:
    """One durable keeper, its writer, and its disk, which flushes a write at a time."""

    def __init__(self, keeper=Keeper, durability=Durability, disk=()) -> None:
        self.classes = keeper, durability
        self.disk: list[tuple[int, bytes]] = list(disk)
        self.sent: list[Write] = []
        self.applied: list[Entry] = []
        self.writer = RecordWriter()
        history = StreamHistory()
        for kind, payload in self.disk:
            history.read(kind, payload)
        self.keeper = keeper("q#1", "b1", voters=["b1", "b2", "b3"])
        self.keeper.durability = durability("q#1", self.writer, self.wrote)
        if self.disk:
            self.applied = self.keeper.resume(history)
        else:
            self.writer.put(
                OPENED, "q#1", encode_record(OpenedRecord(1, 1, False, ["b1", "b2", "b3"])), lambda lsn: None
            )

    def wrote(self) -> None:
        self.applied += self.keeper.wrote()

    def append(self, frame) -> object:
        committed, refusal = self.keeper.append(frame)
        self.applied += committed
        self.send()
        return refusal

    def send(self) -> None:
        if (write := self.writer.gathered()) is not None:
            self.sent.append(write)

    def flush(self, writes=1) -> None:
        """The disk takes the oldest writes."""
        for write in self.sent[:writes]:
            self.disk += [(kind, payload) for kind, _, payload in write.records]
            self.writer.written(Written(write.number, [64 + n for n in range(len(write.records))]))
        del self.sent[:writes]

    def on_disk(self) -> list[Entry]:
        """The log on disk, from index 1."""
        log: list[Entry] = []
        for kind, payload in self.disk:
            record = decode_record(kind, payload)
            if isinstance(record, EntriesRecord):
                log[record.first - 1 :] = record.entries
        return log

    def check(self) -> None:
        log = self.on_disk()
        memory = [self.keeper._log[index] for index in range(1, self.keeper.end + 1)]
        for said in (self.keeper.ack(0).match, self.keeper.log_report().have):
            assert log[:said] == memory[:said] and len(log) >= said, "said <= on disk (I21)"
        report = self.keeper.log_report()
        assert (report.ballot, report.seq) == (
            (memory[report.have - 1].ballot, memory[report.have - 1].seq) if report.have else (ZERO, 0)
        )
        assert self.applied == log[: len(self.applied)], "applied <= on disk (I22)"

    def crashed(self, rng) -> Voter:
        """The same voter again, with what is on disk: all that was flushed, and some of what was on its way."""
        records = [(kind, payload) for write in self.sent for kind, _, payload in write.records]
        return Voter(*self.classes, disk=[*self.disk, *records[: rng.randint(0, len(records))]])


def story(seed: int, keeper=Keeper, durability=Durability) -> int:
    """A random history under the checks; returns how often something waited for the disk."""
    rng = random.Random(seed)
    voter = Voter(keeper, durability)
    log: list[Entry] = []  # the leader's
    ballot, commit, waited = 1, 0, 0
    acked = (0, 0)  # how far under which ballot
    for _ in range(60):
        chance = rng.random()
        if (
            chance < 0.1
        ):  # another leader: it has what is committed, and what was acknowledged last if it asks this voter
            ballot += 1
            keep = rng.randint(max(commit, acked[0] if rng.random() < 0.7 else 0), max(len(log), commit))
            log = log[:keep]
            log.append(Entry((ballot, 1), len(log) + 1, "b1", ballot, 1, b"start"))
            voter.keeper.promise((ballot, 1))
        elif chance < 0.3:
            log += [
                Entry((ballot, 1), len(log) + n, "b1", ballot, n, b"%d" % rng.randrange(99))
                for n in range(1, rng.randint(2, 6))
            ]
        elif chance < 0.7 and log:
            previous = rng.randint(0, min(len(log), max(voter.keeper.end, 0)))
            upto = rng.randint(previous, len(log))
            known = log[previous - 1].ballot if previous else ZERO
            voter.keeper.quorum_needed = 1 if rng.random() < 0.3 else None
            voter.append(Append((ballot, 1), "q#1", previous, known, commit, 0, log[previous:upto]))
            waited += voter.keeper.durability.known > voter.keeper.commit
            if voter.keeper.quorum_needed is not None and rng.random() < 0.5:
                match = rng.randint(0, len(log))
                voter.applied += voter.keeper.learn(Ack((ballot, 1), "q#1", "b2", match, 0))
                commit = max(commit, min(match, voter.keeper.commit))
        elif chance < 0.9:
            voter.flush(rng.randint(1, 3))
        elif chance < 0.94:
            before, promised = voter.keeper.ack(0).match, voter.keeper.promised
            said = list(voter.applied)
            voter = voter.crashed(rng)
            assert (
                voter.keeper.end >= before
                and voter.applied == [*said, *voter.applied[len(said) :]][: len(voter.applied)]
            )
            assert len(voter.applied) >= min(len(said), voter.keeper.commit)
            voter.keeper.promise(promised)
        if log and log[-1].ballot == (ballot, 1) and rng.random() < 0.3:
            commit = max(commit, rng.randint(0, len(log)))  # the two others have it
        match = voter.keeper.ack(0).match
        if match <= len(log) and voter.keeper.promised == (ballot, 1):
            acked = match, ballot
            if log and match and log[match - 1].ballot == (ballot, 1) and rng.random() < 0.5:
                commit = max(commit, match)  # another voter has it too
        voter.check()
    voter.flush(len(voter.sent))
    voter.check()
    assert voter.keeper.durability.flushed == voter.keeper.end
    assert (
        voter.keeper.commit
        == len(voter.applied)
        == min(max(voter.keeper.durability.known, voter.keeper.commit), voter.keeper.end)
    )
    return waited


@pytest.mark.parametrize("seed", range(150))
def test_what_is_said_and_applied_is_on_disk(seed):
    story(seed)


def test_the_stories_make_it_wait():
    assert sum(map(story, range(30))) > 30


# ---- planted bugs


class AckBeforeFlush(Keeper):
    def ack(self, applied, eager=True):
        return Ack(self.promised, self.stream, self.voter, max(self._sure, self.commit), applied, eager)


class ReportBeforeFlush(Keeper):
    def _said(self):
        return self.end, self.end_ballot, self.end_seq


class LearnBeforeFlush(Keeper):
    def _learned(self):
        durability, self.durability = self.durability, None
        learned = super()._learned()
        self.durability = durability
        return learned


class ApplyBeforeFlush(Durability):
    def appended(self, frame, end, known):
        super().appended(frame, end, known)
        return known


class DroppedStillFlushed(Durability):
    def dropped(self, index):
        self._asked = index - 1


class DroppedStillOnItsWay(Durability):
    def dropped(self, index):
        self._asked = index - 1
        self.flushed = min(self.flushed, index - 1)


class NeverApplied(Durability):
    """Is told of what is on disk, and hands nothing out."""

    def _written(self, lsn):
        told, self.told = self.told, lambda: None
        super()._written(lsn)
        self.told = told


class WrittenOnce(Durability):
    """Takes what overrules entries for something that is on disk already."""

    def dropped(self, index):
        asked = self._asked
        super().dropped(index)
        self._asked = asked


PLANTS = [
    *((keeper, Durability) for keeper in (AckBeforeFlush, ReportBeforeFlush, LearnBeforeFlush)),
    *(
        (Keeper, durability)
        for durability in (ApplyBeforeFlush, DroppedStillFlushed, DroppedStillOnItsWay, NeverApplied, WrittenOnce)
    ),
]


@pytest.mark.parametrize(
    "plant", PLANTS, ids=lambda plant: next(one.__name__ for one in plant if one not in (Keeper, Durability))
)
def test_a_planted_bug_is_found(plant):
    with pytest.raises((AssertionError, IndexError)):
        for seed in range(150):
            story(seed, *plant)


# ---- single rules


def durable(keeper=Keeper, durability=Durability):
    voter = Voter(keeper, durability)
    voter.send()
    voter.flush()
    return voter


def test_an_acknowledgement_follows_the_disk():
    voter = durable()
    voter.append(append(0, entries(1, 3), 2))
    voter.append(append(3, [entry(4)], 4))
    assert (voter.keeper.ack(0).match, voter.keeper.commit, voter.applied) == (0, 0, [])
    voter.flush()
    assert (voter.keeper.ack(0).match, voter.applied) == (3, entries(1, 3)), "4 was known committed, and 3 is on disk"
    voter.flush()
    assert (voter.keeper.ack(0).match, voter.applied) == (4, entries(1, 4))


def test_what_is_written_is_what_was_sent_with_the_commit_index():
    voter = durable()
    voter.append(append(0, entries(1, 2)))
    voter.append(append(1, entries(2, 4), 2))
    voter.append(append(3, [entry(4, TWO)], 3, ballot=TWO, previous_ballot=ONE))
    records = [decode_record(kind, payload) for write in voter.sent for kind, _, payload in write.records]
    assert records == [
        EntriesRecord(1, 0, entries(1, 2)),
        EntriesRecord(3, 2, entries(3, 4)),
        EntriesRecord(4, 3, [entry(4, TWO)]),
    ]
    voter.append(append(0, entries(1, 3), 3, ballot=TWO))
    assert len(voter.sent) == 3, "nothing is written twice, and a commit index alone rides with the next entries"


def test_a_suffix_that_is_overruled_is_no_longer_held():
    voter = durable()
    voter.append(append(0, entries(1, 4)))
    voter.flush()
    voter.append(append(2, [entry(3, TWO)], 2, ballot=TWO, previous_ballot=ONE))
    report = voter.keeper.log_report()
    assert (voter.keeper.ack(0).match, report.have, report.ballot, report.seq) == (2, 2, ONE, 2)
    voter.flush()
    assert (voter.keeper.ack(0).match, voter.keeper.log_report().ballot) == (3, TWO)


def test_a_restored_keeper_acknowledges_nothing_until_its_checkpoint_is_on_disk():
    voter = durable()
    voter.keeper.blank = True
    voter.append(append(0, entries(1, 2)))
    voter.keeper.restore(UpdateStart("q#1", "b2", "b1", 9, ONE, 9, {}, {}, None, ["b1"]))
    voter.append(append(9, entries(10, 11), 10))
    voter.flush(9)
    said = voter.keeper.log_report()
    assert (voter.keeper.ack(0).match, said.have, said.whole, voter.keeper.commit) == (0, 11, False, 10)
    head = (0, 0, 1, 1, True, 9, ONE, 9, {}, {}, ["b1"], {}, 9, b"")
    voter.keeper.durability.checkpoint(CheckpointRecord(*head))
    voter.send()
    assert voter.keeper.ack(0).match == 0
    voter.flush()
    assert (voter.keeper.ack(0).match, voter.keeper.log_report().whole) == (11, True)
    voter.keeper.restore(UpdateStart("q#1", "", "", 0, ZERO, 0, {}, {}, None))
    voter.append(append(0, entries(1, 2)))
    voter.flush()
    assert voter.keeper.ack(0).match == 2, "who begins with nothing has nothing to wait for"


def test_a_transient_keeper_holds_what_it_is_sent():
    one = Keeper("q#1", "b1")
    one.append(append(0, entries(1, 3), 2))
    assert (one.ack(0).match, one.commit, one.log_report().have, one.wrote()) == (3, 2, 3, [])


# ---- the writer


def test_records_leave_in_one_write_and_each_hears_its_lsn():
    writer, heard = RecordWriter(), []
    assert writer.gathered() is None
    for n in range(3):
        writer.put(ENTRIES, "q#1", b"%d" % n, lambda lsn, n=n: heard.append((n, lsn)))
    assert writer.gathered() == Write(1, [(ENTRIES, "q#1", b"%d" % n) for n in range(3)])
    assert writer.gathered() is None
    writer.put(ENTRIES, "q#2", b"3", lambda lsn: heard.append((3, lsn)))
    writer.written(Written(1, [64, 0, 80]))
    assert heard == [(0, 64), (2, 80)], "one of them was dropped: another life has the stream"
    with pytest.raises(LocalError, match="more than it was sent"):
        writer.written(Written(2, [96]))
    writer.gathered()
    writer.written(Written(2, [96]))
    assert heard[-1] == (3, 96)


def test_a_full_store_gets_what_frees_space_and_no_bodies():
    voter = durable()
    bodies = Entry(ONE, 2, "b2", 1, 1, encode_event(Enqueue("", [], [b"x"])))
    voter.writer.room(Room(-500, True, True))
    voter.append(append(0, [entry(1)]))
    voter.append(append(1, [bodies]))
    voter.append(append(2, [entry(3)]))
    voter.writer.put(PROMISE, "", b"", lambda lsn: None)
    voter.writer.put(CHECKPOINT, "q#2", b"", lambda lsn: None)
    voter.send()
    assert [record[:2] for write in voter.sent for record in write.records] == [
        (ENTRIES, "q#1"),
        (PROMISE, ""),
        (CHECKPOINT, "q#2"),
    ]
    voter.flush(9)
    assert voter.keeper.ack(0).match == 1
    voter.writer.room(Room(-300, True, False))
    voter.send()
    voter.flush(9)
    assert voter.keeper.ack(0).match == 3


# ---- promises


class Member(Acceptor):
    """A process with one durable log. `said`: what it has told the sequencers."""

    def __init__(self, promises=Promises) -> None:
        super().__init__()
        self.writer = RecordWriter()
        self.promises = promises(self.writer)
        self.keeper = Keeper("q#1", "b1")
        self.keeper.durability = Durability("q#1", self.writer, lambda: self.keeper.wrote())
        self.asked = 0
        self.view.up("sequencer")
        self.view.up("sequencer2")

    def keepers(self):
        return [self.keeper]

    def pledge(self):
        self.send(self.view.leader, self.keeper.log_report())

    def attached(self):
        self.asked += 1

    def said(self):
        return [(effect.peer, effect.frame) for effect in self.take() if isinstance(effect, Send)]

    def flush(self):
        """Carry out what has gathered; returns the promises that are on disk now."""
        write = self.writer.gathered()
        if write is None:
            return []
        self.writer.written(Written(write.number, [64] * len(write.records)))
        return [decode_record(kind, payload).ballot for kind, _, payload in write.records if kind == PROMISE]


def promised_before_it_is_said(promises=Promises):
    member = Member(promises)
    member.prepare("sequencer", Prepare(ONE))
    assert member.said() == [], "no pledge before the promise is on disk"
    member.prepare("sequencer", Prepare(ONE))
    assert member.flush() == [ONE], "it is written, once"
    ((peer, report),) = member.said()
    assert peer == "sequencer" and type(report) is LogReport and report.promised == ONE
    member.prepare("sequencer2", Prepare(TWO))
    member.prepare("sequencer", Prepare(ONE))
    assert member.said() == [("sequencer", Nack(TWO))], "an older ballot is refused at once"
    member.heartbeat("sequencer2", Heartbeat(TWO, 1, 0))
    assert not member.view.attached and member.asked == 0
    member.lead(member.keeper.ack(0))
    assert member.said() == [], "no acknowledgement either"
    assert member.flush() == [TWO]
    assert member.view.attached and member.asked == 1 and {peer for peer, _ in member.said()} == {"sequencer2"}
    member.heartbeat("sequencer2", Heartbeat(TWO, 2, 1))
    assert member.flush() == [] and member.asked == 1


def test_a_promise_is_on_disk_before_it_is_said():
    promised_before_it_is_said()


def over_before_it_is_on_disk(promises=Promises):
    member = Member(promises)
    member.prepare("sequencer", Prepare(ONE))
    write = member.writer.gathered()
    member.prepare("sequencer2", Prepare(TWO))
    member.writer.written(Written(write.number, [64]))
    assert member.said() == [] and member.promises.kept(ONE) and not member.promises.kept(TWO)
    assert member.flush() == [TWO]
    assert [peer for peer, _ in member.said()] == ["sequencer2"]


def test_answers_under_a_ballot_that_is_over_are_not_given():
    over_before_it_is_on_disk()


def test_a_leader_whose_link_broke_meanwhile_is_not_attached():
    member = Member()
    member.heartbeat("sequencer", Heartbeat(ONE, 1, 0))
    member.view.down("sequencer", 5)
    member.flush()
    assert not member.view.attached and member.asked == 0
    member.view.up("sequencer")
    member.heartbeat("sequencer", Heartbeat(ONE, 2, 0))
    assert member.view.attached and member.asked == 1


class MemoryOnly(Promises):
    """A promise in memory only."""

    def keep(self, ballot):
        self._asked = self._flushed = max(ballot, self._asked)


class PledgeBeforeFlush(Promises):
    def when_kept(self, ballot, answer):
        answer()


class NeverSaid(Promises):
    def _kept(self, ballot):
        pass


class OlderBallotAnswers(Promises):
    """What waits for one promise is said when another is on disk."""

    def _kept(self, ballot):
        self._flushed = self._asked
        super()._kept(self._asked)


@pytest.mark.parametrize("plant", [MemoryOnly, PledgeBeforeFlush, NeverSaid])
def test_a_planted_bug_of_promises_is_found(plant):
    with pytest.raises((AssertionError, ValueError)):
        promised_before_it_is_said(plant)


def test_a_planted_bug_of_a_ballot_that_is_over_is_found():
    with pytest.raises(AssertionError):
        over_before_it_is_on_disk(OlderBallotAnswers)
