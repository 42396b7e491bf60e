"""The parser of disks (`disk_parser.py`) against the real log: what is flushed it reads, and nothing that is not there."""

from __future__ import annotations

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from mantamq.protocol.errors import StoreError
from mantamq.protocol.log.history import StreamHistory
from mantamq.protocol.queue.snapshot import QueueSnapshot
from mantamq.protocol.wire.events import Entry
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
from mantamq.store.log.log import Log
from mantamq.store.log.recovery import open_log

from ..store.disks import PAGE_BYTES, SimulatedFile, SimulatedFiles
from . import disk_parser
from .disk_parser import Known, parse_log, promised_by, streams_of
from .disk_queues import OUTLINE

CONTAINER_BYTES = 5 * 4096
STREAMS = ("", "q#1", "a stream with a long name" * 11)
groups = st.lists(
    st.tuples(st.integers(0, 255), st.sampled_from(STREAMS), st.sampled_from([0, 1, 7, 500, 4000, 9000, 40_000])),
    min_size=1,
    max_size=4,
)
steps = st.one_of(
    st.tuples(st.just("write"), groups),
    st.tuples(st.just("unflushed"), groups),
    st.tuples(st.sampled_from(["prove", "crash", "kill"]), st.none()),
    st.tuples(st.just("free"), st.floats(0, 1)),
)


def create(files: SimulatedFiles) -> Log:
    return Log.create(files, "/l", container_bytes=CONTAINER_BYTES, containers=2, log_id=b"i" * 16, least_bytes=1)


def told(records) -> list[tuple]:
    return [(one.lsn, one.kind, one.stream, bytes(one.payload), one.undo) for one in records]


