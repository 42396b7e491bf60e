"""A disk's logs read by the tables of `store/log/README.md` alone: what a voter said can be compared with what is there.

It shares no code with the store nor with the protocol, but for the checksum's and msgpack's libraries: a bug in how the
product writes cannot hide behind the same bug in how it reads. It is simple where the product must be fast, and knows
records by their numbers and fields by their places, as `records.py` lists them.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import google_crc32c
import msgpack

PAGE = 4096
HEADER = struct.Struct("<8sII16sQQQQQQQ")  # the checksum follows
BATCH = struct.Struct("<3sB8sQQIIQQq")
RECORD = struct.Struct("<IIBBHQQ")
WHOLE, FIRST, MIDDLE, LAST = range(4)
OPENED, ENTRIES, MESSAGE, CHECKPOINT, PROMISE, DROPPED, CLOSED = range(1, 8)
Ballot = tuple[int, int]


class Header(NamedTuple):
    log_id: bytes
    number: int
    size: int
    base: int
    ballot: Ballot
    ends: int
    proven: int


class Batch(NamedTuple):
    """`records`: those that verify. `rotten`: LSNs where one should be, and none verifies."""

    part: int
    lsn: int
    group: int
    proven: int
    base: int
    end: int
    records: list[Record]
    rotten: list[int]


class Record(NamedTuple):
    lsn: int
    kind: int
    part: int
    undo: int
    stream: str
    payload: bytes


@dataclass
class ParsedLog:
    """A log as its bytes tell it.

    Attributes:
        base, end: LSNs: nothing below is needed; where it ends.
        last: LSN of the last group.
        records: those of whole groups, from the base on, rising.
        ballot: the highest in the containers' headers.
        containers: how many count.
        container_bytes: their size.
        holes: LSNs where no batch verifies, or no record of one, though they were flushed: something says so.
    """

    base: int = 0
    end: int = 0
    last: int = 0
    records: list[Record] = field(default_factory=list)
    ballot: Ballot = (0, 0)
    containers: int = 0
    container_bytes: int = 0
    holes: list[int] = field(default_factory=list)


@dataclass
class StreamOnDisk:
    """What one voter has of a stream, by its records.

    Attributes:
        lives: of all `Opened` records, in order; but not of those by which a life gives its own log up.
        log_inc, blank: of the last.
        base: index of the last checkpoint; 0: none.
        entries: index -> (ballot, seq, event) of those behind it.
        commit: known committed, by what was written.
        low: the least LSN that the last checkpoint names.
        checkpoint_lsn: where that is.
    """

    lives: list[int] = field(default_factory=list)
    log_inc: int = 0
    blank: bool = False
    base: int = 0
    base_ballot: Ballot = (0, 0)
    entries: dict[int, tuple[Ballot, int, bytes]] = field(default_factory=dict)
    commit: int = 0
    low: int = 0
    checkpoint_lsn: int = 0

    @property
    def end(self) -> int:
        return self.base + len(self.entries)

    def ballot_at(self, index: int) -> Ballot | None:
        """That of the entry at an index, None where it is not known."""
        if index == self.base:
            return self.base_ballot
        return self.entries[index][0] if index in self.entries else None


# ---- bytes


class ParsedContainer(NamedTuple):
    """What was read of one, and from which bytes up to where. `behind`: what could not be read behind its last batch, a
    torn end in the log's last container only."""

    data: bytes
    stop: int
    batches: list[Batch]
    holes: list[int]
    behind: list[int]


@dataclass
class Known:
    """What was read of a log before, for one who asks again and again: what is the same is not read once more.

    Attributes:
        containers: by their numbers.
        batches: of whole groups, from the log's first on; not those of its last group.
        records: of these, whether they are needed or not.
    """

    containers: dict[int, ParsedContainer] = field(default_factory=dict)
    batches: list[Batch] = field(default_factory=list)
    records: list[Record] = field(default_factory=list)


