"""A store with its keepers' processes played by the test, on a disk of lists."""

from __future__ import annotations

import json
import random

import pytest
from mantamq.protocol.capture.event_table import OBSERVED_KINDS
from mantamq.protocol.errors import LocalError
from mantamq.protocol.machine import Flush, PeerDown, PeerUp, Received, Send, SetTimer, Tick
from mantamq.protocol.store.host import MESSAGES, TX, Advance, Cataloged, Commit, Committed, DiskSpace, Overdue, Rotten
from mantamq.protocol.store.machine import StoreMachine
from mantamq.protocol.store.owners import Owners
from mantamq.protocol.wire.events import CLUSTER, ZERO
from mantamq.protocol.wire.records import (
    CHECKPOINT,
    DROPPED,
    ENTRIES,
    MESSAGE,
    OPENED,
    PROMISE,
    CheckpointRecord,
    DroppedRecord,
    OpenedRecord,
    PromiseRecord,
    encode_record,
)
from mantamq.protocol.wire.store_frames import Ahead, Happened, Ousted, Room, Take, Taken, Write, Written
from msgspec.structs import replace
from toy_disk import ToyDisk

R0, R1, B1 = "b1.r0", "b1.r1", "b1"
PLAIN = (ENTRIES, "q#1", b"entries")


def opened(life, stream="q#1"):
    return OPENED, stream, encode_record(OpenedRecord(life, life, False, ["b1"]))


def checkpoint(low=0, live_bytes=0, stream="q#1", life=5):
    record = CheckpointRecord(low, live_bytes, life, life, False, 9, (1, 1), 9, {}, {}, [], {}, 9, b"")
    return CHECKPOINT, stream, encode_record(record)


def promise(*ballot):
    return PROMISE, "", encode_record(PromiseRecord(ballot))


class Desk:
    """A store on its disk. `told`: what each process has been sent, in order."""

    def __init__(self, disk: ToyDisk | None = None, store: type[StoreMachine] = StoreMachine) -> None:
        self.disk = disk or ToyDisk()
        self.store = store("b1.store", reserve_bytes=800)
        self.now_ms = 1000
        self.told: dict[str, list[object]] = {}
        self.commits: list[Commit] = []
        self.timer_ms = 0
        self.step(Tick(self.now_ms), self.disk.recovered())
        for peer in (R0, R1, B1):
            self.step(PeerUp(peer))

    def step(self, *inputs) -> None:
        for input in inputs:
            for effect in self.store.step(input):
                if isinstance(effect, Send):
                    self.told.setdefault(effect.peer, []).append(effect.frame)
                elif isinstance(effect, Commit):
                    self.commits.append(effect)
                elif isinstance(effect, Advance):
                    self.disk.advance(effect)
                elif isinstance(effect, SetTimer):
                    self.timer_ms = effect.at_ms

    def say(self, peer, *frames) -> None:
        self.step(*(Received(peer, frame) for frame in frames))

    def flush(self) -> None:
        """Flush what has come, and all that gathers behind."""
        self.step(Flush())
        while self.commits:
            self.step(self.disk.carry_out(self.commits.pop(0)), Flush())

    def heard(self, peer) -> list[object]:
        return self.told.pop(peer, [])

    def wait(self, ms) -> None:
        self.now_ms += ms
        self.step(Tick(self.now_ms))
        self.flush()

    def kept(self, log) -> list[tuple[int, str]]:
        return [record[1:3] for record in self.disk.logs[log].records]

    def restarted(self) -> Desk:
        self.disk.cut_power()
        return Desk(self.disk)


@pytest.fixture
def desk():
    """A store of which b1.r0 keeps q#1 in life 5."""
    one = Desk()
    one.say(R0, Take("q#1", 5), Write(1, [opened(5)]))
    one.flush()
    assert one.heard(R0) == [Taken("q#1", 5, 0, 0, False, ZERO), Written(1, [64])]
    return one


