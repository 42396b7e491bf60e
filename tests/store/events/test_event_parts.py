"""Parquet parts of the event table: real files, no Spark."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mantamq.protocol.capture.event_table import TYPES, Row
from mantamq.protocol.errors import LocalError
from mantamq.store.events import event_parts
from mantamq.store.events.event_parts import (
    SCHEMA,
    EventWriter,
    WriterLimits,
    check_parts,
    from_ipc,
    list_parts,
    read_parts,
    to_table,
    write_part,
)

SECOND = 1_000_000


def row(seq: int, queue: str = "q#1", **fields) -> Row:
    return Row(term=1, seq=seq, time_us=seq * SECOND, kind="enqueue", queue=queue, **fields)


def write(writer: EventWriter, first: int, last: int) -> None:
    for seq in range(first, last + 1):
        writer.append("q#1", seq, [row(seq)])


def seqs(directory: Path | str) -> list[int]:
    parts = check_parts(str(directory), list_parts(str(directory)).parts).parts
    return sorted(read_parts(str(directory), parts)["seq"].to_pylist())


def test_names_tell_what_is_inside(tmp_path):
    writer = EventWriter(str(tmp_path))
    write(writer, 1, 5)
    part = writer.roll()
    assert part is not None
    write(writer, 6, 7)
    writer.roll()
    first, second = list_parts(str(tmp_path)).parts
    assert first == part
    assert (first.row_first, first.row_last, first.time_first_us, first.time_last_us) == (1, 5, SECOND, 5 * SECOND)
    assert (second.row_first, second.row_last) == (6, 7)
    assert first.bytes == os.path.getsize(first.path)
    table = read_parts(str(tmp_path), [first, second])
    assert table.schema == SCHEMA
    assert table["row"].to_pylist() == list(range(1, 8))
    assert pq.read_schema(first.path).names == list(TYPES)


def test_the_tail_and_the_parts_are_the_table(tmp_path):
    """Whenever one looks: rows before `row_first` are in parts, the others in the tail."""
    handed: list[bytes] = []

    def put(block: bytes) -> int:
        handed.append(block)
        return len(handed) - 1

    writer = EventWriter(str(tmp_path), WriterLimits(block_rows=7, part_rows=40, part_s=1000), put)
    for seq in range(1, 200):
        writer.append("q#1", seq, [row(seq), row(seq)])
        if seq % 3 == 0:
            writer.work(seq * SECOND)
        if seq % 5 == 0:
            tail = writer.tail()
            there = [n for ref in tail.blocks for n in from_ipc(handed[ref])["row"].to_pylist()]
            assert there == list(range(tail.row_first, tail.row_last + 1))
            stored = [n for part in list_parts(str(tmp_path)).parts for n in range(part.row_first, part.row_last + 1)]
            assert sorted(stored + there) == list(range(1, 2 * seq + 1))
    assert len(list_parts(str(tmp_path)).parts) > 5


def test_a_part_is_due_by_rows_or_by_age(tmp_path):
    writer = EventWriter(str(tmp_path), WriterLimits(part_rows=10, part_s=60))
    write(writer, 1, 3)
    assert writer.work(50 * SECOND) is None
    assert writer.work(61 * SECOND) is not None
    write(writer, 100, 108)
    assert writer.work(101 * SECOND) is None
    write(writer, 109, 109)
    part = writer.work(101 * SECOND)
    assert part is not None and (part.row_first, part.row_last) == (4, 13)
    assert writer.work(900 * SECOND) is None


def test_a_restart_goes_on_where_it_stopped(tmp_path):
    writer = EventWriter(str(tmp_path))
    write(writer, 1, 5)
    writer.append("r#1", 3, [row(3, "r#1")])
    writer.roll()
    write(writer, 6, 9)  # lost: never rolled
    again = EventWriter(str(tmp_path))
    assert again.resume == {"q#1": 5, "r#1": 3}
    assert again.next_row == 7
    write(again, 2, 9)  # the log is read again from further back
    again.append("r#1", 3, [row(3, "r#1")])
    again.roll()
    assert seqs(tmp_path) == [1, 2, 3, 3, 4, 5, 6, 7, 8, 9]


KILLED = """
import sys, types
mantamq = types.ModuleType("mantamq"); mantamq.__path__ = [sys.argv[1]]; sys.modules["mantamq"] = mantamq
from mantamq.store.events.event_parts import EventWriter, WriterLimits
from mantamq.protocol.capture.event_table import Row
writer = EventWriter(sys.argv[2], WriterLimits(part_rows=500))
seq = writer.resume.get("q#1", 0)
print("ready", flush=True)
while True:
    seq += 1
    writer.append("q#1", seq, [Row(seq=seq, time_us=seq, kind="enqueue", queue="q#1")])
    writer.work(seq)
