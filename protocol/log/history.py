"""A stream's records read back: the redo pass. It ends where the keeper stood when the last of them was written.

Entries that no checkpoint stands for are kept; an index at or below the end overrules the rest, as it did when it was
written. What was known committed may be applied; what lies behind that is held, and the next leader decides.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..wire.events import ZERO, Ballot, Entry
from ..wire.records import CHECKPOINT, CheckpointRecord, EntriesRecord, OpenedRecord, decode_record
from .retained import retained_entries


class StreamHistory:
    """One stream at one voter, by its records in the order of their LSNs: from its last checkpoint on, or from its
    first record; the earlier ones with entries that the checkpoint names come behind it (`read_history`).

    Attributes:
        life, log_inc, blank, earlier: as in `OpenedRecord`, of the last one.
        voters: those with which the stream begins, or of the checkpoint.
        checkpoint: the last one.
        base, base_ballot, base_seq: index, ballot and seq of the entry it goes up to.
        entries: index -> entry, from `base` on without a gap.
        commit: known committed, and held.
        before: index -> entry, up to `base` without a gap: kept for others (`retained.py`).
        places: where the entries lie that no checkpoint stands for: (first index, how many, LSN, bytes) of records.
    """

    def __init__(self) -> None:
        self.life = 0
        self.log_inc = 0
        self.blank = False
        self.earlier: list[int] = []
        self.voters: list[str] = []
        self.checkpoint: CheckpointRecord | None = None
        self.base = 0
        self.base_ballot: Ballot = ZERO
        self.base_seq = 0
        self.entries: dict[int, Entry] = {}
        self.before: dict[int, Entry] = {}
        self.places: list[tuple[int, int, int, int]] = []
        self._known = 0

    @property
    def end(self) -> int:
        return self.base + len(self.entries)

    @property
    def commit(self) -> int:
        return min(self._known, self.end)

    def kept(self) -> tuple[int, Ballot, int, dict[int, Entry]]:
        """All entries there are, behind one of which only the place is kept: its index, ballot, seq, and those."""
        if not self.before:
            return self.base, self.base_ballot, self.base_seq, dict(self.entries)
        index, first = next(iter(self.before.items()))
        entries = self.before | self.entries
        del entries[index]
        return index, first.ballot, first.seq, entries

    def read(self, kind: int, payload: bytes | memoryview, lsn: int = 0) -> None:
        """The next record.

        Raises:
            PeerError: `bad-frame`, the payload is none of that kind.
        """
        record = decode_record(kind, payload)
        if isinstance(record, EntriesRecord):
            self._entries(record)
            self.places.append((record.first, len(record.entries), lsn, len(payload)))
        elif isinstance(record, CheckpointRecord):
            self._checkpoint(record)
        elif isinstance(record, OpenedRecord):
            self._opened(record)

    def _opened(self, record: OpenedRecord) -> None:
        if record.log_inc == record.life:  # a new log begins: what was before is no part of it
            self.__init__()
        self.life, self.log_inc, self.blank, self.earlier = record.life, record.log_inc, record.blank, record.earlier
        self.voters = record.voters or self.voters

    def _entries(self, record: EntriesRecord) -> None:
        if record.first > self.end + 1:
            return  # behind an update whose checkpoint is not there: nothing of it counts
        for index in range(max(record.first, self.base + 1), self.end + 1):
            del self.entries[index]
        for index, entry in enumerate(record.entries, record.first):
            if index > self.base:
                self.entries[index] = entry
        self._known = max(self._known, record.commit)

    def _checkpoint(self, record: CheckpointRecord) -> None:
        for index in range(self.base + 1, min(record.index, self.end) + 1):
            del self.entries[index]
        self.checkpoint = record
        self.places.clear()
        self.base, self.base_ballot, self.base_seq = record.index, record.ballot, record.seq
        self.life, self.log_inc, self.blank, self.voters = record.life, record.log_inc, record.blank, record.voters
        self.earlier = record.earlier
        self._known = max(self._known, record.commit)


def read_history(
    records: Iterable[tuple[int, int, bytes]], before: Iterable[tuple[int, int, bytes]] = ()
) -> StreamHistory:
    """The stream in records as `Loaded` has them: (LSN, kind, payload). Earlier ones that a checkpoint names for their
    bodies only are passed over: they are older than what the checkpoint stands for, and may have been overruled since.
    `before`: those before the last checkpoint, as there.

    Raises:
        PeerError: `bad-frame`, a payload is none of its kind.
    """
    history = StreamHistory()
    checkpoint_lsn, named = 0, set[int]()
    for lsn, kind, payload in records:
        if lsn >= checkpoint_lsn or lsn in named:
            history.read(kind, payload, lsn)
            if kind == CHECKPOINT and history.checkpoint is not None:
                checkpoint_lsn, named = lsn, set(history.checkpoint.behind)
    if history.checkpoint is not None:
        history.before = retained_entries(before, history.checkpoint)
    return history
