"""Reading a log from its base to its end: every record verified, whole groups only, damage as ranges of LSNs.

Three things are checked beside checksums and places. Containers follow one another: a header says where the log
before it ends, and if no file holds that, what is missing is damage. The parts of a record that went over containers
name the part before. And each stream's records are a chain (CLFS' undo-prev): a record whose predecessor was not
found shows which stream has lost something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from .layout import BATCH_HEAD, FIRST, LAST, PAGE, RECORD_HEAD, WHOLE, BatchHeader, LogRecord, next_record, read_record
from .survey import Hole, Survey


class Found(NamedTuple):
    """A record that was written, flushed and found as it was.

    Attributes:
        lsn: where it begins.
        kind: as given.
        stream: as given.
        payload: as given, in one piece.
        undo: LSN of the stream's record before, 0 for none.
        time_us: of its batch.
    """

    lsn: int
    kind: int
    stream: str
    payload: bytes
    undo: int
    time_us: int


@dataclass
class Damage:
    """LSNs from `first` up to `end` that were flushed, and are not as they were. No record that begins there is served.

    Attributes:
        first: where it begins.
        end: where what verifies begins again.
        streams: streams of which a record may have been there. Those whose next record, behind the damage, names one
            before it are not among them; a stream of which all records lay in it is not known here.
    """

    first: int
    end: int
    streams: set[str] = field(default_factory=set)


class _Begun(NamedTuple):
    """A record of which some parts were read."""

    first: LogRecord
    pieces: list[bytes]
    last_lsn: int


class Scan:
    """Iterates over what a log holds, once. Complete only when it is exhausted.

    Attributes:
        damage: what is damaged, rising; known up to where has been read.
        torn: whether a batch or group that was never acknowledged was found, and left out.
        base: LSN, below which nothing is needed; records below it are not served.
        end: LSN where the log ends.
    """

    def __init__(self, survey: Survey, done: Callable[[dict[str, int]], None] = lambda newest: None) -> None:
        """Read what a survey has found.

        Args:
            survey: of the log.
            done: told the LSN of each stream's newest record, when all is read.
        """
        self._survey = survey
        self._done = done
        self._newest: dict[str, int] = {}  # stream -> LSN of its newest record so far
        self._begun: _Begun | None = None
        self._names: dict[bytes, str] = {}
        self._settled: list[set[str]] = []  # for each damage: streams of which a record behind it was read
        self.damage: list[Damage] = []
        self.torn = survey.torn
        self.base = survey.base
        self.end = survey.end
        self._reading = self._read()

    def __iter__(self) -> Iterator[Found]:
        return self._reading

    def _read(self) -> Iterator[Found]:
        survey, upto = self._survey, self.base
        for number in survey.numbers:
            start, stop = survey.start(number), min(survey.stops[number], self.end)
            if not survey.counts(number) and number != survey.numbers[-1]:
                continue
            header = survey.headers[number]
            if header is None:
                self._damaged(start - PAGE, start)
            elif min(header.ends, self.end) > upto:
                self._damaged(upto, header.ends)
            for one in survey.walk(number, stop):
                if isinstance(one, Hole):
                    if one.end > self.base:
                        self._damaged(max(one.first, self.base), one.end)
                elif one.end > self.base:
                    yield from self._batch(one)
            upto = max(upto, stop)
        if self._begun:
            self._broken(self._begun.first.stream, self._begun.first.lsn)
        self.damage.sort(key=lambda damage: damage.first)
        survey.close()
        self._done(self._newest)

    def _batch(self, batch: BatchHeader) -> list[Found]:
        data, at, origin, found = self._survey.payload(batch), 0, batch.lsn + BATCH_HEAD, []
        names, newest, base = self._names, self._newest, self.base
        while at < batch.payload_bytes:
            record = read_record(data, at, origin + at, names)
            if record is None:
                there = next_record(data, at + 8, origin, names)
                there = there if there < len(data) else batch.payload_bytes
                if origin + there > base:
                    self._damaged(max(origin + at, base), origin + there)
                at = there
                continue
            at += record.size_bytes
            lsn, kind, part, undo, stream, payload, _ = record
            if part == WHOLE and not self.damage and self._begun is None:  # all of a healthy log comes this way
                if undo != newest.get(stream, 0) and undo >= base:
                    self._broken(stream, undo)
                newest[stream] = lsn
                if lsn >= base:
                    found.append(Found(lsn, kind, stream, payload, undo, batch.time_us))
            elif (whole := self._part(record, batch.time_us)) and whole.lsn >= base:
                found.append(whole)
        return found

    def _part(self, record: LogRecord, time_us: int) -> Found | None:
        """A record, or a part of one: returns what is whole now."""
        begun, self._begun = self._begun, None
        if record.part in (WHOLE, FIRST):
            if begun:
                self._broken(begun.first.stream, begun.first.lsn)
            self._chain(record)
            if record.part == WHOLE:
                return Found(record.lsn, record.kind, record.stream, record.payload, record.undo, time_us)
            self._begun = _Begun(record, [record.payload], record.lsn)
            return None
        if begun is None or begun.last_lsn != record.undo:
            if record.undo >= self.base:
                self._broken(record.stream, record.undo)
            return None
        begun.pieces.append(record.payload)
        if record.part != LAST:
            self._begun = begun._replace(last_lsn=record.lsn)
            return None
        first = begun.first
        return Found(first.lsn, first.kind, first.stream, b"".join(begun.pieces), first.undo, time_us)

    # ---- damage

    def _damaged(self, first: int, end: int) -> None:
        """These places are damaged; and from its beginning on a record of which a part was there."""
        settled: set[str] = set()
        if self._begun:
            settled.add(self._begun.first.stream)
            first, self._begun = min(first, self._begun.first.lsn), None
        self.damage.append(Damage(first, end, settled | set(self._newest)))
        self._settled.append(settled)

    def _chain(self, record: LogRecord) -> None:
        """Follow a stream's chain, and learn of each damage whether the stream was in it."""
        lsn, _, _, undo, stream, *_ = record
        for damage, settled in zip(self.damage, self._settled, strict=True):
            if stream not in settled:
                settled.add(stream)
                if undo < damage.first:
                    damage.streams.discard(stream)
                else:  # the chain leads into this one, or into a later one and nobody knows where it goes on
                    damage.streams.add(stream)
        if undo != self._newest.get(stream, 0) and undo >= self.base:
            self._broken(stream, undo)
        self._newest[stream] = lsn

    def _broken(self, stream: str, lsn: int) -> None:
        """A record of a stream, or a part of one, that was not found: in what is known as damaged, or a damage more."""
        for damage, settled in zip(self.damage, self._settled, strict=True):
            if damage.first <= lsn < damage.end:
                damage.streams.add(stream)
                settled.add(stream)
                return
        self.damage.append(Damage(lsn, lsn + RECORD_HEAD, {stream}))
        self._settled.append({stream})
