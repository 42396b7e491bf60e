"""What a durable queue that begins again still has on its own disk: the messages of a log that does not vote any more.

Only what was committed counts, as everywhere in `body_cache.py`: a checkpoint's messages, those of entries behind it
that were known committed, and what was moved or brought by an update. Behind the commit index a position may have
become another message.
"""

from __future__ import annotations

import msgspec

from ..errors import PeerError
from ..log.history import StreamHistory, read_history
from ..log.store_link import Records
from ..queue.state import QueueState
from ..ranges import pairs
from ..wire.events import decode_event
from ..wire.records import MESSAGE, OPENED, MessageRecord, OpenedRecord, decode_record
from .outlines import read_outline


def old_bodies(records: Records) -> dict[int, bytes]:
    """Position -> message, of records as `Loaded` has them. What cannot be read is not used."""
    try:
        bodies = _applied(records[: _second_log(records)])
    except (PeerError, msgspec.DecodeError):
        bodies = {}
    for _, kind, payload in records:
        if kind == MESSAGE:
            try:
                record = decode_record(kind, payload)
                ranges = list(pairs(record.ranges)) if isinstance(record, MessageRecord) else []
            except (PeerError, ValueError):
                continue
            if isinstance(record, MessageRecord):
                positions = (p for first, last in ranges for p in range(first, last + 1))
                bodies.update(zip(positions, record.blobs, strict=False))
    return bodies


def _second_log(records: Records) -> int:
    """Where a log begins that is not the one of the first record."""
    for at, (_, kind, payload) in enumerate(records[1:], 1):
        if kind == OPENED:
            record = decode_record(kind, payload)
            if isinstance(record, OpenedRecord) and record.log_inc == record.life:
                return at
    return len(records)


def _applied(records: Records) -> dict[int, bytes]:
    """The messages of the queue as it was applied with these records of one log."""
    history = read_history(records)
    outline = read_outline(history, records)
    state = QueueState("")
    if outline is not None:
        state.restore(outline.snapshot)
        state.fill(outline.blobs)
    for index in range(history.base + 1, _committed(history) + 1):
        event = decode_event(history.entries[index].event)
        state.apply(event)
    return state.blobs


def _committed(history: StreamHistory) -> int:
    """Up to where its entries were known committed."""
    return history.commit
