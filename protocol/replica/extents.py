"""Where the bodies of a queue's live messages lie on disk: an extent map, as a log-structured file system has one.

A body is in the log once: in the record of the entries that brought it, or in the one that moved it forward
(`durable.md` 0, 2). An extent is one enqueue event or one part of a move, not one message, so a dequeue costs nothing
here: what an extent covers and the queue does not hold any more is dead. The bodies of an event lie against the end of
its extent: of a partly repeated enqueue only the last messages were applied. So an extent may lose its front, and never
its end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator

from ..errors import BAD_FRAME, PeerError
from ..ranges import RangeSet, pairs
from ..wire.events import Enqueue, decode_event
from ..wire.records import EntriesRecord, MessageRecord, StoreRecord


class EntryPlaces:
    """Where the entries lie that are on disk and not applied yet, by the LSNs of `Written`."""

    __slots__ = ("_records",)

    def __init__(self) -> None:
        self._records: deque[list[int]] = deque()  # [first index, last index, LSN], rising

    def wrote(self, first: int, count: int, lsn: int) -> None:
        """A record with entries from index `first` on is on disk: it overrules all that was there from that index."""
        records = self._records
        while records and records[-1][0] >= first:
            records.pop()
        if records and records[-1][1] >= first:
            records[-1][1] = first - 1
        records.append([first, first + count - 1, lsn])

    def take(self, index: int) -> tuple[int, int]:
        """The entry at `index` is applied: the LSN of its record, and which entry in that it is; (0, 0) if it came in
        none. What lies before it is forgotten."""
        records = self._records
        while records and records[0][1] < index:
            records.popleft()
        if records and records[0][0] <= index:
            return records[0][2], index - records[0][0]
        return 0, 0


class Extents:
    """Disjoint ranges of positions, each with the record that has its bodies.

    Args:
        flat: ``[first, last, LSN, entry, ...]``, rising, as in a `CheckpointRecord`.
    """

    __slots__ = ("_entries", "_firsts", "_lasts", "_lsns")

    def __init__(self, flat: Iterable[int] = ()) -> None:
        flat = list(flat)
        self._firsts, self._lasts, self._lsns, self._entries = flat[::4], flat[1::4], flat[2::4], flat[3::4]

    def __len__(self) -> int:
        """How many extents."""
        return len(self._firsts)

    def __iter__(self) -> Iterator[tuple[int, int, int, int]]:
        """(first position, last position, LSN, entry), rising."""
        return zip(self._firsts, self._lasts, self._lsns, self._entries, strict=True)

    def flat(self) -> list[int]:
        return [number for extent in self for number in extent]

    @property
    def low(self) -> int:
        """The least LSN named; 0: none is."""
        return min(self._lsns, default=0)

    def enqueued(self, first: int, last: int, lsn: int, entry: int) -> None:
        """An enqueue event was applied, and gave its last messages these positions, behind all others."""
        self._firsts.append(first)
        self._lasts.append(last)
        self._lsns.append(lsn)
        self._entries.append(entry)

    def again(self, at: int, lsn: int, entry: int) -> None:
        """The enqueue event of extent number `at` is written again, and lies there now."""
        self._lsns[at], self._entries[at] = lsn, entry

    def moved(self, first: int, last: int, lsn: int) -> None:
        """The live messages among these positions lie in the `MessageRecord` at `lsn` now. An extent that goes on
        behind `last` keeps its rest; none may begin before `first` and reach into it."""
        low, high = self._clear(first, last)
        self._firsts[low:high] = [first]
        self._lasts[low:high] = [last]
        self._lsns[low:high] = [lsn]
        self._entries[low:high] = [0]

    def dropped(self, first: int, last: int) -> None:
        """No message among these positions is live: as `moved`, to nowhere."""
        low, high = self._clear(first, last)
        del self._firsts[low:high], self._lasts[low:high], self._lsns[low:high], self._entries[low:high]

    def _clear(self, first: int, last: int) -> tuple[int, int]:
        """The extents, by their place in the lists, that lie within these positions."""
        low, high = bisect_left(self._lasts, first), bisect_right(self._firsts, last)
        if low < high and self._lasts[high - 1] > last:
            high -= 1
            self._firsts[high] = last + 1
        return low, high

    def prune(self, live: RangeSet) -> None:
        """Forget the extents without a live message."""
        kept: list[int] = []
        for extent in self:
            found = live.at_or_after(extent[0])
            if found is not None and found[0] <= extent[1]:
                kept += extent
        self.__init__(kept)

    def behind(self, position: int) -> Iterator[tuple[int, int, int]]:
        """(first, last, LSN) of the extents that reach behind `position`."""
        start = bisect_right(self._lasts, position)
        for at in range(start, len(self._firsts)):
            yield self._firsts[at], self._lasts[at], self._lsns[at]

    def read(
        self, live: RangeSet, record_at: Callable[[int], StoreRecord | None],
        done: Callable[[int], object] = lambda lsn: None,
    ) -> dict[int, bytes]:  # fmt: skip
        """The bodies of the live messages, by position.

        Args:
            record_at: gives the record at an LSN.
            done: told each LSN when the last extent that names it is read: nothing more is asked of that record.

        Raises:
            PeerError: `bad-frame`, a record is not what the extent says; or a live message is in none.
        """
        bodies: dict[int, bytes] = {}
        moved: dict[int, dict[int, bytes]] = {}  # several extents may name one record of moved messages
        naming = Counter(self._lsns)
        for first, last, lsn, entry in self:
            wanted = live.within(first, last)
            if wanted:
                found = moved.get(lsn)
                if found is None:
                    record = record_at(lsn)
                    found = _bodies(record, first, last, entry, lsn)
                    if isinstance(record, MessageRecord):
                        moved[lsn] = found
                for a, b in wanted:
                    for position in range(a, b + 1):
                        if position not in found:
                            raise PeerError(BAD_FRAME, f"the record at {lsn} must hold the message at {position}")
                        bodies[position] = found[position]
            naming[lsn] -= 1
            if not naming[lsn]:
                moved.pop(lsn, None)
                done(lsn)
        if len(bodies) != live.count:
            raise PeerError(BAD_FRAME, f"the extents must name all {live.count} live messages, not {len(bodies)}")
        return bodies


def _bodies(record: StoreRecord | None, first: int, last: int, entry: int, lsn: int) -> dict[int, bytes]:
    """The bodies that a record has for an extent, by position."""
    if isinstance(record, MessageRecord):
        positions = (position for a, b in pairs(record.ranges) for position in range(a, b + 1))
        return dict(zip(positions, record.blobs, strict=True))
    if isinstance(record, EntriesRecord) and entry < len(record.entries):
        event = decode_event(record.entries[entry].event)
        if isinstance(event, Enqueue):
            count = last - first + 1
            if len(event.blobs) >= count:
                return dict(zip(range(first, last + 1), event.blobs[-count:], strict=True))
    raise PeerError(BAD_FRAME, f"the record at {lsn} must hold the messages {first} to {last} in its entry {entry}")
