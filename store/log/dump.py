"""What a log holds, a row for each record, under the names that CLFS' store and Qpid's gave to kinds of records.

An entry that enqueues is what they call Message-Start and Enqueue, one that takes messages away Message-Dequeue and
Delete; what has no such name goes by the name of its event. The log itself gives kinds no meaning: it is read here
alone, and a payload that cannot be read is shown all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from ...protocol.errors import PeerError
from ...protocol.wire.events import Accept, Enqueue, Expire, Purge, decode_event
from ...protocol.wire.records import (
    RECORDS,
    CheckpointRecord,
    ClosedRecord,
    DroppedRecord,
    EntriesRecord,
    MessageRecord,
    OpenedRecord,
    PromiseRecord,
    StoreRecord,
)
from ..files import Files
from .layout import require_fast_checksums
from .scan import Damage, Found, Scan
from .survey import Survey

DAMAGED = "(damaged)"
_NAMES: dict[type[StoreRecord], str] = {
    OpenedRecord: "(stream begins)",
    EntriesRecord: "(entries)",
    MessageRecord: "Message-Start (moved)",
    CheckpointRecord: "(checkpoint)",
    PromiseRecord: "(promise)",
    DroppedRecord: "(stream is dropped)",
    ClosedRecord: "(clean end)",
}
_EVENTS: dict[type, str] = {
    Enqueue: "Message-Start + Enqueue",
    **dict.fromkeys((Accept, Expire, Purge), "Message-Dequeue + Delete"),
}


class DumpRow(NamedTuple):
    """A record as `mantamq store dump` shows it, or LSNs that are damaged.

    Attributes:
        lsn: where it begins.
        kind: its name, or `DAMAGED`; of entries, the names of their events.
        stream: whose it is; of damage the streams it may touch.
        undo: LSN of the stream's record before, 0 for none.
        size_bytes: of the payload; of the damage.
        time_us: when it was ordered, microseconds since 1970; 0 for damage.
        detail: what is worth a look in it, or "".
    """

    lsn: int
    kind: str
    stream: str
    undo: int
    size_bytes: int
    time_us: int
    detail: str = ""


def dump(files: Files, folder: str) -> Iterator[DumpRow]:
    """The records of a log from its base to its end, and then what is damaged. Writes nothing and needs no lock; of a
    log that is being written, the last batch may be missing.

    Args:
        files: the file system.
        folder: of the log.

    Raises:
        StoreError: see `Survey`.
    """
    require_fast_checksums()
    scan = Scan(Survey(files, folder))
    for found in scan:
        kind, detail = _read(found)
        yield DumpRow(found.lsn, kind, found.stream, found.undo, len(found.payload), found.time_us, detail)
    for damage in scan.damage:
        yield _damage(damage)


def _read(found: Found) -> tuple[str, str]:
    """A record's name, and what is worth a look in it."""
    struct = RECORDS.get(found.kind)
    if struct is None:
        return f"(kind {found.kind})", ""
    try:
        record = msgspec.msgpack.decode(found.payload, type=struct)
        if isinstance(record, EntriesRecord):
            events = [decode_event(entry.event) for entry in record.entries]
            names = dict.fromkeys(_EVENTS.get(type(one), type(one).__name__) if one else "(newer)" for one in events)
            last = record.first + len(events) - 1
            return "; ".join(names), f"entries {record.first} to {last}, {record.commit} is committed"
    except (msgspec.MsgspecError, PeerError, UnicodeDecodeError):
        return _NAMES[struct], "cannot be read"
    return _NAMES[struct], _detail(record)


def _detail(record: StoreRecord) -> str:
    if isinstance(record, OpenedRecord):
        return f"life {record.life}, log of {record.log_inc}{', blank' if record.blank else ''}"
    if isinstance(record, MessageRecord):
        return f"{len(record.blobs)} messages"
    if isinstance(record, CheckpointRecord):
        return f"of index {record.index}, names {record.low} and later"
    return f"of {record.ballot}" if isinstance(record, PromiseRecord) else ""


def _damage(damage: Damage) -> DumpRow:
    return DumpRow(damage.first, DAMAGED, ", ".join(sorted(damage.streams)), 0, damage.end - damage.first, 0)
