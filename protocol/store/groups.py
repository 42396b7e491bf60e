"""Group commit: what has come is flushed together, one group at a time, and the next one gathers meanwhile.

No timer and no least size: a flush that takes long makes the next group large (DeWitt et al. 1984; PostgreSQL without
commit delay). A group is all writes up to a flush; nothing of it is answered before all of it is on disk.
"""

from __future__ import annotations

from typing import NamedTuple

from ..wire.records import CLOSED, PROMISE
from ..wire.store_frames import Write, Written
from .host import MESSAGES, TX, LogRecord, log_of

Place = tuple[str, int]
"""A record of a group: its log, and which one there."""


class Writer:
    """A process that is linked, until its link is gone: the next one of that name is another.

    Attributes:
        peer: its name.
        number: of its last write.
        linked: it can still be told.
    """

    __slots__ = ("linked", "number", "peer")

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.number = 0
        self.linked = True


class Writing(NamedTuple):
    """One write in a group: whose, its number, each record's place (None for one that is dropped), and what its writer
    said of its live bytes."""

    writer: Writer
    number: int
    places: list[Place | None]
    live_bytes: dict[str, int]


class Group:
    """Records that go to disk together.

    Attributes:
        batches: log -> its records, in order; a log that gets none is not here.
        writes: the writes they came with, in order.
        takes: (stream, peer, life): those that wait for records of theirs in this group.
        size: bytes of the payloads.
    """

    def __init__(self) -> None:
        self.batches: dict[str, list[LogRecord]] = {}
        self.writes: list[Writing] = []
        self.takes: list[tuple[str, str, int]] = []
        self.size = 0
        self._streams: set[str] = set()

    def __contains__(self, stream: str) -> bool:
        return stream in self._streams

    def put(self, record: LogRecord) -> Place:
        kind, stream, payload = record
        self._streams.add(stream)
        self.size += len(payload)
        if kind in (PROMISE, CLOSED):  # these count for both logs; a promise is kept by either (`durable.md` 3, K1')
            self._put(MESSAGES, record)
            return self._put(TX, record)
        return self._put(log_of(stream), record)

    def _put(self, log: str, record: LogRecord) -> Place:
        batch = self.batches.setdefault(log, [])
        batch.append(record)
        return log, len(batch) - 1


class Groups:
    """Args:
        most_bytes: a group takes no further write once it has so much.

    Attributes:
        gathering: the next group. in_flight: the one that is being flushed, if any.
        number: of the last group that was given out.
        flushed: how many groups, with records, are on disk.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self.gathering: list[Group] = []
        self.in_flight: Group | None = None
        self.number = 0
        self.flushed = 0

    def write(self, writer: Writer, write: Write, dropped: set[str]) -> None:
        """Take a write into the group that gathers. `dropped`: streams whose records are not written."""
        group = self._group()
        places = [group.put(record) if record[1] not in dropped else None for record in write.records]
        live_bytes = {stream: size for stream, size in write.live_bytes.items() if stream not in dropped}
        group.writes.append(Writing(writer, write.number, places, live_bytes))

    def _group(self) -> Group:
        if not self.gathering or self.gathering[-1].size >= self._most_bytes:
            self.gathering.append(Group())
        return self.gathering[-1]

    def wait(self, stream: str, peer: str, life: int) -> bool:
        """Have a taker wait for the records of its stream that are not on disk yet; False: there are none."""
        for group in [*reversed(self.gathering), *([self.in_flight] if self.in_flight is not None else [])]:
            if stream in group:
                group.takes.append((stream, peer, life))
                return True
        return False

    def next(self) -> Group | None:
        """The next group to flush: none while one is in flight, or nothing has come."""
        if self.in_flight is not None or not self.gathering:
            return None
        return self.begin(self.gathering.pop(0))

    def begin(self, group: Group) -> Group:
        self.number += 1
        self.in_flight = group
        return group

    def done(self) -> Group:
        """The group in flight is on disk."""
        assert self.in_flight is not None
        group, self.in_flight = self.in_flight, None
        self.flushed += any(group.batches.values())
        return group


def answers(group: Group, lsns: dict[str, list[int]]) -> dict[str, Written]:
    """What each writer of a flushed group is told, if it is still there."""
    told: dict[str, Written] = {}
    for writer, number, places, _ in group.writes:
        if writer.linked:
            found = told[writer.peer].lsns if writer.peer in told else []
            found += [lsns[place[0]][place[1]] if place is not None else 0 for place in places]
            told[writer.peer] = Written(number, found)
    return told
