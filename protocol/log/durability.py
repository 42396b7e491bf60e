"""A keeper's side of the store: what waits for which record to be on disk (`durable.md` 3: K1', K2', K5).

Write-ahead logging, for a voter: whatever it says that others may count on, and whatever it applies, is on its disk
first. So what is on disk always contains what was shown, and a voter that comes back with its log is the same voter.
Three things wait: acknowledgements and log reports speak of the *flushed* end of the log (K2'); what is committed is
handed out when it is flushed (K5), and the voter counts itself as the distinguished learner by its flushed end; answers
under a new ballot wait for the record of its promise, while older ballots are refused at once (K1').

A keeper of a transient stream has none of this.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from ..errors import LocalError
from ..wire.events import ZERO, Ballot, Enqueue, encode_event
from ..wire.log_frames import Append
from ..wire.records import CHECKPOINT, ENTRIES, PROMISE, CheckpointRecord, EntriesRecord, PromiseRecord, encode_record
from ..wire.store_frames import Room, Write, Written

OnDisk = Callable[[int], object]
"""Called with a record's LSN when it is on disk."""

Placed = Callable[[int, int, int, int], object]
"""Called with a record of entries that is on disk: its first index, how many entries, its LSN, its bytes."""

ENQUEUE = encode_event(Enqueue("", [], []))[1:2]
"""The byte of an event that says its kind (`decode_event`)."""


class RecordWriter:
    """The records that one process writes to its broker's store, in order, and who waits for each.

    Attributes:
        full: the store has no room: no record that brings bodies is sent, nor what stands behind it in its stream.
    """

    __slots__ = ("_gathered", "_held", "_number", "_waiting", "full")

    def __init__(self) -> None:
        self.full = False
        self._number = 0
        self._gathered: list[tuple[int, str, bytes]] = []
        self._waiting: deque[OnDisk] = deque()  # one for each record handed out that is not on disk
        self._held: dict[str, list[tuple[int, bytes, OnDisk]]] = {}  # stream -> records that have no room

    def put(self, kind: int, stream: str, payload: bytes, done: OnDisk, grows: bool = False) -> None:
        """Write a record. `done` is called when it is on disk; never, if another life has taken the stream. `grows`: it
        brings bodies."""
        if stream in self._held or (grows and self.full):
            self._held.setdefault(stream, []).append((kind, payload, done))
            return
        self.put_ahead(kind, stream, payload, done)

    def put_ahead(self, kind: int, stream: str, payload: bytes, done: OnDisk) -> None:
        """Write a record that frees space, or makes room for what does: before the stream's records that have none."""
        self._gathered.append((kind, stream, payload))
        self._waiting.append(done)

    @property
    def idle(self) -> bool:
        """All that was to be written is on disk."""
        return not self._waiting and not self._held

    def held(self, stream: str) -> int:
        """How many records with entries of the stream have no room."""
        return sum(kind == ENTRIES for kind, _, _ in self._held.get(stream, ()))

    def drop(self, stream: str) -> None:
        """Nothing of the stream that has no room is wanted any more."""
        self._held.pop(stream, None)

    def gathered(self, live_bytes: Callable[[str], int | None] = lambda stream: None) -> Write | None:
        """The write of all that has gathered, to be sent now; None if nothing has.

        Args:
            live_bytes: bytes of a stream's live bodies, where the store is to be told of them.
        """
        if not self._gathered:
            return None
        self._number += 1
        records, self._gathered = self._gathered, []
        told = {stream: live_bytes(stream) for stream in dict.fromkeys(stream for _, stream, _ in records)}
        return Write(self._number, records, {stream: size for stream, size in told.items() if size is not None})

    def written(self, frame: Written) -> None:
        """Records are on disk: tell those that wait for them.

        Raises:
            LocalError: more than were sent.
        """
        if len(frame.lsns) > len(self._waiting) - len(self._gathered):
            raise LocalError(f"the store has written {len(frame.lsns)} records: more than it was sent")
        for lsn in frame.lsns:
            done = self._waiting.popleft()
            if lsn:
                done(lsn)

    def room(self, frame: Room) -> None:
        """The store has room, or none."""
        self.full = frame.full
        if not frame.full:
            held, self._held = self._held, {}
            for stream, records in held.items():
                for kind, payload, done in records:
                    self.put(kind, stream, payload, done)


