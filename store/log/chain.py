"""Reading one stream: from its last record by undo pointers back to its checkpoint, and what that one names.

Any process that has taken a stream reads it by itself (`reader.py`), while the store goes on writing (`durable.md` 3).
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from ...protocol.errors import STORE_DAMAGED, PeerError, StoreError
from ...protocol.wire.records import CHECKPOINT, MESSAGE, CheckpointRecord, decode_record
from .layout import LogRecord
from .reader import LogReader

ChainRecord = tuple[int, int, bytes]
"""LSN, kind and payload of a record."""


def read_chain(reader: LogReader, stream: str, checkpoint: int, last: int) -> list[ChainRecord]:
    """All that counts of a stream: the checkpoint, then what it names, then what stands behind it, each by LSN.

    Args:
        reader: of the stream's log.
        stream: its name, which every record of it has.
        checkpoint: LSN of its last checkpoint; 0: it has none, and all is read.
        last: LSN of its last record.

    Raises:
        StoreError: `store-gone`, `store-damaged`: something of it cannot be read, or is another stream's.
        OSError: of the disk.
    """
    behind: list[LogRecord] = []
    at = last
    while at > checkpoint:
        behind.append(record := _read(reader, stream, at))
        if record.undo >= at:
            raise StoreError(STORE_DAMAGED, f"the record at {at} names {record.undo} as the one before it")
        at = record.undo
    if at != checkpoint:
        raise StoreError(STORE_DAMAGED, f"the records of {stream} lead from {last} to {at}, past its checkpoint")
    found = [(one.lsn, one.kind, one.payload) for one in reversed(behind)]
    if not checkpoint:
        return found
    first = _read(reader, stream, checkpoint)
    named = [(one, _read(reader, stream, one)) for one in _named(first)]
    return [
        (first.lsn, first.kind, first.payload),
        *((lsn, one.kind, one.payload) for lsn, one in named),
        *found,
    ]


def read_before(reader: LogReader, stream: str, checkpoint: int, most_bytes: int) -> list[ChainRecord]:
    """More of a stream, which its checkpoint stands for: its records before that, by LSN, bodies that were moved left
    out. What cannot be read is not needed: there they begin.

    Args:
        most_bytes: of payloads; one record may be larger.
    """
    found: list[ChainRecord] = []
    size_bytes, at = 0, checkpoint
    with suppress(StoreError):
        undo = _read(reader, stream, at).undo if at else 0
        while 0 < undo < at and size_bytes < most_bytes:
            record = _read(reader, stream, undo)
            at, undo = undo, record.undo
            size_bytes += len(record.payload)
            if record.kind != MESSAGE:
                found.append((record.lsn, record.kind, record.payload))
    return found[::-1]


def _read(reader: LogReader, stream: str, lsn: int) -> LogRecord:
    record = reader.read(lsn)
    if record.stream != stream:
        raise StoreError(STORE_DAMAGED, f"the record at {lsn} is of {record.stream or 'no stream'}, not of {stream}")
    return record


def _named(record: LogRecord) -> Iterable[int]:
    """The LSNs that a checkpoint names, rising."""
    try:
        read = decode_record(record.kind, record.payload)
    except PeerError as error:
        raise StoreError(STORE_DAMAGED, f"the checkpoint at {record.lsn} cannot be read: {error.text}") from error
    if record.kind != CHECKPOINT or not isinstance(read, CheckpointRecord):
        raise StoreError(STORE_DAMAGED, f"the record at {record.lsn} is no checkpoint")
    return sorted({*read.behind, *read.extents[2::4]})
