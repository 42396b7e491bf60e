"""The entries that a stream's checkpoint stands for, read back for others: for voters that are a little behind.

After all members have lost power each comes back with its own last checkpoint, and one that ends a little before
another's must not need an update for that (`durable.md` 2). So a stream is read back further than its own voter needs.

The records before a checkpoint may hold what is no part of the log: entries that a later leader has overruled, which
an update has then covered. Raft's log matching says which are: where the fold of the records has at the checkpoint's
index the entry that the checkpoint speaks of, by ballot and seq, it is the same log up to there; else nothing of it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import PeerError
from ..wire.events import Entry
from ..wire.records import CheckpointRecord, EntriesRecord, OpenedRecord, decode_record

RETAINED_BYTES = 16 * 1024 * 1024
"""Most bytes of records that one stream is read back further than to its checkpoint."""


def retained_entries(records: Iterable[tuple[int, int, bytes]], checkpoint: CheckpointRecord) -> dict[int, Entry]:
    """Index -> entry, rising without a gap up to the checkpoint's; none, if they are not of the same log.

    Args:
        records: LSN, kind and payload of the stream's records before the checkpoint, in the order of the log.
    """
    entries: dict[int, Entry] = {}
    try:
        for _, kind, payload in records:
            record = decode_record(kind, payload)
            if isinstance(record, EntriesRecord):
                _follow(entries, record)
            elif isinstance(record, CheckpointRecord):
                _verify(entries, record)
            elif isinstance(record, OpenedRecord) and record.log_inc == record.life:
                entries.clear()  # another log begins
    except PeerError:  # none of them is needed
        return {}
    _verify(entries, checkpoint)
    return entries


def _follow(entries: dict[int, Entry], record: EntriesRecord) -> None:
    """The next entries; they overrule those from their first index on."""
    if record.first - 1 not in entries:  # what was between was brought by an update
        entries.clear()
    _drop_from(entries, record.first)
    entries.update(enumerate(record.entries, record.first))


def _verify(entries: dict[int, Entry], checkpoint: CheckpointRecord) -> None:
    """Keep what is of the log that the checkpoint speaks of; what stands behind its index is written behind it."""
    last = entries.get(checkpoint.index)
    if last is None or (last.ballot, last.seq) != (checkpoint.ballot, checkpoint.seq):
        entries.clear()
    _drop_from(entries, checkpoint.index + 1)


def _drop_from(entries: dict[int, Entry], first: int) -> None:
    """Drop the entries from this index on: they rise without a gap, so nothing else is looked at."""
    last = next(reversed(entries), 0)
    for index in range(first, last + 1):
        entries.pop(index, None)
