"""What a log holds, a row for each record, under the names that CLFS' store and Qpid's gave to kinds of records.

An entry that enqueues is what they call Message-Start and Enqueue, one that takes messages away Message-Dequeue and
Delete; what has no such name goes by the name of its event. The log itself gives kinds no meaning: it is read here
alone, and a payload that cannot be read is shown all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from ...protocol.errors import PeerError
from ...protocol.wire.events import Accept, Enqueue, Expire, Purge, decode_event
from ...protocol.wire.message import FIELDS, decode
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
    decode_record,
)
from ..files import Files
from .layout import RECORD_HEAD, pack_name, require_fast_checksums
from .scan import Damage, Found, Scan
from .survey import Survey

DAMAGED = "(damaged)"
_BODY_AT = {0xC4: 3, 0xC5: 4, 0xC6: 6}
"""How msgpack begins a message's body -> where its first byte is: behind the array's head, and its own."""
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


class DumpMessage(NamedTuple):
    """A message in a record, as `mantamq store dump --bodies` shows it.

    Attributes:
        id: its persistence id, which is the LSN of the byte where its body begins; 0 where its record goes over the end
            of a container, or the bytes are no message.
        position: its place among the enqueues of its queue; 0: only the state of the queue knows.
        header: its fields that are not at their default, but the body.
        body: its bytes.
    """

    id: int
    position: int
    header: dict[str, Any]
    body: bytes


def dump(files: Files, folder: str, stream: str = "", from_lsn: int = 0) -> Iterator[DumpRow]:
    """The records of a log from its base to its end, and then what is damaged. Writes nothing and needs no lock; of a
    log that is being written, what comes meanwhile may be missing, and what its writer frees meanwhile.

    Args:
        files: the file system.
        folder: of the log.
        stream: its records only, and damage that may have touched it; "": all streams'.
        from_lsn: no record below it.

    Raises:
        StoreError: see `Survey`.
    """
    for row, _ in dump_records(files, folder, stream, from_lsn):
        yield row


def dump_records(
    files: Files, folder: str, stream: str = "", from_lsn: int = 0
) -> Iterator[tuple[DumpRow, Found | None]]:
    """As `dump`, each row with the record that it shows; None for damage."""
    require_fast_checksums()
    last, survey = -1, Survey(files, folder)
    while True:
        scan = Scan(survey)
        try:
            for found in scan:
                if found.lsn > last and found.lsn >= from_lsn and stream in ("", found.stream):
                    kind, detail = _read(found)
                    size = len(found.payload)
                    yield DumpRow(found.lsn, kind, found.stream, found.undo, size, found.time_us, detail), found
                last = max(last, found.lsn)
            break
        except FileNotFoundError:  # its writer has freed a container that was not read yet
            survey.close()
            survey = Survey(files, folder)
    base = _base_now(files, folder) if scan.damage else 0  # what was freed meanwhile is no damage
    for damage in scan.damage:
        if damage.end > max(base, from_lsn) and (not stream or stream in damage.streams):
            yield _damage(damage), None


def messages_in(found: Found, container_bytes: int) -> Iterator[DumpMessage]:
    """The messages whose bodies are in a record.

    Args:
        found: the record.
        container_bytes: size of the log's containers.
    """
    record = decode_record(found.kind, found.payload)
    if isinstance(record, EntriesRecord):
        events = [decode_event(entry.event) for entry in record.entries]
        blobs = [(0, blob) for event in events if isinstance(event, Enqueue) for blob in event.blobs]
    elif isinstance(record, MessageRecord):
        places = [at for first, last in zip(*[iter(record.ranges)] * 2, strict=True) for at in range(first, last + 1)]
        blobs = list(zip(places, record.blobs, strict=False))
    else:
        return
    start = found.lsn + RECORD_HEAD + len(pack_name(found.stream))
    whole = (found.lsn // container_bytes + 1) * container_bytes >= start + len(found.payload)
    at = 0
    for position, blob in blobs:
        at = found.payload.find(blob, at)
        try:
            fields = decode(blob, lambda *fields: fields)
        except PeerError:
            yield DumpMessage(0, position, {}, blob)
        else:
            named = {name: one for name, one in zip(FIELDS[1:], fields[1:], strict=False) if one not in (None, False)}
            id = start + at + _BODY_AT.get(blob[1], 0) if whole and at >= 0 else 0
            yield DumpMessage(id, position, named, fields[0])
        at += len(blob)


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


def _base_now(files: Files, folder: str) -> int:
    survey = Survey(files, folder)
    survey.close()
    return survey.base


def _damage(damage: Damage) -> DumpRow:
    return DumpRow(damage.first, DAMAGED, ", ".join(sorted(damage.streams)), 0, damage.end - damage.first, 0)
