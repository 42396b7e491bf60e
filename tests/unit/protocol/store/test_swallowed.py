"""Damage that may have swallowed a voter's records: it stays in its log until nobody can take that voter for a new one."""

from __future__ import annotations

import pytest
from mantamq.protocol.machine import Received
from mantamq.protocol.store.host import MESSAGES, TX, FoundLog, Recovered
from mantamq.protocol.store.index import LogIndex
from mantamq.protocol.store.machine import StoreMachine
from mantamq.protocol.store.swallowed import Swallowed
from mantamq.protocol.store.tail import LogTail
from mantamq.protocol.wire.events import CLUSTER
from mantamq.protocol.wire.records import DROPPED, ENTRIES, OPENED, DroppedRecord, OpenedRecord, encode_record
from mantamq.protocol.wire.store_frames import Expected, Take, Taken, Write
from toy_disk import ToyDisk

from tests.unit.protocol.store.test_machine import B1, R0, R1, Desk, checkpoint, opened

LIFE = 10


class RottenDisk(ToyDisk):
    """All records of the second queue, and of a third that is gone since, have rotted."""

    def __init__(self) -> None:
        super().__init__()
        self.hurt = (0, 0)

    def rot(self) -> None:
        records = self.logs[MESSAGES].records
        bad = [one for one in records if one.stream in ("q#2", "q#3")]
        self.hurt = bad[0].lsn, bad[-1].lsn + 16 + len(bad[-1].payload)
        assert not [one for one in records if one.stream == "q#1" and self.hurt[0] <= one.lsn < self.hurt[1]]

    def recovered(self) -> Recovered:
        logs = super().recovered().logs
        first, behind = self.hurt
        log = self.logs[MESSAGES]
        if not behind or behind <= log.base:
            return Recovered(logs)
        index, told = LogIndex(), False
        for record in log.records:
            if record.lsn >= behind and not told:
                index.damaged(*self.hurt)
                told = True
            if not first <= record.lsn < behind:
                index.note(*record[:4], record.undo)
        if not told:
            index.damaged(*self.hurt)
        found = logs[MESSAGES]
        return Recovered(
            logs | {MESSAGES: FoundLog(index, found.base, found.end, found.container_bytes, found.promised)}
        )


def rotten(store: type[StoreMachine] = StoreMachine) -> Desk:
    """A store that comes back with damage, and its processes with it; the first queue is taken, and is kept whole."""
    disk = RottenDisk()
    before = Desk(disk)
    before.say(R0, Take("q#1", 5), Take("q#2", 5), Take("q#3", 5))
    before.say(R0, Write(1, [opened(5), opened(5, "q#2"), (ENTRIES, "q#2", b"votes"), opened(5, "q#3"), checkpoint()]))
    before.flush()
    disk.rot()
    disk.cut_power()
    desk = Desk(disk, store)
    desk.say(R1, Take("q#1", LIFE), Write(1, [opened(LIFE), checkpoint(life=LIFE)]))
    desk.flush()
    desk.heard(R1)
    return desk


def much(desk: Desk, first: int = 2) -> None:
    """The log goes on for long; nobody needs anything of what is old."""
    for number in range(first, first + 60):
        desk.say(R1, Write(number, [(ENTRIES, "q#1", bytes(200)), checkpoint(life=LIFE)]))
        desk.flush()


def found(desk: Desk, queue: str, life: int = LIFE) -> Taken:
    desk.heard(R0)
    desk.say(R0, Take(queue, life))
    desk.flush()
    (taken,) = [frame for frame in desk.heard(R0) if isinstance(frame, Taken)]
    return taken


def a_vote_is_not_forgotten(store: type[StoreMachine] = StoreMachine, says: bool = True) -> None:
    desk = rotten(store)
    if says:
        desk.say(B1, Expected(["q#1", "q#2"]))
    much(desk)
    assert desk.disk.logs[MESSAGES].end > 10 * 1024, "it would have been gone long ago"
    again = Desk(desk.disk, store)
    assert found(again, "q#2").hurt, "a voter that has forgotten its votes"