def test_all_that_comes_until_a_flush_is_one_group_and_nothing_is_answered_before_it_is_on_disk(desk):
    desk.say(B1, Take(CLUSTER, 3))
    desk.say(R0, Write(2, [PLAIN]), Write(3, [PLAIN, PLAIN]))
    desk.say(B1, Write(1, [opened(3, CLUSTER)]))
    desk.heard(B1)
    desk.step(Flush())
    (commit,) = desk.commits
    assert {log: len(batch) for log, batch in commit.batches.items()} == {MESSAGES: 3, TX: 1}
    desk.say(R0, Write(4, [PLAIN]))
    desk.step(Flush())
    assert desk.commits == [commit] and not desk.told, "one is in flight, and none is on disk"
    committed = desk.disk.carry_out(commit)
    assert not desk.told
    desk.commits.clear()
    desk.step(committed)
    assert desk.heard(R0) == [Written(3, committed.lsns[MESSAGES])] and desk.heard(B1) == [Written(1, [64])]
    desk.flush()
    (written,) = desk.heard(R0)
    assert written.number == 4


def test_a_group_is_committed_once_and_in_order(desk):
    desk.say(R0, Write(2, [PLAIN]))
    desk.step(Flush())
    with pytest.raises(LocalError, match="in flight"):
        desk.step(Committed(9, {}, {}))
    committed = desk.disk.carry_out(desk.commits.pop())
    desk.step(committed)
    with pytest.raises(LocalError, match="in flight"):
        desk.step(committed)


def test_a_write_that_comes_again_is_written_once(desk):
    desk.say(R0, Write(2, [PLAIN]), Write(2, [PLAIN]))
    desk.flush()
    assert desk.kept(MESSAGES) == [(OPENED, "q#1"), (ENTRIES, "q#1")]


def test_writes_of_an_older_life_are_dropped_and_it_is_told(desk):
    desk.say(R0, Write(2, [PLAIN]))
    desk.say(R1, Take("q#1", 6))
    assert desk.heard(R0) == [Ousted("q#1", 6)] and not desk.heard(R1), "what came before is not on disk yet"
    desk.say(R0, Write(3, [PLAIN, promise(4, 1)]))
    desk.flush()
    first, second = desk.heard(R0)
    assert first == Ousted("q#1", 6) and second.number == 3 and second.lsns[1] == 0 and all(second.lsns[::2])
    place = desk.disk.logs[MESSAGES].records[1]
    (taken,) = desk.heard(R1)
    assert (taken.opened, taken.last, taken.checkpoint) == (5, place.lsn, 0)
    assert [one.kind for one in desk.disk.chain(MESSAGES, taken.last, 0)] == [OPENED, ENTRIES]
    desk.say(R0, Take("q#1", 5))
    assert desk.heard(R0) == [Ousted("q#1", 6)]


def test_two_owners_whose_writes_count_are_found(desk, monkeypatch):
    monkeypatch.setattr(Owners, "may_write", lambda self, peer, stream: True)
    with pytest.raises((AssertionError, ValueError)):
        test_writes_of_an_older_life_are_dropped_and_it_is_told(desk)


def test_a_taker_that_is_overtaken_hears_no_taken(desk):
    desk.say(R0, Write(2, [PLAIN]))
    desk.say(R1, Take("q#1", 6))
    desk.say(B1, Take("q#1", 7))
    desk.flush()
    assert desk.heard(R1) == [Ousted("q#1", 7)]
    (taken,) = desk.heard(B1)
    assert (taken.life, taken.opened) == (7, 5)


def test_the_next_process_of_a_name_is_another(desk):
    desk.say(R0, Write(2, [PLAIN]))
    desk.step(PeerDown(R0), PeerUp(R0))
    desk.flush()
    assert not desk.heard(R0), "it has written nothing"
    desk.say(R0, Write(1, [PLAIN]))
    assert desk.heard(R0) == [Ousted("q#1", 0)], "it keeps nothing until it takes it"
    desk.say(R0, Take("q#1", 5))
    assert desk.heard(R0) == [Ousted("q#1", 5)], "that life is over"
    desk.say(R0, Take("q#1", 6))
    desk.flush()
    assert [type(one) for one in desk.heard(R0)] == [Taken, Written]