def parse_log(files: Mapping[str, bytes], known: Known | None = None) -> ParsedLog:
    """A log.

    Args:
        files: name -> content of each file in its folder.
        known: what was read of it before.
    """
    found = ParsedLog()
    contents = {int(name[:16]): data for name, data in files.items() if len(name) == 20 and name[:16].isdigit()}
    read = {number: _header(data[: HEADER.size + 4]) for number, data in contents.items()}
    headers = {number: header for number, header in read.items() if header is not None and header.number == number}
    if not headers:
        return found
    newest = headers[max(headers)]
    headers = {number: one for number, one in headers.items() if one.log_id == newest.log_id}
    found.ballot = max(header.ballot for header in headers.values())
    found.base = max(header.base for header in headers.values())
    # A header may rot, and the batches behind it say themselves where they belong.
    for number in [one for one in contents if one < newest.number and read[one] is None]:
        end = (number + 1) * newest.size
        headers[number] = newest._replace(number=number, base=0, ballot=(0, 0), ends=end, proven=0)
    found.container_bytes = newest.size
    stops, ends = {}, (newest.number + 1) * newest.size
    for number in sorted(headers, reverse=True):
        stops[number] = min((number + 1) * newest.size, ends)
        ends = min(ends, headers[number].ends)
    batches: list[Batch] = []
    known = Known() if known is None else known
    for number in sorted(headers):
        container = known.containers.get(number)
        if container is None or (container.data, container.stop) != (contents[number], stops[number]):
            container = _container(contents[number], headers[number], stops[number], container)
            known.containers[number] = container
        last = number == newest.number  # all before the last container was flushed when that was made
        some = _but_torn(container.batches, newest.proven) if last else container.batches
        batches += some
        found.end = some[-1].end if some else number * newest.size + PAGE
        found.holes += container.holes + (container.behind if not last else [])
        found.holes += [lsn for batch in some for lsn in batch.rotten]
    found.base = max([found.base, *(batch.base for batch in batches)])
    found.containers = sum(stop > max(number * newest.size + PAGE, found.base) for number, stop in stops.items())
    found.containers = max(found.containers, 1)
    _gather(batches, found, known)
    found.holes = [hole for hole in found.holes if hole >= found.base]
    return found


@lru_cache(maxsize=1024)
def _header(data: bytes) -> Header | None:
    if len(data) < HEADER.size + 4:
        return None
    magic, format_, _, log_id, number, size, base, counter, uid, ends, proven = HEADER.unpack_from(data)
    if magic != b"MANTALOG" or format_ != 1 or not _checks(data):
        return None
    return Header(log_id, number, size, base, (counter, uid), ends, proven)


def _checks(data: bytes) -> bool:
    """Whether the last four bytes are the checksum of those before."""
    return google_crc32c.value(bytes(data[:-4])) == int.from_bytes(data[-4:], "little")


def _container(data: bytes, header: Header, stop: int, before: ParsedContainer | None) -> ParsedContainer:
    """The batches of a container that end at or before `stop`. `before`: the container as it was read last; where all is
    the same up to the end of its last batch, and no hole is in it, it is read on from there."""
    origin, at = header.number * header.size, PAGE
    batches: list[Batch] = []
    holes: list[int] = []
    if before is not None and before.batches and not before.holes and before.stop == stop:
        read = before.batches[-1].end - origin
        if data.startswith(before.data[:read]):
            batches, at = [*before.batches], read
    behind: list[int] = []
    while origin + at < stop:
        batch = _batch(data, at, origin, header.log_id)
        if batch is None or batch.end > stop:
            behind.append(origin + at)
            at += PAGE
            continue
        holes += behind
        behind = []
        batches.append(batch)
        at = batch.end - origin
    return ParsedContainer(data, stop, batches, holes, behind)


def _but_torn(batches: list[Batch], proven: int) -> list[Batch]:
    """The batches of a log's last container up to its torn end: that of which a record does not verify was torn, if
    nothing says that it was flushed. If something does, a record has rotted, and the others are as they were."""
    proven = max([proven, *(batch.proven for batch in batches)])
    torn = [at for at, batch in enumerate(batches) if batch.rotten and batch.end > proven]
    return batches[: torn[0]] if torn else batches


