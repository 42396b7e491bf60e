"""Rot at every place of a store's two logs: what is opened after it, copied aside, and taken by the machines.

The rule: whatever rots, a stream that is taken as whole is as it was written, to the last entry; any other is said to be
hurt, and its keeper begins blank. Rot in one log touches no stream of the other, and no promise is forgotten.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest
from mantamq.actors.config import StoreConfig
from mantamq.actors.members.store_logs import StoreLogs
from mantamq.actors.members.store_look import StorePlace, look_at
from mantamq.protocol.errors import StoreError
from mantamq.protocol.log.history import StreamHistory, read_history
from mantamq.protocol.machine import Load, Loaded, PeerUp, Received, Send
from mantamq.protocol.store.host import MESSAGES, TX, Commit, Recovered, log_of
from mantamq.protocol.store.index import LogIndex
from mantamq.protocol.store.machine import StoreMachine
from mantamq.protocol.stored.broker import StoredBrokerMachine
from mantamq.protocol.wire.events import CLUSTER, Ballot, Enqueue, Entry, encode_event
from mantamq.protocol.wire.records import (
    CHECKPOINT,
    ENTRIES,
    OPENED,
    PROMISE,
    CheckpointRecord,
    EntriesRecord,
    OpenedRecord,
    PromiseRecord,
    encode_record,
)
from mantamq.protocol.wire.store_frames import Ahead, Take, Taken
from mantamq.store.log import aside
from mantamq.store.log.chain import read_chain
from mantamq.store.log.containers import container_numbers
from mantamq.store.log.reader import LogReader

from .disks import SimulatedFiles

DATA = "/data"
CONFIG = StoreConfig(data=DATA, container_bytes=512 * 1024, reserve_bytes=0)
PLACE = StorePlace("b1", "n1")
ALL = ["b1", "b2", "b3"]
ONE: Ballot = (3, 9)
STREAMS = [CLUSTER, "q#1", "q#2"]
EVERY = 1499
"""Of the bytes that were written each so many-th one rots."""


def entry(index: int) -> Entry:
    return Entry(ONE, index, "b1", 1, index, encode_event(Enqueue("c", [index, index], [b"m" * 700])))


def held(first: int, last: int) -> bytes:
    return encode_record(EntriesRecord(first, last, [entry(index) for index in range(first, last + 1)]))


def checkpoint(index: int) -> bytes:
    record = CheckpointRecord(0, 0, 1, 1, False, index, ONE, index, {}, {}, ALL, {}, index, b"state")
    return encode_record(record)


def written() -> tuple[SimulatedFiles, dict[str, int]]:
    """A disk with a store that was in use, and how far each log reaches in its container. Of the cluster stream and of
    the first queue there are entries only, 1 to 24; the second queue has a checkpoint in the middle."""
    files = SimulatedFiles(3)
    logs = StoreLogs(files, CONFIG, PLACE)
    life = logs.begin("c1", "s1", True)
    numbers = itertools.count(1)

    def commit(*records: tuple[int, str, bytes]) -> None:
        batches: dict[str, list[Any]] = {}
        for kind, stream, payload in records:
            for log in (TX, MESSAGES) if kind == PROMISE else (log_of(stream),):
                batches.setdefault(log, []).append((kind, stream, payload))
        logs.commit(Commit(next(numbers), batches, ONE, 1))

    commit(*((OPENED, one, encode_record(OpenedRecord(life, life, False, ALL))) for one in STREAMS))
    commit((PROMISE, "", encode_record(PromiseRecord(ONE))))
    for first in range(1, 24, 3):
        commit(*((ENTRIES, one, held(first, first + 2)) for one in STREAMS))
        if first == 10:
            commit((CHECKPOINT, "q#2", checkpoint(12)))
    logs.commit(Commit(next(numbers), {TX: [], MESSAGES: []}, ONE, 1))  # proves the last
    ends = {log: logs._logs[log].end % CONFIG.container_bytes for log in (TX, MESSAGES)}
    logs.close()
    return files, ends


DISK, ENDS = written()
IMAGE = DISK.image()


class Opened:
    """The store as it is opened after some rot, with its machine."""

    def __init__(self, files: SimulatedFiles) -> None:
        self.files = files
        self.word = look_at(files, CONFIG, PLACE)
        self.logs = StoreLogs(files, CONFIG, PLACE)
        self.life = self.logs.begin("c1", "s1", False)
        self.machine = StoreMachine("b1.store")
        self.machine.step(Recovered(self.logs.found))
        self.machine.step(PeerUp("b1"))

    def damaged(self, log: str) -> bool:
        return bool(self.logs.found[log].index.damage)

    def take(self, stream: str) -> Taken:
        (effect,) = self.machine.step(Received("b1", Take(stream, self.life)))
        assert isinstance(effect, Send) and isinstance(effect.frame, Taken)
        return effect.frame

    def load(self, taken: Taken) -> Loaded:
        """As a keeper's process reads it."""
        try:
            reader = LogReader(self.files, f"{self.logs.directory.folder}/{log_of(taken.stream)}")
            return Loaded(taken.stream, read_chain(reader, taken.stream, taken.checkpoint, taken.last))
        except StoreError:
            return Loaded(taken.stream, [], hurt=True)

    def broker(self) -> StoredBrokerMachine:
        """The broker, when it has read its cluster stream."""
        broker = StoredBrokerMachine("b1", self.life, ALL, blank=True)
        effects = broker.step(PeerUp("b1.store"))
        assert [type(effect) for effect in effects] == [Send]
        taken = self.take(CLUSTER)
        for effect in broker.step(Received("b1.store", taken)):
            if isinstance(effect, Load):
                broker.step(self.load(taken))
        return broker


