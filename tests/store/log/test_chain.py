"""One stream read back by its undo pointers: its checkpoint, what that names, and what stands behind it."""

from __future__ import annotations

import pytest
from mantamq.protocol.errors import StoreError
from mantamq.protocol.wire.records import (
    CHECKPOINT,
    ENTRIES,
    MESSAGE,
    OPENED,
    CheckpointRecord,
    OpenedRecord,
    encode_record,
)
from mantamq.store.log.chain import read_before, read_chain
from mantamq.store.log.log import Log
from mantamq.store.log.reader import LogReader

from ..disks import SimulatedFiles


def checkpoint(behind: list[int], extents: list[int]) -> bytes:
    record = CheckpointRecord(
        0, 0, 1, 1, False, 9, (1, 1), 9, {}, {}, [], {}, 9, b"", behind=behind, extents=extents
    )  # fmt: skip
    return encode_record(record)


def test_a_stream_is_read_from_its_checkpoint_on_with_what_that_names() -> None:
    files = SimulatedFiles()
    log = Log.create(files, "/tx", container_bytes=16 * 1024, containers=2, log_id=bytes(16), least_bytes=1)

    def put(kind: int, stream: str, payload: bytes) -> int:
        (lsn,) = log.write([(kind, stream, [payload])], 1)
        log.sync()
        return lsn

    first = put(OPENED, "q", encode_record(OpenedRecord(1, 1, False)))
    moved, named = put(ENTRIES, "q", b"a"), put(ENTRIES, "q", b"b" * 20_000)
    put(ENTRIES, "q", b"not named")
    other = put(ENTRIES, "p", b"another's")
    at = put(CHECKPOINT, "q", checkpoint([named], [1, 1, moved, 0, 2, 2, moved, 1]))
    put(ENTRIES, "p", b"another's")
    last = put(ENTRIES, "q", b"c")
    reader = LogReader(files, "/tx")
    found = read_chain(reader, "q", at, last)
    assert [lsn for lsn, _, _ in found] == [at, moved, named, last]
    assert [payload for _, _, payload in found[1:]] == [b"a", b"b" * 20_000, b"c"]
    assert [lsn for lsn, _, _ in read_chain(reader, "q", at, at)] == [at, moved, named]
    assert [lsn for lsn, _, _ in read_chain(reader, "p", 0, other)] == [other]
    assert read_chain(reader, "q", 0, last)[0][0] == first
    for wrong in ((at, other), (named + 8, last), (moved, last)):
        with pytest.raises(StoreError):
            read_chain(reader, "q", *wrong)
    for stream, checkpoint_at, last_at in (("p", 0, last), ("q", first, last)):
        with pytest.raises(StoreError):
            read_chain(reader, stream, checkpoint_at, last_at)


def test_what_a_checkpoint_stands_for_is_read_as_far_as_it_is_there() -> None:
    files = SimulatedFiles()
    log = Log.create(files, "/tx", container_bytes=16 * 1024, containers=2, log_id=bytes(16), least_bytes=1)

    def put(kind: int, payload: bytes) -> int:
        (lsn,) = log.write([(kind, "q", [payload])], 1)
        log.sync()
        return lsn

    lsns = [put(ENTRIES, b"%d" % number * 3000) for number in range(8)]
    moved = put(MESSAGE, b"m" * 3000)
    at = put(CHECKPOINT, checkpoint([], []))
    reader = LogReader(files, "/tx")
    found = read_before(reader, "q", at, 1 << 20)
    assert [lsn for lsn, _, _ in found] == lsns and found[3][2] == b"3" * 3000
    assert [lsn for lsn, _, _ in read_before(reader, "q", at, 9001)] == lsns[5:], "a body that was moved is none of it"
    assert read_before(reader, "q", at, 0) == read_before(reader, "q", 0, 1 << 20) == []
    assert [lsn for lsn, _, _ in read_before(reader, "q", lsns[3], 1 << 20)] == lsns[:3]
    assert read_before(reader, "p", at, 1 << 20) == [], "another's"
    log.free_below(moved)
    left = [lsn for lsn, _, _ in read_before(LogReader(files, "/tx"), "q", at, 1 << 20)]
    assert left and left == lsns[-len(left) :] and len(left) < 8, "the others are gone"