def test_a_promise_is_kept_by_both_logs_and_survives_their_tails(desk):
    desk.say(R0, Write(2, [promise(4, 1)]))
    desk.say(R1, Take("q#2", 6))
    assert desk.heard(R1)[0].promised == (4, 1), "what may be promised counts"
    desk.flush()
    assert desk.kept(TX) == [(PROMISE, "")] and (PROMISE, "") in desk.kept(MESSAGES)
    for number in range(3, 60):
        desk.say(R0, Write(number, [(ENTRIES, "q#1", bytes(100)), checkpoint()]))
        desk.flush()
    assert (PROMISE, "") not in desk.kept(MESSAGES) and desk.disk.logs[MESSAGES].base > 0
    desk.disk.logs[TX].records.clear()
    again = desk.restarted()
    assert again.store.promised == (4, 1)


def test_a_quiet_log_gets_one_empty_batch_that_proves_the_last(desk):
    assert desk.timer_ms == 2000 and not desk.disk.logs[MESSAGES].proofs
    desk.wait(999)
    assert not desk.disk.logs[MESSAGES].proofs
    desk.wait(1)
    desk.wait(5000)
    assert (desk.disk.logs[MESSAGES].proofs, desk.disk.logs[TX].proofs) == (1, 0)
    desk.say(R0, Write(2, [PLAIN]))
    desk.flush()
    desk.wait(1000)
    assert desk.disk.logs[MESSAGES].proofs == 2


def test_what_is_alive_stands_still_until_its_owner_has_moved_it(desk):
    """A stream with one old message: the store asks its owner, and frees nothing before the checkpoint is on disk."""
    log = desk.disk.logs[MESSAGES]
    desk.say(R1, Take("q#2", 6))
    number = 0
    while not (asked := [one for one in desk.heard(R0) if type(one) is Ahead]):
        number += 1
        desk.say(R1, Write(number, [(ENTRIES, "q#2", bytes(100)), checkpoint(0, 0, "q#2")]))
        desk.flush()
    assert asked == [Ahead(MESSAGES, 1024)] and log.base == 0 and log.end > 4 * 1024
    desk.heard(R1)
    desk.say(R1, Take("q#1", 7), Write(number + 1, [opened(7), (MESSAGE, "q#1", b"moved")]))
    desk.flush()
    _, ahead = sorted(desk.heard(R1), key=lambda frame: type(frame) is Ahead)[-2:]
    assert ahead == Ahead(MESSAGES, 1024) and log.base == 0, "its next owner is asked again"
    moved = log.records[-1].lsn
    desk.say(R1, Write(number + 2, [checkpoint(moved, 5)]))
    desk.step(Flush())
    assert log.base == 0, "the checkpoint is not on disk"
    committed = desk.disk.carry_out(desk.commits.pop())
    desk.step(committed)
    assert log.base == moved // 1024 * 1024 > 0
    status = desk.store.report().logs[MESSAGES]
    assert (status.base, status.end, status.unowned) == (log.base, log.end, [])


def test_a_stream_that_nobody_keeps_holds_the_base_and_its_next_owner_is_asked(desk):
    desk.step(PeerDown(R0))
    desk.say(R1, Take("q#2", 6))
    for number in range(1, 60):
        desk.say(R1, Write(number, [(ENTRIES, "q#2", bytes(100)), checkpoint(0, 0, "q#2")]))
        desk.flush()
    assert desk.disk.logs[MESSAGES].base == 0 and desk.store.report().logs[MESSAGES].unowned == ["q#1"]
    desk.step(PeerUp(R0))
    desk.say(R0, Take("q#1", 7), Write(1, [opened(7)]))
    desk.flush()
    assert Ahead(MESSAGES, 1024) in desk.heard(R0)
    desk.say(R0, Write(2, [(DROPPED, "q#1", encode_record(DroppedRecord()))]))
    desk.flush()
    assert desk.disk.logs[MESSAGES].base > 4 * 1024, "a dropped stream needs nothing"
    desk.say(R0, Write(3, [PLAIN]))
    assert desk.heard(R0)[-1] == Ousted("q#1", 0)


