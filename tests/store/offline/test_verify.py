"""Verify finds every bit that counts, and takes no crash for damage."""

from __future__ import annotations

import pytest
from mantamq.protocol.wire.records import CHECKPOINT, OPENED, CheckpointRecord, OpenedRecord
from mantamq.store.files import write_whole
from mantamq.store.identity import FILE
from mantamq.store.log.dump import dump
from mantamq.store.log.recovery import open_log
from mantamq.store.offline.verify import ReadingProgress, Verified, verify

from ..disks import SimulatedFiles
from .made_up_stores import CONTAINER_BYTES, DATA, MEMBERS, QUEUE, make_store, write

FOLDER = f"{DATA}/b1"


def parts(files: SimulatedFiles, folder: str = FOLDER) -> dict[str, Verified]:
    return {one.part: one for one in verify(files, folder) if isinstance(one, Verified)}


def wrong(files: SimulatedFiles) -> list[str]:
    return [line for one in parts(files).values() for line in one.wrong]


def test_a_whole_store_is_whole_and_nothing_is_written():
    files = SimulatedFiles()
    make_store(files, "b1")
    before = {name: files.durable(f"{FOLDER}/{name}") for name in ("", "tx", "messages")}
    found = parts(files)
    assert {part: (one.records, one.streams, one.wrong) for part, one in found.items()} == {
        "tx": (3, 1, ()), "messages": (6, 1, ()), "catalogue": (0, 0, ()),
    }  # fmt: skip
    assert "log tx" in found["catalogue"].note
    assert before == {name: files.durable(f"{FOLDER}/{name}") for name in ("", "tx", "messages")}


def test_every_bit_of_every_record_counts():
    """But those of what recovery may lose: the last batch of a log may be a torn tail."""
    files = SimulatedFiles()
    make_store(files, "b1")
    for log in ("tx", "messages"):
        where = f"{FOLDER}/{log}"
        opened, found = open_log(files, where)
        rows = list(found)
        opened.prove()
        opened.close()
        name = f"{where}/{rows[0].lsn // CONTAINER_BYTES:016d}.log"
        for row in rows[:-1]:
            begin, end = row.lsn % CONTAINER_BYTES, row.lsn % CONTAINER_BYTES + 28 + len(row.payload)
            for at in range(begin, end, 7):
                files.flip(name, at, at % 8)
                assert wrong(files), (log, row.lsn, at)
                files.flip(name, at, at % 8)
    assert not wrong(files)


def test_a_power_cut_leaves_no_damage():
    for seed in range(30):
        files = SimulatedFiles(seed)
        make_store(files, "b1")
        log, found = open_log(files, f"{FOLDER}/messages")
        list(found)
        log.write([(2, QUEUE, [b"\x93\x05\x05\x90" * 900])], 1)
        files.crash()
        assert not [line for line in wrong(files) if "damage" in line], seed


def test_a_checkpoint_that_names_what_is_not_there_is_found():
    files = SimulatedFiles()
    make_store(files, "b1")
    log, found = open_log(files, f"{FOLDER}/messages")
    rows = list(found)
    other = write(log, (OPENED, "other#3", OpenedRecord(1, 1, False)))
    for named in (rows[0].lsn + 8, other[0]):
        bad = CheckpointRecord(0, 0, 1, 1, False, 1, (1, 7), 11, {}, {}, list(MEMBERS), {}, 1, b"", [1, 1, named, 0])
        write(log, (CHECKPOINT, QUEUE, bad))
        assert any("names what is not there" in line for line in wrong(files)), named
    log.close()


@pytest.mark.parametrize("gone", ["tx", "messages"])
def test_a_log_that_is_not_there_is_wrong(gone):
    files = SimulatedFiles()
    make_store(files, "b1")
    for name in files.list(f"{FOLDER}/{gone}"):
        files.unlink(f"{FOLDER}/{gone}/{name}")
    assert parts(files)[gone].wrong


def test_a_store_that_is_refused_is_wrong_and_an_empty_one_is_not():
    files = SimulatedFiles()
    make_store(files, "b1")
    write_whole(files, f"{FOLDER}/{FILE}", b"{")
    assert "cannot be read" in parts(files)["store"].wrong[0]
    files.make_folder(f"{DATA}/b2")
    assert parts(files, f"{DATA}/b2") == {"store": Verified("store", note="empty")}


def test_how_far_it_is_rises_to_the_end():
    files = SimulatedFiles()
    make_store(files, "b1")
    log, found = open_log(files, f"{FOLDER}/messages")
    list(found)
    for _ in range(40):
        log.write([(9, "x", [b"newer"])] * 30, 1)
        log.sync()
    steps = [one for one in verify(files, FOLDER) if isinstance(one, ReadingProgress) and one.log == "messages"]
    assert len(steps) > 4 and steps == sorted(steps) and steps[-1].done_bytes == steps[-1].total_bytes


def test_rows_are_those_of_the_dump():
    files = SimulatedFiles()
    make_store(files, "b1")
    assert parts(files)["messages"].records == len(list(dump(files, f"{FOLDER}/messages")))
