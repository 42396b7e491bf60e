"""What a log promises to who writes and reads it, one promise a test."""

from __future__ import annotations

from random import Random

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mantamq.protocol.errors import LocalError, StoreError
from mantamq.protocol.wire import records as vocabulary
from mantamq.protocol.wire.events import Accept, Enqueue, Entry, encode_event
from mantamq.store.files import RealFiles
from mantamq.store.log import layout
from mantamq.store.log.containers import container_name, rounded
from mantamq.store.log.dump import DAMAGED, dump
from mantamq.store.log.layout import FIRST, LAST, MIDDLE, WHOLE
from mantamq.store.log.log import Log, Outgoing
from mantamq.store.log.reader import LogReader
from mantamq.store.log.recovery import open_log
from mantamq.store.log.spread import spread

from ..disks import SimulatedFiles
from .script import CONTAINER_BYTES, FOLDER, LOG_ID, Story

ID = LOG_ID


def new(files: SimulatedFiles, folder: str = FOLDER) -> Log:
    size = CONTAINER_BYTES
    return Log.create(files, folder, container_bytes=size, containers=2, log_id=ID, least_bytes=size)


def record(stream: str, *pieces: bytes) -> Outgoing:
    return Outgoing(2, stream, pieces)


def reopened(files: SimulatedFiles) -> tuple[Log, list[tuple[str, bytes]]]:
    files.kill()
    log, found = open_log(files, FOLDER)
    return log, [(one.stream, one.payload) for one in found]


def test_sizes_are_rounded():
    assert rounded(1) == 512 * 1024
    assert rounded(512 * 1024 + 1) == 516 * 1024
    assert rounded(1 << 40) == 1 << 30
    files = SimulatedFiles()
    log = Log.create(files, FOLDER, container_bytes=1, containers=1, log_id=ID)
    assert log.used_bytes == log.container_bytes == 512 * 1024 and log.spares == 1, "two containers at least"


def test_a_slow_checksum_is_refused(monkeypatch):
    files = SimulatedFiles()
    new(files)
    monkeypatch.setattr(google_crc32c, "implementation", "python")
    for refused in (
        lambda: new(files, "/other"),
        lambda: open_log(files, FOLDER),
        lambda: LogReader(files, FOLDER),
        lambda: list(dump(files, FOLDER)),
    ):
        with pytest.raises(StoreError, match=r"store-checksum: .*install google-crc32c"):
            refused()
    assert not files.exists("/other")


def test_a_log_is_made_once():
    files = SimulatedFiles()
    new(files)
    with pytest.raises(StoreError, match="store-not-empty"):
        new(files)
    with pytest.raises(StoreError, match="store-no-log"):
        open_log(files, "/")


def test_a_newer_format_is_refused_and_left_alone():
    files = SimulatedFiles()
    new(files)
    path = f"{FOLDER}/{container_name(1)}"
    page = bytearray(files.open(path).pread(4096, 0))
    page[8] = 2
    page[88:92] = google_crc32c.value(bytes(page[:88])).to_bytes(4, "little")
    files.open(path).pwritev([bytes(page)], 0)
    before = files.list(FOLDER)
    with pytest.raises(StoreError, match="store-format: the log is of format 2"):
        open_log(files, FOLDER)
    assert files.list(FOLDER) == before


def test_one_write_and_one_flush_for_a_group():
    files = SimulatedFiles()
    log = new(files)
    calls = files.calls
    log.write([record("a", b"x" * 100, b"y"), record("b", b"z")] * 20, 5)
    log.sync()
    assert files.calls == calls + 2
    log.sync()
    assert files.calls == calls + 2


def test_pieces_are_written_without_a_copy():
    buffers: list[bytes] = []
    pieces = [bytes(1000), bytes(5000)]
    layout.append_record(buffers, 2, WHOLE, 4096, 0, b"\xa1a", pieces)
    assert buffers[1] is pieces[0] and buffers[2] is pieces[1]


def test_a_second_group_flushes_the_first():
    log = new(SimulatedFiles())
    log.write([record("a", b"1")], 1)
    assert log.flushed < log.end
    middle = log.end
    log.write([record("a", b"2")], 2)
    assert log.flushed == middle < log.end
    log.sync()
    assert log.flushed == log.end > log.proven == middle
    assert log.prove() and log.proven == log.end - 4096
    assert not log.prove()


