"""What a log's directory holds, found by its headers alone: where the log begins and ends, and what counts in between.

The rule (`durable.md` 4). Each batch was written when all before it was flushed, and says so; a container's header
says up to where the log before it was flushed, and where that ends. So where no valid batch is at `x`:

- something on the disk says that `x` was flushed: it is **damage**;
- nothing does: it is the **torn tail** of a batch that was never acknowledged, and the log ends at `x`. "Damage
  followed by anything valid" would be the wrong rule: the sectors of one write reach a disk in any order.

A file that is too short is damage as well, since containers are whole before they have a number. A group of records
that went over the end of a container and has no last part was never acknowledged either, and goes whole.

Only the last container's batches are looked at here: all before it were flushed when it was made.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...protocol.errors import STORE_DAMAGED, STORE_NO_LOG, StoreError
from ..files import File, Files
from .containers import container_name, container_numbers
from .layout import (
    BATCH_HEAD,
    FIRST,
    MIDDLE,
    PAGE,
    BatchHeader,
    ContainerHeader,
    LogRecord,
    page_end,
    read_batch,
    read_container,
    read_record,
)

_WINDOW = 1 << 20


class Hole(NamedTuple):
    """LSNs from `first` up to `end` where no valid batch is."""

    first: int
    end: int


class Survey:
    """A look at a log's directory. Reads only, so it may be made of a log that another process writes.

    Attributes:
        headers: number -> header of each container, None where it is damaged.
        newest: the newest valid header.
        stops: number -> LSN up to which what a container holds counts.
        base: LSN, below which nothing is needed.
        ballot: the highest promise in any header.
        end: LSN where the log ends.
        torn: whether a batch or a group of the tail was begun and is not whole.
        again: the last batch, if it has to be written again; it ends at `end`.
    """

    def __init__(self, files: Files, folder: str) -> None:
        """Look.

        Args:
            files: the file system.
            folder: of the log.

        Raises:
            StoreError: `store-no-log`: no container is there; `store-damaged`: none has a header that verifies;
                `store-format`: one is of a format that this program does not know.
        """
        self._files = files
        self._folder = folder
        self._open: tuple[int, File] | None = None
        self.numbers = container_numbers(files.list(folder))
        if not self.numbers:
            raise StoreError(STORE_NO_LOG, f"{folder} has no log: put its files back, or start with an empty directory")
        read = {number: self._read_header(number) for number in self.numbers}
        known = [header for number, header in read.items() if header and header.number == number]
        if not known:
            raise StoreError(
                STORE_DAMAGED, f"no container in {folder} has a header that can be read: empty the directory"
            )
        self.newest = known[-1]
        self.size_bytes = self.newest.size_bytes
        alike = {one.number for one in known if (one.log_id, one.size_bytes) == (self.newest.log_id, self.size_bytes)}
        self.headers = {number: read[number] if number in alike else None for number in self.numbers}
        known = [header for header in self.headers.values() if header]
        self.stops = self._find_stops()
        self.base = max(header.base for header in known)
        self.ballot = max(header.ballot for header in known)
        self.torn = False
        self.again: BatchHeader | None = None
        self.end = self._find_end()

    def _find_stops(self) -> dict[int, int]:
        stops, ends = {}, (self.numbers[-1] + 1) * self.size_bytes
        for number in reversed(self.numbers):
            stops[number] = min((number + 1) * self.size_bytes, ends)
            header = self.headers[number]
            ends = min(ends, header.ends if header else ends)
        return stops

    def _read_header(self, number: int) -> ContainerHeader | None:
        return read_container(self.file(number).pread(PAGE, 0))

    def file(self, number: int) -> File:
        """A container's file, open until another one is asked for."""
        if self._open is None or self._open[0] != number:
            self.close()
            self._open = number, self._files.open(f"{self._folder}/{container_name(number)}", read_only=True)
        return self._open[1]

    def close(self) -> None:
        """Give the open file back."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def start(self, number: int) -> int:
        """LSN of a container's first batch."""
        return number * self.size_bytes + PAGE

    def counts(self, number: int) -> bool:
        """Whether anything in a container counts."""
        return self.stops[number] > max(self.start(number), self.base)

    # ---- batches

    def walk(self, number: int, stop: int) -> Iterator[BatchHeader | Hole]:
        """The batches of a container in order, by their headers, and the holes between them.

        Args:
            number: of the container.
            stop: LSN; nothing that ends behind it counts.
        """
        at = self.start(number)
        while at < stop:
            found = self._batch_at(number, at, stop)
            if found is None:
                found = Hole(at, self._next_batch(number, at + PAGE, stop))
            yield found
            at = found.end

    def _batch_at(self, number: int, lsn: int, stop: int) -> BatchHeader | None:
        head = self.file(number).pread(BATCH_HEAD, lsn - number * self.size_bytes)
        batch = read_batch(self.newest.log_id, head, 0, lsn)
        return batch if batch and batch.end <= stop else None

    def _next_batch(self, number: int, lsn: int, stop: int) -> int:
        """Where the next batch begins, or `stop`."""
        origin = number * self.size_bytes
        for window in range(lsn, stop, _WINDOW):
            data = self.file(number).pread(min(_WINDOW, stop - window), window - origin)
            for at in range(0, len(data), PAGE):
                batch = read_batch(self.newest.log_id, data, at, window + at)
                if batch and batch.end <= stop:
                    return batch.lsn
        return stop

    def payload(self, batch: BatchHeader) -> bytes:
        """A batch's records as they are on the disk; less of them where the file is too short."""
        number = batch.lsn // self.size_bytes
        return self.file(number).pread(batch.payload_bytes, batch.lsn + BATCH_HEAD - number * self.size_bytes)

    def records(self, batch: BatchHeader) -> list[LogRecord] | None:
        """A batch's records, or None if any of them is not as it was written."""
        data, at, found = self.payload(batch), 0, []
        while at < batch.payload_bytes:
            record = read_record(data, at, batch.lsn + BATCH_HEAD + at, {})
            if record is None:
                return None
            found.append(record)
            at += record.size_bytes
        return found

    # ---- the end

    def _find_end(self) -> int:
        last = self.numbers[-1]
        stop = self.stops[last]
        found = list(self.walk(last, stop))
        batches = [one for one in found if isinstance(one, BatchHeader)]
        self.base = max([self.base, *(one.base for one in batches)])
        proven = max([self.newest.proven, *(one.proven for one in batches)])
        tail: BatchHeader | None = None
        end = self.start(last)
        for one in found:
            if isinstance(one, Hole):
                if one.first >= proven:
                    break
                tail, end = None, one.end if one.end < stop else max(page_end(proven), end)
            elif one.end > proven and self.records(one) is None:
                self.torn = True
                break
            else:
                tail, end = one, one.end
        if self.file(last).size < self.size_bytes:
            return stop
        if tail is None and end == self.start(last):
            tail = self._last_before(last)
        return self._without_unfinished(tail, end, proven)

    def _without_unfinished(self, tail: BatchHeader | None, end: int, proven: int) -> int:
        """The log's end, once it is known which batch is the last one (None: it is not known, since it is damaged).

        That batch is written again if nothing on the disk proves that it was flushed; also if it is all that the last
        container has, whose name may be nowhere but in memory (its fsync of the directory may have failed).
        """
        if tail is None:
            return end
        if tail.part in (FIRST, MIDDLE):
            self.torn = True
            return tail.group
        first = tail.lsn == self.start(self.numbers[-1])
        if (tail.end <= proven and not first) or (first and self.records(tail) is None):
            return end
        if tail.records == 0:  # says nothing that the next header does not say, and may be nowhere but in memory
            return tail.lsn
        self.again = tail
        return end

    def _last_before(self, number: int) -> BatchHeader | None:
        """The last batch of the log before a container; None where it is damaged, or its container is missing."""
        before = [one for one in self.numbers if one < number and self.stops[one] > self.start(one)]
        header = self.headers[number]
        if not before or header is None or header.ends > (before[-1] + 1) * self.size_bytes:
            return None
        *_, last = self.walk(before[-1], self.stops[before[-1]])
        return last if isinstance(last, BatchHeader) else None

    def before(self, lsn: int) -> int:
        """Where the log before a place ends: there, or where it ended before that place's container, if nothing of it
        stands between. So no header says that the log ends in a container of which nothing counts."""
        header = self.headers.get(lsn // self.size_bytes)
        return header.ends if header and lsn == header.start else lsn