def test_what_an_owner_says_of_its_live_bytes_counts(desk):
    desk.say(R0, Write(2, [PLAIN], {"q#1": 700, "q#9": 5}))
    desk.flush()
    assert desk.store.report().logs[MESSAGES].live_bytes == 700


def test_space_is_told_to_all_and_to_those_that_come(desk):
    desk.step(DiskSpace(5000), DiskSpace(700))
    assert desk.heard(R0) == desk.heard(B1) == [Room(-100, True)]
    desk.step(PeerDown(R1), PeerUp(R1))
    assert desk.heard(R1) == [Room(-100, True), Room(-100, True)]
    desk.step(DiskSpace(5000))
    assert desk.heard(R0) == [Room(4200)]


def test_what_comes_before_the_logs_are_open_waits():
    store = StoreMachine("b1.store")
    assert store.step(PeerUp(R0)) == [] and store.step(Received(R0, Take("q#1", 5))) == []
    assert store.step(ToyDisk().recovered()) == [Send(R0, Taken("q#1", 5, 0, 0, False, ZERO))]


def test_a_stream_in_damage_is_hurt_and_so_is_one_that_nothing_is_left_of():
    disk = ToyDisk()
    before = Desk(disk)
    before.say(R0, Take("q#1", 5), Write(1, [opened(5)]))
    before.flush()
    recovered = disk.recovered()
    recovered.logs[MESSAGES].index.damaged(500, 600)
    store = StoreMachine("b1.store")
    store.step(recovered)
    (one,) = store.step(Received(R0, Take("q#1", 6)))
    (other,) = store.step(Received(R0, Take("q#2", 7)))
    (cluster,) = store.step(Received(R0, Take(CLUSTER, 8)))
    assert (one.frame.hurt, other.frame.hurt, cluster.frame.hurt) == (True, True, False)
    assert store.report().logs[MESSAGES].hurt == ["q#1"]


@pytest.mark.parametrize("seed", range(20))
def test_a_store_that_comes_back_knows_what_it_was_told_and_said(seed):
    """Random writers, power cuts and takes: what was answered is there, each stream's place is what it was."""
    rng = random.Random(seed)
    disk, lives, life = ToyDisk(), {}, 0
    for _ in range(4):
        desk, numbers = Desk(disk), {R0: 0, R1: 0, B1: 0}
        said: dict[str, int] = {}
        for _ in range(rng.randrange(5, 40)):
            peer, stream = rng.choice([R0, R1]), rng.choice(["q#1", "q#2", "q#3"])
            if not desk.store.owners.may_write(peer, stream) or rng.random() < 0.1:
                life += 1
                desk.say(peer, Take(stream, life))
                records = [opened(life, stream)]
                lives[stream] = life
            else:
                records = rng.choice(
                    [[(ENTRIES, stream, rng.randbytes(30))], [checkpoint(0, 0, stream, lives[stream])]]
                )
            numbers[peer] += 1
            desk.say(peer, Write(numbers[peer], records))
            if rng.random() < 0.5:
                desk.flush()
                said = {
                    stream: place.last for log in desk.store._indexes.values() for stream, place in log.streams.items()
                }
        desk.step(Flush())
        if desk.commits:
            disk.write(desk.commits.pop())
        disk.cut_power(lambda unflushed: rng.randint(0, unflushed))
        found = disk.recovered().logs[MESSAGES].index.streams
        for stream, last in said.items():
            place = found[stream]
            assert place.last >= last and place.life <= lives[stream]
            assert disk.chain(MESSAGES, place.last, place.checkpoint)[0].lsn == (place.checkpoint or place.low)
        life = max([life, *(place.life for place in found.values())])


