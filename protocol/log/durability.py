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
        self._gathered.append((kind, stream, payload))
        self._waiting.append(done)

    @property
    def idle(self) -> bool:
        """All that was to be written is on disk."""
        return not self._waiting and not self._held

    def gathered(self) -> Write | None:
        """The write of all that has gathered, to be sent now; None if nothing has."""
        if not self._gathered:
            return None
        self._number += 1
        records, self._gathered = self._gathered, []
        return Write(self._number, records)

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
        told: called when more is; the keeper's owner then applies what `Keeper.wrote` returns, and acknowledges.

    Attributes:
        flushed: index up to which the log, as it is now, is on disk.
        known: committed, as far as this keeper knows.
        whole: what was taken in an update is on disk, by a checkpoint; nothing is acknowledged before.
    """

    __slots__ = ("_asked", "_checkpoints", "_pending", "_stream", "_told", "_writer", "flushed", "known", "whole")

    def __init__(self, stream: str, writer: RecordWriter, told: Callable[[], object]) -> None:
        self.flushed = 0
        self.known = 0
        self.whole = True
        self._stream = stream
        self._writer = writer
        self._told = told
        self._asked = 0  # up to here the log is written, or handed out to be
        self._checkpoints = 0  # on their way
        self._pending: deque[list[int]] = deque()  # for each record on its way: up to where the log is on disk with it

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
            self._pending.append([end])
            payload = encode_record(EntriesRecord(first, self.known, entries))
            grows = any(entry.origin and entry.event[1:2] == ENQUEUE for entry in entries)
            self._writer.put(ENTRIES, self._stream, payload, self._written, grows)
        return self.flushed if self.flushed < self.known else self.known

    def _written(self, lsn: int) -> None:
        (end,) = self._pending.popleft()
        if end > self.flushed:
            self.flushed = end
            self._told()

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
        self.flushed, self.known, self.whole = index, index, not index

    def checkpoint(self, record: CheckpointRecord) -> None:
        """Write a checkpoint: what was taken in an update counts once it is on disk, and nothing older than that."""
        self._checkpoints += 1
        self._writer.put(CHECKPOINT, self._stream, encode_record(record), self._checkpointed)

    def _checkpointed(self, lsn: int) -> None:
        self._checkpoints -= 1
        if not self._checkpoints:
            self.whole = True
            self._told()


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