class Durability:
    """What of one keeper's log is on disk.

    Args:
        as the attributes.

    Attributes:
        told: called when more is on disk; the keeper's owner then applies what `Keeper.wrote` returns, and
            acknowledges.
        placed: is told where entries lie, before that: for an owner whose checkpoints name their records.
        flushed: index up to which the log, as it is now, is on disk.
        known: committed, as far as this keeper knows.
        whole: what was taken in an update is on disk, by a checkpoint; nothing is acknowledged before.
    """

    __slots__ = (
        "_asked", "_pending", "_stream", "_updates", "_writer", "flushed", "known", "placed", "told", "whole",
    )  # fmt: skip

    def __init__(
        self, stream: str, writer: RecordWriter, told: Callable[[], object], placed: Placed | None = None
    ) -> None:
        self.flushed = 0
        self.known = 0
        self.whole = True
        self._stream = stream
        self._writer = writer
        self.told = told
        self.placed = placed
        self._asked = 0  # up to here the log is written, or handed out to be
        self._updates = 0  # begun here
        # for each record on its way: up to where the log is on disk with it; its first index, entries, bytes
        self._pending: deque[list[int]] = deque()

    # ---- the log

    def appended(self, frame: Append, end: int, known: int) -> int:
        """The log reaches up to `end` now, and is known committed up to `known`: write what is new; returns up to where
        it may be handed out."""
        if known > self.known:
            self.known = known
        if end > self._asked:
            first = self._asked + 1
            entries = frame.entries[self._asked - frame.previous :]
            self._asked = end
            payload = encode_record(EntriesRecord(first, self.known, entries))
            self._pending.append([end, first, len(entries), len(payload)])
            grows = any(entry.origin and entry.event[1:2] == ENQUEUE for entry in entries)
            self._writer.put(ENTRIES, self._stream, payload, self._written, grows)
        return self.flushed if self.flushed < self.known else self.known

    def _written(self, lsn: int) -> None:
        end, first, count, size = self._pending.popleft()
        if self.placed is not None:
            self.placed(first, count, lsn, size)
        if end > self.flushed:
            self.flushed = end
            self.told()

    def dropped(self, index: int) -> None:
        """The log is cut before `index`: what is on disk behind that, or on its way there, is no longer the log."""
        self._begin(index - 1, index - 1)

    def _begin(self, end: int, on_disk: int) -> None:
        """The log ends at `end`, and records on their way bring it to disk no further than up to `on_disk`."""
        self._asked = end
        self.flushed = min(self.flushed, on_disk)
        for upto in self._pending:
            upto[0] = min(upto[0], on_disk)

    # ---- what comes as a whole

    def resumed(self, end: int, known: int) -> None:
        """The log was read from disk up to `end`."""
        self.flushed = self._asked = end
        self.known = min(known, end)

    def restored(self, index: int) -> None:
        """An update has brought what the entries up to `index` have made; none of it is on disk yet."""
        self._begin(index, 0)
        self._updates += 1
        self.flushed, self.known, self.whole = index, index, not index

    def checkpoint(self, record: CheckpointRecord, done: OnDisk = lambda lsn: None) -> int:
        """Write a checkpoint: what was taken in an update counts once one that was written behind it is on disk.

        Returns:
            Its size in bytes.
        """
        payload, updates = encode_record(record), self._updates

        def on_disk(lsn: int) -> None:
            done(lsn)
            if updates == self._updates:
                self.whole = True
                self.told()

        self._writer.put_ahead(CHECKPOINT, self._stream, payload, on_disk)
        return len(payload)

    def tail(self, record: EntriesRecord) -> None:
        """Write what is held behind a checkpoint again, right behind that: of what has no room yet, nothing."""
        held = self._writer.held(self._stream)
        upto = self._pending[-held][1] - 1 if held else self._asked
        entries = record.entries[: max(upto + 1 - record.first, 0)]
        if not entries:
            return
        payload = encode_record(EntriesRecord(record.first, record.commit, entries))
        first, count = record.first, len(entries)

        def on_disk(lsn: int) -> None:
            if self.placed is not None:
                self.placed(first, count, lsn, len(payload))

        self._writer.put_ahead(ENTRIES, self._stream, payload, on_disk)


class Promises:
    """The promises of one process, for all its logs (K1').

    Args:
        promised: the ballot that the store has on disk.
    """

    __slots__ = ("_answers", "_asked", "_flushed", "_writer")

    def __init__(self, writer: RecordWriter, promised: Ballot = ZERO) -> None:
        self._writer = writer
        self._asked = promised
        self._flushed = promised
        self._answers: dict[Callable[[], object], None] = {}

    def keep(self, ballot: Ballot) -> None:
        """Promise it; answers under the ballot before are not given any more."""
        if ballot > self._asked:
            self._asked = ballot
            self._answers.clear()
            payload = encode_record(PromiseRecord(ballot))
            self._writer.put(PROMISE, "", payload, lambda lsn: self._kept(ballot))

    def kept(self, ballot: Ballot) -> bool:
        """Whether the promise is on disk."""
        return ballot <= self._flushed

    def when_kept(self, ballot: Ballot, answer: Callable[[], object]) -> None:
        """Give the answer once the promise of `ballot` is on disk: now, if it is."""
        if ballot <= self._flushed:
            answer()
        elif ballot == self._asked:
            self._answers[answer] = None

    def _kept(self, ballot: Ballot) -> None:
        self._flushed = max(self._flushed, ballot)
        if ballot == self._asked:
            answers, self._answers = self._answers, {}
            for answer in answers:
                answer()
