"""A disk for a store's machine, of lists: it carries out `Commit` and `Advance`, loses power, and comes back.

What is written is not yet flushed; a power cut keeps any first part of that. Containers are small, so that tails move.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mantamq.protocol.store.host import MESSAGES, TX, Advance, Commit, Committed, FoundLog, Recovered
from mantamq.protocol.store.index import LogIndex
from mantamq.protocol.wire.events import ZERO, Ballot
from mantamq.protocol.wire.records import CheckpointRecord, StoreRecord, decode_record

FIRST = 64
"""Bytes of a log's header: no record has LSN 0."""


class OnDisk(NamedTuple):
    lsn: int
    kind: int
    stream: str
    payload: bytes
    undo: int

    def read(self) -> StoreRecord | None:
        return decode_record(self.kind, self.payload)


class ToyLog:
    """One log. `flushed`: how many of its records are on disk for good."""

    def __init__(self, container_bytes: int) -> None:
        self.container_bytes = container_bytes
        self.records: list[OnDisk] = []
        self.flushed = 0
        self.base = 0
        self.end = FIRST
        self.header: Ballot = ZERO
        self.proofs = 0
        self._last: dict[str, int] = {}

    def write(self, batch: list[tuple[int, str, bytes]], promised: Ballot) -> list[int]:
        lsns = []
        for kind, stream, payload in batch:
            if self.end // self.container_bytes != (self.end + len(payload)) // self.container_bytes:
                self.header = promised  # a new container begins
            self.records.append(OnDisk(self.end, kind, stream, payload, self._last.get(stream, 0)))
            self._last[stream] = self.end
            lsns.append(self.end)
            self.end += 16 + len(payload)
        self.proofs += not batch
        return lsns

    def found(self) -> FoundLog:
        index = LogIndex()
        for record in self.records:
            index.note(*record[:4], record.undo)
        return FoundLog(index, self.base, self.end, self.container_bytes, self.header)


class ToyDisk:
    def __init__(self, container_bytes: int = 1024) -> None:
        self.logs = {TX: ToyLog(container_bytes), MESSAGES: ToyLog(container_bytes)}

    def write(self, commit: Commit) -> Committed:
        """All but the flush. `Committed` may be stepped once `flush` has returned."""
        lsns = {log: self.logs[log].write(batch, commit.promised) for log, batch in commit.batches.items()}
        return Committed(commit.number, lsns, {log: self.logs[log].end for log in lsns})

    def flush(self) -> None:
        for log in self.logs.values():
            log.flushed = len(log.records)

    def carry_out(self, commit: Commit) -> Committed:
        committed = self.write(commit)
        self.flush()
        return committed

    def advance(self, effect: Advance) -> None:
        log = self.logs[effect.log]
        log.base = effect.lsn
        kept = [record for record in log.records if record.lsn >= effect.lsn]
        log.flushed -= len(log.records) - len(kept)
        log.records = kept

    def cut_power(self, kept: Callable[[int], int] = lambda unflushed: 0) -> None:
        """What was not flushed is lost, but for the first `kept(how many)` records."""
        for log in self.logs.values():
            left = log.flushed + kept(len(log.records) - log.flushed)
            log.records = log.records[:left]
            log.end = log.records[-1].lsn + 16 + len(log.records[-1].payload) if log.records else max(log.base, FIRST)
            log._last = {record.stream: record.lsn for record in log.records}

    def recovered(self) -> Recovered:
        return Recovered({name: log.found() for name, log in self.logs.items()})

    def chain(self, log: str, last: int, checkpoint: int) -> list[OnDisk]:
        """A stream's records from its checkpoint (or its first) to `last`, found by their undo pointers."""
        by_lsn = {record.lsn: record for record in self.logs[log].records}
        found: list[OnDisk] = []
        while last:
            record = by_lsn.get(last)
            if record is None:
                break
            found.append(record)
            if record.lsn == checkpoint:
                break
            last = record.undo
        return found[::-1]

    def before(self, log: str, checkpoint: int) -> list[OnDisk]:
        """A stream's records before its checkpoint, as far as they are there."""
        by_lsn = {record.lsn: record for record in self.logs[log].records}
        found: list[OnDisk] = []
        record = by_lsn.get(checkpoint)
        while record is not None and (record := by_lsn.get(record.undo)) is not None:
            found.append(record)
        return found[::-1]

    def read(self, log: str, last: int, checkpoint: int) -> list[OnDisk]:
        """As a shell reads a stream: the checkpoint, what it names, and what is behind it.

        Raises:
            KeyError: something of it is not there.
        """
        found = self.chain(log, last, checkpoint)
        by_lsn = {record.lsn: record for record in self.logs[log].records}
        assert found[0].lsn == checkpoint if checkpoint else not found[0].undo, "the chain is broken"
        head = found[0].read()
        named = {*head.behind, *head.extents[2::4]} if isinstance(head, CheckpointRecord) else set()
        return [found[0], *(by_lsn[lsn] for lsn in sorted(named)), *found[1:]]