def test_the_log_keeps_what_the_catalogue_lacks(desk):
    """The wiring's own log goes no further than its catalogue; that of messages has nothing to do with it."""
    desk.step(Cataloged(0))
    desk.say(B1, Take(CLUSTER, 3), Write(1, [opened(3, CLUSTER)]))
    for number in range(2, 30):
        desk.say(B1, Write(number, [(ENTRIES, CLUSTER, b"x" * 200), checkpoint(stream=CLUSTER, life=3)]))
        desk.flush()
    log = desk.disk.logs[TX]
    assert log.base == 0 and log.end > 4 * log.container_bytes, "it goes before the catalogue has it"
    desk.step(Cataloged(2 * log.container_bytes + 1))
    assert log.base == 2 * log.container_bytes
    desk.step(Cataloged(log.end))
    assert log.base == log.records[-1].lsn // log.container_bytes * log.container_bytes


def test_the_keeper_of_the_wiring_is_asked_for_a_checkpoint(desk):
    desk.step(Overdue())  # nobody keeps it yet
    desk.say(B1, Take(CLUSTER, 3))
    desk.flush()
    desk.heard(B1)
    desk.step(Overdue())
    assert desk.heard(B1) == [Ahead(TX, 0)] and not desk.heard(R0)


def news(desk):
    return [frame for frame in desk.heard(B1) if isinstance(frame, Happened)]


def test_the_broker_is_told_of_checkpoints_dropped_streams_slow_flushes_and_rot_behind_what_it_waits_for(desk):
    desk.say(B1, Take(CLUSTER, 3), Write(1, [opened(3, CLUSTER), checkpoint(stream=CLUSTER, life=3)]))
    desk.say(R0, Write(2, [checkpoint()]), Write(3, [(DROPPED, "q#1", encode_record(DroppedRecord()))]))
    desk.step(Flush())
    committed = desk.disk.carry_out(desk.commits.pop())
    desk.told.clear()
    desk.step(replace(committed, took_us=1_200_000))
    told = desk.heard(B1)
    assert isinstance(told[0], Written), "the event table waits, and not the broker"
    size = len(checkpoint(stream=CLUSTER, life=3)[2])
    assert sorted((one.what, one.queue, one.value) for one in told[1:]) == [
        ("flush_slow", "", 1_200_000), ("store_checkpoint", "", size), ("store_checkpoint", "q#1", len(checkpoint()[2])),
        ("store_dropped", "q#1", 0),
    ]  # fmt: skip
    desk.say(B1, Write(2, [checkpoint(stream=CLUSTER, life=3)]))
    desk.step(Flush())
    desk.step(replace(desk.disk.carry_out(desk.commits.pop()), took_us=999_999))
    assert [one.what for one in news(desk)] == ["store_checkpoint"], "that is no slow flush"
    desk.step(Rotten(MESSAGES, 64, 128))
    (rot,) = news(desk)
    assert (rot.what, rot.value, rot.detail) == ("store_damaged", 64, '{"log":"messages","first":64}')


def test_what_a_store_found_when_it_was_opened_is_told_when_its_broker_has_a_link(desk):
    """A new one has found nothing."""
    assert news(Desk()) == []
    found = desk.disk.recovered()
    found.logs[MESSAGES].index.damage.append((64, 80))
    store = StoreMachine("b1.store")
    assert store.step(replace(found, took_us=70_000)) == [], "nobody is there"
    assert [effect for effect in store.step(PeerUp(R0)) if isinstance(effect, Send)] == []
    told = [effect.frame for effect in store.step(PeerUp(B1)) if isinstance(effect, Send)]
    assert [(one.what, one.value) for one in told] == [("store_recovered", 70_000), ("store_damaged", 16)]
    assert json.loads(told[0].detail)["bytes"][MESSAGES] > 0
    assert {one.what for one in told} <= set(OBSERVED_KINDS)
