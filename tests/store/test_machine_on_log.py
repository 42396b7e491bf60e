"""The store's machine on the real log, on a disk that loses what it may: what was answered is there after a power cut.

The few lines of `Shelf` are all that a process around both has to do.
"""

from __future__ import annotations

import random

import pytest
from mantamq.protocol.machine import Flush, PeerUp, Received, Send, Tick
from mantamq.protocol.store.host import MESSAGES, TX, Advance, Commit, Committed, FoundLog, Recovered
from mantamq.protocol.store.index import LogIndex
from mantamq.protocol.store.machine import StoreMachine
from mantamq.protocol.wire.events import CLUSTER
from mantamq.protocol.wire.records import (
    CHECKPOINT,
    ENTRIES,
    OPENED,
    PROMISE,
    CheckpointRecord,
    OpenedRecord,
    PromiseRecord,
    encode_record,
)
from mantamq.protocol.wire.store_frames import Happened, Take, Taken, Write, Written
from mantamq.store.log.log import Log
from mantamq.store.log.recovery import open_log

from .disks import SimulatedFiles

CONTAINER_BYTES = 16 * 1024
LOGS = {TX: "/tx", MESSAGES: "/messages"}


class Shelf:
    """A store on its disk, from its opening to the end of its process."""

    def __init__(self, files: SimulatedFiles) -> None:
        self.logs: dict[str, Log] = {}
        self.told: list[object] = []
        self.machine = StoreMachine("b1.store")
        self.step(Tick(1000), Recovered({name: self.open(files, name) for name in LOGS}), PeerUp("b1"))

    def open(self, files: SimulatedFiles, name: str) -> FoundLog:
        log, found = open_log(files, LOGS[name])
        self.logs[name] = log
        index, seen = LogIndex(), 0
        for record in found:
            for damage in found.damage[seen:]:
                index.damaged(damage.first, damage.end)
            seen = len(found.damage)
            index.note(record.lsn, record.kind, record.stream, record.payload, record.undo)
        for damage in found.damage[seen:]:
            index.damaged(damage.first, damage.end)
        base = log.base // log.container_bytes * log.container_bytes
        return FoundLog(index, base, log.end, log.container_bytes, log.ballot)

    def step(self, *inputs) -> None:
        for input in inputs:
            for effect in self.machine.step(input):
                if isinstance(effect, Send):
                    self.told.append(effect.frame)
                elif isinstance(effect, Advance):
                    self.logs[effect.log].free_below(effect.lsn)
                elif isinstance(effect, Commit):
                    self.step(self.carry_out(effect))

    def carry_out(self, commit: Commit) -> Committed:
        lsns = {}
        for name, batch in commit.batches.items():
            log = self.logs[name]
            log.note_ballot(commit.promised)
            lsns[name] = log.write([(kind, stream, [payload]) for kind, stream, payload in batch], commit.time_us)
            log.sync()
        return Committed(commit.number, lsns, {name: self.logs[name].end for name in lsns})

    def say(self, *frames) -> list[object]:
        """All in one group; returns what is answered, news aside."""
        self.step(*(Received("b1", frame) for frame in frames), Flush())
        told, self.told = self.told, []
        return [frame for frame in told if type(frame) is not Happened]


def opened(stream, life):
    return OPENED, stream, encode_record(OpenedRecord(life, life, False))


def checkpoint(stream, life):
    record = CheckpointRecord(0, 0, life, life, False, 9, (1, 1), 9, {}, {}, [], {}, 9, b"state")
    return CHECKPOINT, stream, encode_record(record)


@pytest.mark.parametrize("seed", range(12))
def test_what_was_answered_is_there_after_power_cuts(seed):
    rng, files = random.Random(seed), SimulatedFiles(seed)
    for name, folder in LOGS.items():
        log_id = name.encode().ljust(16, b".")
        Log.create(files, folder, container_bytes=CONTAINER_BYTES, containers=2, log_id=log_id, least_bytes=1).close()
    files.crash()
    streams, life, ballot, bases = [CLUSTER, "q#1", "q#2"], 0, 0, []
    for _ in range(5):
        shelf, life = Shelf(files), life + 1
        assert shelf.machine.promised >= (ballot, 1) or not ballot, "a promise that was answered is kept"
        for name in LOGS:
            hurt = shelf.machine.report().logs[name].hurt
            assert hurt == [], "a power cut damages nothing"
        taken = [shelf.say(Take(stream, life))[0] for stream in streams]
        assert all(type(one) is Taken and not one.hurt for one in taken)
        assert [one.opened for one in taken] == [life - 1] * 3, "the life before is on disk"
        for number in range(1, rng.randrange(6, 41)):
            records = [opened(stream, life) for stream in streams] if number == 1 else []
            for stream in rng.sample(streams, 2):
                records.append((ENTRIES, stream, rng.randbytes(rng.randrange(1, 3000))))
                if rng.random() < 0.4:
                    records.append(checkpoint(stream, life))
            if rng.random() < 0.1:
                ballot += 1
                records.append((PROMISE, "", encode_record(PromiseRecord((ballot, 1)))))
            written = [frame for frame in shelf.say(Write(number, records)) if type(frame) is Written]
            assert [one.number for one in written] == [number] and all(written[0].lsns)
            last = {stream: lsn for (_, stream, _), lsn in zip(records, written[0].lsns, strict=True) if stream}
        places = {s: p for index in shelf.machine._indexes.values() for s, p in index.streams.items()}
        assert all(places[stream].last >= lsn for stream, lsn in last.items())
        bases.append(shelf.logs[MESSAGES].base)
        before = {stream: (place.last, place.checkpoint, place.life) for stream, place in places.items()}
        files.crash()
        again = {s: p for index in Shelf(files).machine._indexes.values() for s, p in index.streams.items()}
        for stream, (at, checkpoint_at, keeper_life) in before.items():
            place = again[stream]
            assert place.life == keeper_life and place.last >= at and place.checkpoint >= checkpoint_at
        files.crash()
    assert bases == sorted(bases)


def test_the_tail_moves_on_the_real_log():
    files = SimulatedFiles()
    for folder in LOGS.values():
        Log.create(
            files, folder, container_bytes=CONTAINER_BYTES, containers=2, log_id=bytes(16), least_bytes=1
        ).close()
    files.kill()
    shelf = Shelf(files)
    shelf.say(Take("q#1", 1))
    for number in range(1, 40):
        shelf.say(Write(number, [opened("q#1", 1), (ENTRIES, "q#1", bytes(5000)), checkpoint("q#1", 1)]))
    log = shelf.logs[MESSAGES]
    assert log.base > 5 * CONTAINER_BYTES and log.used_bytes <= 3 * CONTAINER_BYTES