def compare(seed, script) -> None:
    files = SimulatedFiles(seed)
    log, written, known = create(files), [], Known()
    for what, value in script:
        if what in ("write", "unflushed"):
            records = [(kind, stream, [files.random.randbytes(count)]) for kind, stream, count in value]
            lsns = log.write(records, 1)
            if what == "write":
                log.sync()
                written += [
                    (lsn, kind, stream, data) for lsn, (kind, stream, (data,)) in zip(lsns, records, strict=True)
                ]
        elif what == "prove":
            log.prove()
        elif what == "free":
            log.free_below(log.base + int((log.end - log.base) * value) // 8 * 8)
        if what in ("unflushed", "crash", "kill"):
            (files.kill if what == "kill" else files.crash)()
            log, found = open_log(files, "/l")
            again = list(found)
            parsed = parse_log(files.durable("/l"))
            assert told(again) == told(parsed.records), "both readers, after a recovery"
            had = [one[1:] for one in written if one[0] >= parsed.base]
            assert [one[1:4] for one in told(again)][: len(had)] == had, "flushed, and gone"
            written = [one[:4] for one in told(again)]
        parsed = parse_log(files.durable("/l"))
        assert parse_log(files.durable("/l"), known) == parsed, "read on from where it was, and read anew"
        read = [one[:4] for one in told(parsed.records)]
        assert [one for one in read if one[0] >= log.base] == [one for one in written if one[0] >= log.base]
        assert parsed.end <= log.end and parsed.base <= log.base and not parsed.holes
        assert parsed.container_bytes == CONTAINER_BYTES


scripts = given(st.integers(0, 1 << 30), st.lists(steps, max_size=25))
test_what_is_flushed_is_read_with_nothing_else = settings(max_examples=150, deadline=None)(scripts(compare))
unshrunk = settings(max_examples=150, deadline=None, phases=[Phase.generate], database=None)


def entry(index, counter=1) -> Entry:
    return Entry((counter, 7), index, "b1", 1, index, b"\x92\x7d%c" % (index % 100))


def test_it_says_promises_entries_and_checkpoints_as_the_product_does():
    files = SimulatedFiles()
    log, history = create(files), StreamHistory()
    checkpoint = CheckpointRecord(4242, 0, 5, 5, False, 3, (1, 7), 3, {}, {}, ["b1"], {}, 4, b"")
    records = [
        (OPENED, OpenedRecord(5, 5, False, ["b1"])),
        (ENTRIES, EntriesRecord(1, 0, [entry(index) for index in range(1, 6)])),
        (ENTRIES, EntriesRecord(4, 3, [entry(4, 2)])),
        (CHECKPOINT, checkpoint),
        (ENTRIES, EntriesRecord(5, 4, [entry(5, 2), entry(6, 3)])),
        (OPENED, OpenedRecord(9, 5, False, ["b1"])),
        (ENTRIES, EntriesRecord(9, 9, [entry(9, 2)])),
    ]
    for kind, record in records:
        log.write([(kind, "q#1", [encode_record(record)])], 1)
        log.sync()
        history.read(kind, encode_record(record))
        stream = streams_of(parse_log(files.durable("/l")))["q#1"]
        assert (stream.base, stream.end, stream.log_inc, stream.blank) == (
            history.base, history.end, history.log_inc, history.blank,
        )  # fmt: skip
        assert {index: one[0] for index, one in stream.entries.items()} == {
            index: one.ballot for index, one in history.entries.items()
        }
    assert stream.lives == [5, 9] and stream.end == 6 and stream.commit == 4 and stream.low == 4242
    assert stream.ballot_at(3) == (1, 7) and stream.ballot_at(6) == (3, 7) and stream.ballot_at(7) is None
    log.write([(PROMISE, "", [encode_record(PromiseRecord((8, 3)))])], 1)
    assert promised_by({"tx": parse_log(files.durable("/l"))}) == (0, 0), "written, and not flushed"
    log.sync()
    assert promised_by({"tx": parse_log(files.durable("/l"))}) == (8, 3)


def sync_flushes_nothing(patch) -> None:
    patch.setattr(SimulatedFile, "fdatasync", lambda self: None)


def parser_takes_places_on_trust(patch) -> None:
    batch = disk_parser._batch
    patch.setattr(disk_parser, "_batch", lambda data, at, origin, log_id: batch(data, at, origin + PAGE_BYTES, log_id))


def parser_reads_behind_the_end(patch) -> None:
    header = disk_parser._header
    patch.setattr(disk_parser, "_header", lambda data: (one := header(data)) and one._replace(ends=1 << 60))


def parser_keeps_unfinished_groups(patch) -> None:
    patch.setattr(disk_parser, "LAST", disk_parser.FIRST)


@pytest.mark.parametrize(
    "plant",
    [
        sync_flushes_nothing, parser_takes_places_on_trust, parser_reads_behind_the_end,
        parser_keeps_unfinished_groups,
    ],
)  # fmt: skip
def test_that_reader_and_writer_differ_is_found(plant, monkeypatch):
    plant(monkeypatch)
    with pytest.raises((AssertionError, ExceptionGroup, StoreError)):  # StoreError: there is nothing left to open
        unshrunk(scripts(compare))()


def test_what_is_not_flushed_is_not_durable():
    files = SimulatedFiles()
    log = create(files)
    (lsn,) = log.write([(2, "q#1", [b"x" * 6000])], 1)
    assert parse_log(files.durable("/l")).records == []
    log.sync()
    assert [record.lsn for record in parse_log(files.durable("/l")).records] == [lsn]
    files.flip("/l/0000000000000001.log", lsn % CONTAINER_BYTES + 40, 1)
    assert parse_log(files.durable("/l")).records == [], "it does not verify any more"


def test_what_is_behind_a_rotten_header_is_there():
    files = SimulatedFiles()
    log = create(files)
    lsns: list[int] = []
    while log.end < 3 * CONTAINER_BYTES:
        lsns += log.write([(2, "q#1", [b"x" * 6000])], 1)
        log.sync()
    whole = [record.lsn for record in parse_log(files.durable("/l")).records]
    assert whole == lsns
    files.flip("/l/0000000000000001.log", 46, 6)
    assert [record.lsn for record in parse_log(files.durable("/l")).records] == lsns


def test_what_stands_beside_a_rotten_record_is_there():
    files = SimulatedFiles()
    log = create(files)
    lsns = log.write([(2, f"q#{at}", [b"x" * 100]) for at in range(3)], 1)
    log.sync()
    files.flip("/l/0000000000000001.log", lsns[0] % CONTAINER_BYTES + 15, 7)
    assert parse_log(files.durable("/l")).records == [], "nothing says yet that this was flushed: it is a torn end"
    log.prove()
    parsed = parse_log(files.durable("/l"))
    assert [record.lsn for record in parsed.records] == lsns[1:] and parsed.holes == lsns[:1]


def test_what_has_changed_since_is_read_anew():
    files, known = SimulatedFiles(), Known()
    log = create(files)
    lsns = [*log.write([(2, "q#1", [b"x" * 100])], 1), *log.write([(2, "q#1", [b"y" * 100])], 1)]
    log.sync()
    assert [record.lsn for record in parse_log(files.durable("/l"), known).records] == lsns
    files.flip("/l/0000000000000001.log", lsns[0] % CONTAINER_BYTES + 40, 1)
    lsns += log.write([(2, "q#1", [b"z" * 100])], 1)
    log.sync()
    parsed = parse_log(files.durable("/l"), known)
    assert parsed == parse_log(files.durable("/l")) and [record.lsn for record in parsed.records] == lsns[1:]


def rot_and_compare(seed, script, flips) -> None:
    """Bits turn over in batches below the last group: of what is left, the product and the parser read the same, and both
    say whether anything is not. Not in the containers' headers: there the product gives up more than it must."""
    files = SimulatedFiles(seed)
    log = create(files)
    for records in script:
        log.write([(kind, stream, [files.random.randbytes(count)]) for kind, stream, count in records], 1)
        log.sync()
    files.kill()
    last = parse_log(files.durable("/l")).last
    for where, bit in flips:
        at = CONTAINER_BYTES + int(where * (last - CONTAINER_BYTES))
        if at % CONTAINER_BYTES >= PAGE_BYTES:
            files.flip(f"/l/{at // CONTAINER_BYTES:016}.log", at % CONTAINER_BYTES, bit)
    _, found = open_log(files, "/l")
    records = told(found)
    parsed = parse_log(files.durable("/l"))
    assert records == told(parsed.records), "both readers, where bits have turned over"
    assert bool(found.damage) == bool(parsed.holes)


rotten = given(
    st.integers(0, 1 << 30),
    st.lists(groups, min_size=1, max_size=12),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7)), min_size=1, max_size=3),
)
test_what_has_not_rotted_is_read_with_nothing_else = settings(max_examples=300, deadline=None)(rotten(rot_and_compare))


def test_fields_of_an_outline_are_where_its_reader_looks_for_them():
    assert QueueSnapshot.__struct_fields__ == OUTLINE