def _batch(data: bytes, at: int, origin: int, log_id: bytes) -> Batch | None:
    head = data[at : at + BATCH.size + 4]
    if len(head) < BATCH.size + 4 or not _checks(head):
        return None
    magic, part, log, lsn, group, length, count, proven, base, _ = BATCH.unpack_from(head)
    if magic != b"MTB" or log != log_id[:8] or lsn != origin + at:
        return None
    first = at + BATCH.size + 4
    end = origin + -(-(first + length) // PAGE) * PAGE
    records, rotten = _records(data[first : first + length], origin + first)
    if len(records) + len(rotten) > count or (not rotten and len(records) < count):
        return None
    return Batch(part, lsn, group, proven, base, end, records, rotten)


def _records(data: bytes, lsn: int) -> tuple[list[Record], list[int]]:
    """The records that verify, and where there are others. Each says its place: so what stands behind one that has
    rotted is found, though that no longer says how long it is."""
    records: list[Record] = []
    rotten: list[int] = []
    at, whole = 0, True
    while at < len(data):
        length, record = _record(data, at, lsn + at)
        if record is not None:
            records.append(record)
        elif whole:
            rotten.append(lsn + at)
        whole = record is not None
        at += -(-length // 8) * 8
    return records, rotten


def _record(data: bytes, at: int, lsn: int) -> tuple[int, Record | None]:
    """A record and its length; where none verifies, how far off the next may be."""
    if len(data) - at < RECORD.size:
        return 8, None
    length, sum_, kind, part, zeros, place, undo = RECORD.unpack_from(data, at)
    body = data[at + RECORD.size : at + RECORD.size + length]
    if len(body) < length or zeros or place != lsn:
        return 8, None
    if google_crc32c.value(data[at + 8 : at + RECORD.size + length]) != sum_:
        return 8, None
    unpacker = msgpack.Unpacker()
    unpacker.feed(body)
    stream = unpacker.unpack()
    return RECORD.size + length, Record(place, kind, part, undo, stream, body[unpacker.tell() :])


def _gather(batches: list[Batch], found: ParsedLog, known: Known) -> None:
    """The records of whole groups; records in parts are put together. A group with another behind it was whole when it
    was flushed: of one that has lost a batch since, the other batches' records count."""
    done = len(known.batches)
    behind = batches[done:]
    goes_on = done and behind and behind[0].part not in (WHOLE, FIRST) and behind[0].group == known.batches[-1].group
    if not behind or goes_on or batches[:done] != known.batches:
        known.batches, known.records, behind = [], [], batches
    groups: list[list[Batch]] = []
    for batch in behind:
        if batch.part in (WHOLE, FIRST) or not groups or groups[-1][0].group != batch.group:
            groups.append([])
        groups[-1].append(batch)
    found.last = groups[-1][0].lsn if groups else 0
    for group in groups[:-1]:
        known.batches += group
        known.records += _records_of(group)
    last: list[Record] = []
    if groups and groups[-1][-1].part not in (WHOLE, LAST):
        found.end = min(found.end, groups[-1][0].group)
    elif groups:
        last = _records_of(groups[-1])
    found.records = [
        *known.records[bisect_left(known.records, found.base, key=_lsn) :],
        *(record for record in last if record.lsn >= found.base),
    ]


def _lsn(record: Record) -> int:
    return record.lsn


def _records_of(group: list[Batch]) -> list[Record]:
    """The whole records of a group, rising."""
    records: list[Record] = []
    parts: list[Record] = []
    for record in [record for batch in group for record in batch.records]:
        if record.part == WHOLE:
            parts = [record]
        elif record.part == FIRST:
            parts = [record]
            continue
        elif parts and parts[-1].lsn == record.undo:
            parts.append(record)
            if record.part != LAST:
                continue
        else:
            continue  # its first part is below the base
        if record.part == WHOLE:
            records.append(record)
        else:
            records.append(parts[0]._replace(part=WHOLE, payload=b"".join(one.payload for one in parts)))
    return records


# ---- meaning


def streams_of(
    log: ParsedLog, before: tuple[ParsedLog, dict[str, StreamOnDisk]] | None = None
) -> dict[str, StreamOnDisk]:
    """The streams in a log. `before`: the log as it was, and its streams; if it has only grown they grow with it."""
    streams: dict[str, StreamOnDisk] = {}
    records = log.records
    if before is not None and before[0].records == records[: len(before[0].records)]:
        streams, records = before[1], records[len(before[0].records) :]
    for record in records:
        if record.kind == DROPPED:
            streams.pop(record.stream, None)
        elif record.stream:
            _note(streams.setdefault(record.stream, StreamOnDisk()), record)
    return streams


def _note(stream: StreamOnDisk, record: Record) -> None:
    if record.kind not in (OPENED, ENTRIES, CHECKPOINT):
        return
    said: list[Any] = msgpack.unpackb(record.payload, strict_map_key=False)
    if record.kind == OPENED:
        life, log_inc, blank, *_ = said
        if life == log_inc:
            stream.base, stream.base_ballot, stream.entries, stream.commit = 0, (0, 0), {}, 0
            stream.checkpoint_lsn = stream.low = 0
        if stream.lives[-1:] != [life] or not blank:
            stream.lives.append(life)
        stream.log_inc, stream.blank = log_inc, blank
    elif record.kind == ENTRIES:
        first, commit, entries, *_ = said
        if first > stream.end + 1:
            return  # nothing leads to it
        for index in [index for index in stream.entries if index >= first]:
            del stream.entries[index]
        for index, (ballot, seq, _, _, _, event, *_) in enumerate(entries, first):
            if index > stream.base:
                stream.entries[index] = (tuple(ballot), seq, event)
        stream.commit = max(stream.commit, commit)
    else:
        low, _, _, log_inc, blank, index, ballot, _, _, _, _, _, commit, *_ = said
        stream.entries = {at: entry for at, entry in stream.entries.items() if at > index}
        stream.base, stream.base_ballot, stream.log_inc, stream.blank = index, tuple(ballot), log_inc, blank
        stream.commit = max(stream.commit, commit)
        stream.low, stream.checkpoint_lsn = low, record.lsn


def promised_by(logs: Mapping[str, ParsedLog]) -> Ballot:
    """The highest promise in any record or header of a store's logs."""
    found = [log.ballot for log in logs.values()]
    for log in logs.values():
        found += [tuple(msgpack.unpackb(one.payload)[0]) for one in log.records if one.kind == PROMISE]
    return max(found, default=(0, 0))