def whole(history: StreamHistory) -> bool:
    """Whether all that was acknowledged is there."""
    indexes = range(history.base + 1, 25)
    return history.end == history.commit == 24 and [*history.entries.values()] == [entry(i) for i in indexes]


def judge(files: SimulatedFiles, rotten: str) -> Counter[str]:
    """Open it, take all streams, and hold what comes against the rule; `rotten`: the log that was touched."""
    seen: Counter[str] = Counter()
    try:
        opened = Opened(files)
    except StoreError as error:
        assert error.code.startswith("store-")
        seen["refused"] += 1
        return seen
    for stream in STREAMS:
        taken = opened.take(stream)
        assert taken.promised >= ONE, "a promise is forgotten"
        hurt = taken.hurt
        if not hurt:
            loaded = opened.load(taken)
            hurt = loaded.hurt
            assert hurt or whole(read_history(loaded.records)), f"{stream} is taken as whole, and is not"
        if hurt:
            assert log_of(stream) == rotten, f"{stream} is touched by rot in the other log"
        seen[f"{stream} hurt" if hurt else f"{stream} whole"] += 1
    for log, unknown in ((TX, ""), (MESSAGES, "q#9")):
        if unknown:
            assert opened.take(unknown).hurt == opened.damaged(log), "its records may have been in the damage"
    broker = opened.broker()
    cluster_hurt = bool(seen[f"{CLUSTER} hurt"])
    assert broker.keeper.blank == cluster_hurt and broker.view.promised >= ONE
    assert bool(opened.word.hurt) == opened.take(CLUSTER).hurt
    if opened.damaged(rotten):
        folder = opened.logs.directory.folder
        there = container_numbers(files.list(f"{folder}/aside/{rotten}"))
        assert there, "nothing was copied aside"
        for number in there:
            name = f"{number:016d}.log"
            assert files.durable(f"{folder}/aside/{rotten}")[name] == files.durable(f"{folder}/{rotten}")[name]
        opened.logs.close()
        again = StoreLogs(files, CONFIG, PLACE)
        again.begin("c1", "s1", False)
        assert container_numbers(files.list(f"{folder}/aside/{rotten}")) == there, "copied again at each start"
        again.close()
        seen["aside"] += 1
    return seen


def container(files: SimulatedFiles, log: str) -> str:
    (path,) = [f"{DATA}/b1/{log}/{name}" for name in files.list(f"{DATA}/b1/{log}") if name[0] == "0"]
    return path


def every_place(log: str) -> Counter[str]:
    seen: Counter[str] = Counter()
    for offset in range(8, ENDS[log], EVERY):
        files = SimulatedFiles(3)
        files.put_back(IMAGE)
        files.flip(container(files, log), offset, offset % 8)
        seen += judge(files, log)
    return seen


def test_nothing_rots():
    files = SimulatedFiles(3)
    files.put_back(IMAGE)
    assert judge(files, TX) == Counter({f"{stream} whole": 1 for stream in STREAMS})


def rot_in_the_cluster_stream() -> None:
    seen = every_place(TX)
    assert seen[f"{CLUSTER} hurt"] > 3 and seen["aside"] > 3
    assert seen["q#1 whole"] == seen["q#2 whole"] == seen[f"{CLUSTER} hurt"] + seen[f"{CLUSTER} whole"]