def test_what_was_found_is_read_before_anything_is_written():
    files = SimulatedFiles()
    new(files).write([record("a", b"1")], 1)
    files.kill()
    log, found = open_log(files, FOLDER)
    for call in (lambda: log.write([record("a", b"2")], 1), log.prove, lambda: log.free_below(log.base)):
        with pytest.raises(LocalError):
            call()
    assert [(one.stream, one.payload, one.time_us) for one in found] == [("a", b"1", 1)]
    log.write([record("a", b"2")], 2)
    with pytest.raises(LocalError):
        log.free_below(log.end + 1)


def test_a_full_disk_makes_no_spare_and_ends_nothing():
    files = SimulatedFiles(capacity_bytes=3 * CONTAINER_BYTES)
    log = new(files)
    assert log.spares == 1 and log.make_spare() and log.spares == 2
    assert not log.make_spare()
    for _ in range(2 * 6):
        log.write([record("a", bytes(3000))], 1)
    assert log.spares == 1
    assert not log.make_spare(), "the disk is full"
    log.write([record("a", bytes(3000))], 1)
    log.free_below(log.end)
    assert log.spares == 2 and log.used_bytes == CONTAINER_BYTES


def test_a_record_larger_than_containers_goes_on_in_the_next():
    files, random = SimulatedFiles(), Random(1)
    log = new(files)
    body = random.randbytes(3 * CONTAINER_BYTES)
    first, large, last = log.write([record("a", b"1"), record("b", body[:70_000], body[70_000:]), record("a", b"2")], 7)
    log.sync()
    assert log.used_bytes == 4 * CONTAINER_BYTES
    reader = LogReader(files, FOLDER)
    assert reader.read(large).payload == body
    assert reader.piece(large, 50_000, 100) == body[50_000:50_100]
    assert reader.read(last).undo == first
    with pytest.raises(StoreError, match="store-damaged"):
        reader.piece(large, len(body) - 1, 2)
    with pytest.raises(StoreError, match="it is a part"):
        reader.read(3 * CONTAINER_BYTES + 4096 + 64)
    assert reopened(files)[1] == [("a", b"1"), ("b", body), ("a", b"2")]


def test_a_group_fits_a_container_of_its_own_rather_than_be_cut():
    files, size = SimulatedFiles(), 4 * CONTAINER_BYTES
    log = Log.create(files, FOLDER, container_bytes=size, containers=2, log_id=ID, least_bytes=size)
    log.write([record("a", bytes(size - 5 * 4096))], 1)
    log.sync()
    calls = files.calls
    log.write([record("a", bytes(20_000))], 1)
    assert log.used_bytes == 2 * size
    assert files.calls == calls + 6, "a container taken (5), and one write"


def test_a_reader_says_what_is_gone():
    files = SimulatedFiles()
    log = new(files)
    lsns = [log.write([record("a", b"%d" % number, bytes(3000))], 1)[0] for number in range(30)]
    reader = LogReader(files, FOLDER)
    assert reader.piece(lsns[0], 0, 1) == b"0"
    log.free_below(lsns[20])
    assert log.base == lsns[20]
    with pytest.raises(StoreError, match="store-gone"):
        LogReader(files, FOLDER).read(lsns[1])
    assert reader.piece(lsns[1], 0, 1) == b"1", "it has the file open, and nobody has written to it yet"
    for _ in range(14):
        log.write([record("b", bytes(3000))], 1)
    with pytest.raises(StoreError, match="store-gone"):
        reader.read(lsns[2])
    with pytest.raises(StoreError, match="store-damaged"):
        reader.read(lsns[29] + 8)
    assert reader.piece(lsns[29], 0, 2) == b"29"


def test_a_promise_is_in_a_header_before_its_container_goes():
    files = SimulatedFiles()
    log = new(files)
    lsns = [log.write([record("a", bytes(3000))], 1)[0] for _ in range(20)]
    log.note_ballot((7, 9))
    log.note_ballot((6, 9))
    assert reopened(files)[0].ballot == (0, 0), "it was in no header yet"
    files.kill()
    log, found = open_log(files, FOLDER)
    lsns = [one.lsn for one in found]
    log.note_ballot((7, 9))
    log.free_below(lsns[-1])
    assert reopened(files)[0].ballot == (7, 9)


