"""A queue as its checkpoint has it, read back from its stream's records."""

from __future__ import annotations

from typing import Any

import msgspec

from ..log.history import StreamHistory
from ..log.store_link import Records
from ..queue.snapshot import QueueSnapshot
from ..replica.extents import Extents
from ..wire.records import StoreRecord, decode_record

_decode = msgspec.msgpack.Decoder(QueueSnapshot).decode


class Outline(msgspec.Struct):
    """A queue as a checkpoint has it: its state without bodies, those, how many bytes that is, and where they lie."""

    snapshot: QueueSnapshot
    blobs: dict[int, bytes]
    size: int
    extents: Extents


def read_outline(history: StreamHistory, records: Records) -> Outline | None:
    """The queue as the last checkpoint has it; None without one.

    Raises:
        PeerError: `bad-frame`, the records that it names do not hold what it says.
        msgspec.DecodeError: its outline is none.
    """
    checkpoint = history.checkpoint
    if checkpoint is None:
        return None
    snapshot, extents = _decode(checkpoint.outline), Extents(checkpoint.extents)
    payloads = {lsn: (kind, payload) for lsn, kind, payload in records}
    last: list[Any] = [0, None]  # many extents in a row are in one record

    def record_at(lsn: int) -> StoreRecord | None:
        if last[0] != lsn:
            kind, payload = payloads.get(lsn, (0, b""))
            last[:] = lsn, decode_record(kind, payload)
        return last[1]

    blobs = extents.read(snapshot.live(), record_at)
    return Outline(snapshot, blobs, sum(map(len, blobs.values())), extents)