def rot_in_the_queues() -> None:
    seen = every_place(MESSAGES)
    assert seen["q#1 hurt"] > seen["q#2 hurt"] > 3, "by its checkpoint the second needs nothing of what was before"
    assert seen["aside"] > 3 and not seen[f"{CLUSTER} hurt"]


def test_rot_in_the_cluster_streams_log_hurts_that_only():
    rot_in_the_cluster_stream()


def test_rot_in_the_queues_log_hurts_what_it_touches():
    rot_in_the_queues()


def test_a_full_disk_does_not_keep_a_damaged_store_from_starting(monkeypatch):
    def full(*args: object) -> list[str]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("mantamq.actors.members.store_logs.copy_aside", full)
    files = SimulatedFiles(3)
    files.put_back(IMAGE)
    files.flip(container(files, TX), 3 * 4096 + 300, 1)
    assert Opened(files).take(CLUSTER).hurt


def test_what_a_crash_has_left_of_a_copy_is_completed():
    files = SimulatedFiles()
    files.make_folder("/log")
    for number in range(1, 5):
        files.open(f"/log/{number:016d}.log", create_bytes=16).close()
    copied = aside.copy_aside(files, "/log", "/aside", 32, 16)
    assert [path[-5] for path in copied] == ["3", "2"], "the newest is not needed, and the oldest goes last"
    files.unlink(f"/aside/{2:016d}.log")
    assert [path[-5] for path in aside.copy_aside(files, "/log", "/aside", 32, 16)] == ["2"]
    assert aside.copy_aside(files, "/log", "/aside", 32, 16) == []


# ---- a scrub


def rot_in_a_running_store() -> None:
    """What rots while a store runs is found by its scrub, and written anew by the stream's owner."""
    files = SimulatedFiles(3)
    files.put_back(IMAGE)
    first = container(files, MESSAGES)
    opened = Opened(files)
    taken = opened.take("q#1")
    assert not [one for one in opened.logs.scrub() if not isinstance(one, int)]
    files.flip(first, 4 * 4096 + 300, 1)
    found = [one for one in opened.logs.scrub() if not isinstance(one, int)]
    assert found, "the rot was not found"
    assert {rotten.log for rotten in found} == {MESSAGES}
    effects = [effect for rotten in found for effect in opened.machine.step(rotten)]
    ahead = [effect.frame for effect in effects if isinstance(effect, Send) and isinstance(effect.frame, Ahead)]
    assert [frame.log for frame in ahead] == [MESSAGES] and ahead[0].upto % CONFIG.container_bytes == 0
    assert ahead[0].upto > found[-1].first and taken.last < ahead[0].upto
    assert opened.machine.report().logs[MESSAGES].damage == [[one.first, one.behind] for one in found]
    assert [effect for rotten in found for effect in opened.machine.step(rotten)] == [], "asked twice"
    opened.logs.close()


def test_rot_in_a_running_store_is_found_and_written_anew():
    rot_in_a_running_store()


def test_a_scrub_reads_a_little_at_a_time():
    files = SimulatedFiles(3)
    files.put_back(IMAGE)
    logs = StoreLogs(files, CONFIG, PLACE)
    read = list(logs.scrub())
    assert len(read) > 20 and all(isinstance(one, int) for one in read)
    logs.close()


# ---- planted bugs


def test_a_scrub_that_finds_nothing_is_found(monkeypatch):
    monkeypatch.setattr("mantamq.actors.members.store_logs.scrub", lambda files, folder: iter([1, 2]))
    with pytest.raises(AssertionError, match="was not found"):
        rot_in_a_running_store()


def test_damage_that_is_not_told_is_found(monkeypatch):
    monkeypatch.setattr(LogIndex, "damaged", lambda self, first, behind: self.damage.append((first, behind)))
    with pytest.raises(AssertionError):
        rot_in_the_queues()


def test_streams_without_records_that_count_as_new_are_found(monkeypatch):
    taken = StoreMachine._taken

    def new(self, stream, peer, life):
        index = self._indexes[log_of(stream)]
        damage, index.damage = index.damage, index.damage if stream in index.streams else []
        taken(self, stream, peer, life)
        index.damage = damage

    monkeypatch.setattr(StoreMachine, "_taken", new)
    with pytest.raises(AssertionError, match="may have been in the damage"):
        rot_in_the_queues()


def test_a_store_that_copies_nothing_aside_is_found(monkeypatch):
    monkeypatch.setattr("mantamq.actors.members.store_logs.copy_aside", lambda *args: [])
    with pytest.raises((AssertionError, OSError)):
        rot_in_the_queues()
