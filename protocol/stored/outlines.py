"""A queue as its checkpoint has it, read back from its stream's records."""

from __future__ import annotations

from collections.abc import Callable
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


def needed(history: StreamHistory, records: Records) -> Callable[[int], bool]:
    """Which of the records, by LSN, are of more than bodies that the last checkpoint names: itself, what is behind it,
    and the entries that it names as not yet applied. The first record is that checkpoint."""
    if history.checkpoint is None:
        return lambda lsn: True
    first, behind = records[0][0], frozenset(history.checkpoint.behind)
    return lambda lsn: lsn >= first or lsn in behind


def read_outline(history: StreamHistory, records: Records, freed: bool = False) -> Outline | None:
    """The queue as the last checkpoint has it; None without one.

    Args:
        freed: the payload of each record that only has bodies is taken out of `records` once those are copied, so that
            a process never holds the bodies twice. What `read_history` reads stays whole.

    Raises:
        PeerError: `bad-frame`, the records that it names do not hold what it says.
        msgspec.DecodeError: its outline is none.
    """
    checkpoint = history.checkpoint
    if checkpoint is None:
        return None
    snapshot, extents = _decode(checkpoint.outline), Extents(checkpoint.extents)
    places = {lsn: at for at, (lsn, _, _) in enumerate(records)}
    read_again = needed(history, records)
    last: list[Any] = [0, None]  # many extents in a row are in one record

    def record_at(lsn: int) -> StoreRecord | None:
        if last[0] != lsn:
            at = places.get(lsn)
            _, kind, payload = records[at] if at is not None else (lsn, 0, b"")
            last[:] = lsn, decode_record(kind, payload)
        return last[1]

    def done(lsn: int) -> None:
        if last[0] == lsn:
            last[:] = 0, None
        if freed and lsn in places and not read_again(lsn):
            at = places[lsn]
            records[at] = (lsn, records[at][1], b"")

    blobs = extents.read(snapshot.live(), record_at, done)
    return Outline(snapshot, blobs, sum(map(len, blobs.values())), extents)