"""


def test_killed_at_any_moment_nothing_is_torn_or_twice(tmp_path):
    root = Path(__file__).parents[3]
    chance = random.Random(1)
    for _ in range(5):
        command = [sys.executable, "-c", KILLED, str(root), str(tmp_path)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None and process.stdout.readline()
        count = len(list_parts(str(tmp_path)).parts)
        while len(list_parts(str(tmp_path)).parts) < count + chance.randrange(1, 8):
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        listing = list_parts(str(tmp_path))
        checked = check_parts(str(tmp_path), listing.parts)
        assert not listing.skipped and not checked.skipped
        found = seqs(tmp_path)
        assert found == list(range(1, len(found) + 1))
    EventWriter(str(tmp_path))
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".")]


def test_what_a_killed_writer_left_is_not_read(tmp_path):
    writer = EventWriter(str(tmp_path))
    write(writer, 1, 5)
    writer.roll()
    (tmp_path / ".writing-dead").write_bytes(b"PAR1 half a part")
    listing = list_parts(str(tmp_path))
    assert len(listing.parts) == 1 and not listing.skipped
    EventWriter(str(tmp_path))
    assert not (tmp_path / ".writing-dead").exists()


def test_a_failed_write_loses_nothing(tmp_path, monkeypatch):
    writer = EventWriter(str(tmp_path))
    write(writer, 1, 5)
    with monkeypatch.context() as patch:
        patch.setattr(event_parts, "write_part", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            writer.roll()
    write(writer, 6, 8)
    writer.roll()
    assert seqs(tmp_path) == list(range(1, 9))


def damaged(tmp_path: Path) -> dict[str, str]:
    """A directory with a good part and one of each kind of bad one: file name -> what is to be said of it."""
    writer = EventWriter(str(tmp_path))
    bad: dict[str, str] = {}
    for n, (name, why) in enumerate(
        {
            "good": "",
            "truncated": "truncated",
            "old": "schema version 0",
            "foreign": "foreign: no event table",
            "miscounted": "its name says",
        }.items()
    ):
        write(writer, 10 * n + 1, 10 * n + 10)
        part = writer.roll()
        assert part is not None
        path = Path(part.path)
        if why:
            bad[path.name] = why
        table = read_parts(str(tmp_path), [part])
        match name:
            case "truncated":
                path.write_bytes(path.read_bytes()[:-50])
            case "old":
                pq.write_table(table.replace_schema_metadata({b"mantamq.schema_version": b"0"}), path)
            case "foreign":
                pq.write_table(pa.table({"a": [1] * 10}), path)
            case "miscounted":
                pq.write_table(table.slice(1).replace_schema_metadata(pq.read_metadata(path).metadata), path)
    (tmp_path / "notes.txt").write_text("hello")
    bad["notes.txt"] = "foreign: not named"
    (tmp_path / "folder").mkdir()
    bad["folder"] = "foreign: not named"
    return bad


def test_damaged_and_foreign_files_are_named(tmp_path):
    bad = damaged(tmp_path)
    listing = list_parts(str(tmp_path))
    checked = check_parts(str(tmp_path), listing.parts)
    assert [part.row_first for part in checked.parts] == [1]
    said = {Path(one.path).name: one.why for one in listing.skipped + checked.skipped}
    assert said.keys() == bad.keys()
    assert all(why in said[name] for name, why in bad.items()), said


def test_a_writer_goes_on_behind_damaged_parts(tmp_path):
    damaged(tmp_path)
    writer = EventWriter(str(tmp_path))
    assert writer.next_row == 51  # numbers are not used twice
    assert writer.resume == {"q#1": 10}
    assert len(writer.skipped) == 6  # two by their names, four by their footers, up to the newest good one
    write(writer, 11, 20)
    writer.roll()
    assert seqs(tmp_path) == list(range(1, 21))


def test_of_two_that_overlap_one_is_read(tmp_path):
    table = to_table([row(seq)._replace(row=seq) for seq in range(1, 11)])
    write_part(str(tmp_path), table, {})
    write_part(str(tmp_path), table.slice(4, 3), {})
    listing = list_parts(str(tmp_path))
    assert [part.row_last for part in listing.parts] == [10]
    assert "overlaps" in listing.skipped[0].why


def test_a_second_writer_is_noticed(tmp_path):
    one, other = EventWriter(str(tmp_path)), EventWriter(str(tmp_path))
    write(one, 1, 3)
    one.roll()
    write(other, 1, 3)
    with pytest.raises(LocalError, match="two writers"):
        other.roll()


def test_old_parts_go_and_the_newest_stays(tmp_path):
    writer = EventWriter(str(tmp_path), WriterLimits(keep_s=100, part_s=10))
    for n in range(5):
        write(writer, 10 * n + 1, 10 * n + 10)
        writer.roll()
    assert [part.row_first for part in writer.forget(125 * SECOND)] == [1, 11]
    writer.work(10_000 * SECOND)  # nothing to write, still something to forget
    assert [part.row_first for part in list_parts(str(tmp_path)).parts] == [41]
    assert EventWriter(str(tmp_path)).resume == {"q#1": 50}


def test_too_many_bytes_go(tmp_path):
    writer = EventWriter(str(tmp_path), WriterLimits(keep_s=0, keep_bytes=1))
    for n in range(3):
        write(writer, 10 * n + 1, 10 * n + 10)
        writer.roll()
    size = sum(part.bytes for part in list_parts(str(tmp_path)).parts)
    writer.limits.keep_bytes = size
    assert writer.forget(0) == []
    writer.limits.keep_bytes = size - 1
    assert [part.row_first for part in writer.forget(0)] == [1]


def test_any_file_system_will_do():
    directory = "memory://events/of/one"
    writer = EventWriter(directory)
    write(writer, 1, 9)
    writer.roll()
    assert EventWriter(directory).next_row == 10
    assert seqs(directory) == list(range(1, 10))
    with pytest.raises(LocalError, match="cannot be kept at nosuch://"):
        EventWriter("nosuch://x")


def test_nothing_there_is_an_empty_table(tmp_path):
    directory = str(tmp_path / "not there")
    assert list_parts(directory).parts == []
    assert read_parts(directory, []).schema == SCHEMA
    writer = EventWriter(directory)
    assert writer.roll() is None
    assert writer.tail().blocks == []


def test_a_field_that_fits_no_column_is_refused():
    with pytest.raises(LocalError, match="cannot hold"):
        to_table([row(2**63)])


def test_a_message_costs_well_under_a_byte(tmp_path):
    """A thousand messages in a batch: enqueue, acquire, accept."""
    writer = EventWriter(str(tmp_path))
    for n in range(3000):
        span = {"position_first": 1000 * n + 1, "position_last": 1000 * n + 1000, "count": 1000}
        for step, kind in enumerate(("enqueue", "acquire", "accept")):
            writer.append("", 0, [row(3 * n + step, **span)._replace(kind=kind, broker="b1", acquisition=n)])
    part = writer.roll()
    assert part is not None
    assert part.bytes / 3_000_000 < 0.1