@pytest.mark.parametrize("says", [True, False], ids=["expected", "nobody has said"])
def test_a_queue_that_nobody_takes_is_not_taken_for_a_new_one_at_the_next_start(says):
    a_vote_is_not_forgotten(says=says)


def test_a_base_that_passes_damage_at_once_is_found(monkeypatch):
    monkeypatch.setattr(Swallowed, "low", None)
    with pytest.raises(AssertionError, match="forgotten its votes"):
        a_vote_is_not_forgotten()


def test_damage_goes_once_all_that_it_may_have_swallowed_is_known():
    desk = rotten()
    desk.say(B1, Expected(["q#1", "q#2", "q#3"]))
    much(desk)
    log = desk.disk.logs[MESSAGES]
    assert log.base == 0
    assert found(desk, "q#2").hurt and found(desk, "q#3").hurt
    blank = encode_record(OpenedRecord(LIFE, LIFE, True, ["b1"]))
    desk.say(R0, Write(1, [(OPENED, "q#2", blank), (DROPPED, "q#3", encode_record(DroppedRecord()))]))
    desk.flush()
    much(desk, 100)
    assert log.base > desk.disk.hurt[1], "one says that it does not vote, the other is deleted"
    again = Desk(desk.disk)
    assert found(again, "q#2", LIFE + 1).blank, "and says so at the next start, too"


def test_what_is_declared_later_is_not_hurt():
    desk = rotten()
    assert found(desk, "q#9").hurt, "it is not known yet whether it is new"
    desk = rotten()
    desk.say(B1, Expected(["q#1", "q#2"]))
    assert not found(desk, "q#9").hurt and found(desk, "q#2").hurt
    desk.say(B1, Expected([]))
    assert found(rotten(), "q#2").hurt, "what was said first counts"


def test_a_stream_that_is_hurt_and_known_holds_it_until_its_log_is_blank_or_whole():
    index = LogIndex()
    index.damaged(100, 2000)
    index.note(3000, ENTRIES, "q#1", b"", 500)
    tail = LogTail(index, 0, 9000, 1024)
    tail.swallowed.expect(["q#1"])
    assert index.streams["q#1"].hurt and not tail.advance()
    index.note(4000, OPENED, "q#1", encode_record(OpenedRecord(7, 7, True)), 3000)
    assert tail.advance() and tail.base == 2048


def test_an_intact_log_is_held_by_nobody():
    desk = Desk()
    desk.say(R1, Take("q#1", LIFE), Write(1, [opened(LIFE), checkpoint(life=LIFE)]))
    desk.say(B1, Expected(["q#1", "q#2"]))
    desk.flush()
    much(desk)
    log = desk.disk.logs[MESSAGES]
    assert 0 < log.base > log.end - 10 * 1024, "nobody has taken the second queue, and nothing can have swallowed it"
    assert not found(desk, "q#2").hurt


def test_an_intact_log_that_is_held_is_found(monkeypatch):
    monkeypatch.setattr(Swallowed, "low", 0)
    with pytest.raises(AssertionError, match="nothing can have"):
        test_an_intact_log_is_held_by_nobody()


def test_a_transaction_log_has_only_the_cluster_stream():
    """What the broker says of its queues is of the log of messages."""
    store, logs = StoreMachine("b1.store"), dict[str, FoundLog]()
    for log in (TX, MESSAGES):
        index = LogIndex()
        index.damaged(100, 2000)
        logs[log] = FoundLog(index, 0, 9000, 1024, (0, 0))
    store.step(Recovered(logs))
    of_tx, of_messages = (store._tails[log].swallowed for log in (TX, MESSAGES))
    assert of_tx.may_have(CLUSTER) and not of_tx.may_have("q#1")
    assert of_messages.may_have("q#1"), "nobody has said yet"
    store.step(Received(B1, Expected(["q#1"])))
    assert of_tx.may_have(CLUSTER) and not of_tx.may_have("q#1") and of_messages.may_have("q#1")
