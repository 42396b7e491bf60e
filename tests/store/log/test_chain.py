"""One stream read back by its undo pointers: its checkpoint, what that names, and what stands behind it."""

from __future__ import annotations

import pytest
from mantamq.protocol.errors import StoreError
from mantamq.protocol.wire.records import CHECKPOINT, ENTRIES, OPENED, CheckpointRecord, OpenedRecord, encode_record
from mantamq.store.log.chain import read_chain
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