def test_a_stream_of_another_log_is_damage():
    files = SimulatedFiles()
    log, other = (
        new(files),
        Log.create(
            files,
            "/other",
            container_bytes=CONTAINER_BYTES,
            containers=2,
            log_id=b"z" * 16,
            least_bytes=CONTAINER_BYTES,
        ),
    )
    for one in (log, other):
        for _ in range(20):
            one.write([record("a", bytes(3000))], 1)
        one.sync()
    files.unlink(f"{FOLDER}/{container_name(2)}")
    files.rename(f"/other/{container_name(2)}", f"{FOLDER}/{container_name(2)}")
    files.kill()
    _, found = open_log(files, FOLDER)
    records = list(found)
    assert len(records) == 20 - 7
    assert [(one.first, one.end) for one in found.damage][-1] == (2 * CONTAINER_BYTES + 4096, 3 * CONTAINER_BYTES)


def test_the_records_that_survive_a_hurt_batch_are_served():
    files = SimulatedFiles()
    log = new(files)
    first, second, third = log.write([record("a", b"1" * 50), record("b", b"2" * 50), record("c", b"3" * 50)], 1)
    log.write([record("c", b"4")], 2)
    log.prove()
    files.flip(f"{FOLDER}/{container_name(1)}", second - CONTAINER_BYTES + 40, 3)
    rows = list(dump(files, FOLDER))
    assert [(row.lsn, row.kind) for row in rows if row.kind == DAMAGED] == [(second, DAMAGED)]
    _, found = open_log(files, FOLDER)
    assert [one.stream for one in found] == ["a", "c", "c"]
    (damage,) = found.damage
    assert (damage.first, damage.end) == (second, third)
    assert damage.streams == {"a"}, "nobody knows b; a has no record behind it; c's chain shows that it is whole"


def test_the_dump_names_what_records_hold():
    files = SimulatedFiles()
    log = new(files)

    def entry(event: Enqueue | Accept) -> Entry:
        return Entry((1, 2), 1, "b1", 1, 1, encode_event(event))

    enqueue, accept = Enqueue("", [], [b"x"]), Accept("b1", 1, [1, 1])
    told: list[tuple[int, vocabulary.StoreRecord]] = [
        (vocabulary.OPENED, vocabulary.OpenedRecord(3, 2, True)),
        (vocabulary.ENTRIES, vocabulary.EntriesRecord(5, 4, [entry(enqueue), entry(accept), entry(enqueue)])),
        (vocabulary.PROMISE, vocabulary.PromiseRecord((3, 4))),
        (vocabulary.MESSAGE, vocabulary.MessageRecord([1, 1], [b"x"])),
        (vocabulary.DROPPED, vocabulary.DroppedRecord()),
    ]
    log.write([Outgoing(kind, "orders", [vocabulary.encode_record(one)]) for kind, one in told], 9)
    log.write([Outgoing(2, "", [b"\xff"]), Outgoing(99, "", [])], 10)
    assert [(row.kind, row.detail) for row in dump(files, FOLDER)] == [
        ("(stream begins)", "life 3, log of 2, blank"),
        ("Message-Start + Enqueue; Message-Dequeue + Delete", "entries 5 to 7, 4 is committed"),
        ("(promise)", "of (3, 4)"),
        ("Message-Start (moved)", "1 messages"),
        ("(stream is dropped)", ""),
        ("(entries)", "cannot be read"),
        ("(kind 99)", ""),
    ]


@given(
    st.lists(st.lists(st.integers(0, 30_000), max_size=3), min_size=1, max_size=8),
    st.integers(0, 7),
)
def test_a_spread_group_is_the_group(sizes, pages):
    capacity = 7 * 4096
    records = [(b"\xa1a", [bytes(size) for size in one]) for one in sizes]
    batches = spread(records, pages * 4096, capacity)
    got: dict[int, list[bytes]] = {}
    parts: dict[int, list[int]] = {}
    for number, chunks in enumerate(batches):
        assert chunks or number == 0
        room = capacity if number else pages * 4096
        assert sum(layout.record_bytes(b"\xa1a", sum(map(len, one.payload))) for one in chunks) <= max(room - 64, 0)
        for record_number, part, payload in chunks:
            got.setdefault(record_number, []).extend(payload)
            parts.setdefault(record_number, []).append(part)
    assert [b"".join(got[one]) for one in sorted(got)] == [b"".join(payload) for _, payload in records]
    assert all(one in ([WHOLE], [FIRST, *[MIDDLE] * (len(one) - 2), LAST]) for one in parts.values())


def test_on_real_files(tmp_path):
    story = Story(RealFiles(), 3, f"{tmp_path}/messages")
    story.create()
    for _ in story.steps(80):
        pass
    story.sync()
    assert story.log
    story.log.close()
    story.open()
