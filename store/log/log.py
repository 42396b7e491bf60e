"""The log that is written: groups of records, one write and one flush each (group commit), in containers that go round.

A batch is whole or nothing: it is acknowledged when `Log.sync` has returned, and recovery either gives all of it or
none. One batch at a time is in flight: a batch that is written says that all before it was flushed, so recovery knows
what may be torn (at most the last one) and what can only be damage (all before it).

A failed write or flush is final (PostgreSQL's lesson of 2018; Rebello et al., ATC 2020): the system may hold for
written what the disk does not have, and say so only once. Every later call raises the same error; what is true is
found by opening the log again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from ...protocol.errors import STORE_NOT_EMPTY, LocalError, StoreError
from ..files import File, Files
from .containers import LEAST_CONTAINERS, Containers, rounded
from .layout import (
    BATCH_HEAD,
    FIRST,
    LAST,
    LEAST_BYTES,
    MIDDLE,
    PAGE,
    WHOLE,
    ZEROS,
    BatchHeader,
    ContainerHeader,
    append_record,
    pack_batch,
    pack_name,
    require_fast_checksums,
)
from .spread import spread

P = ParamSpec("P")
R = TypeVar("R")


class Outgoing(NamedTuple):
    """A record to write.

    Attributes:
        kind: 0 to 255; the log gives it no meaning.
        stream: the name of the stream it belongs to.
        payload: in pieces, which are written without a copy.
    """

    kind: int
    stream: str
    payload: Sequence[bytes]


def _final(method: Callable[Concatenate[Log, P], R]) -> Callable[Concatenate[Log, P], R]:
    """An `OSError` of this method is the log's last word."""

    @functools.wraps(method)
    def wrapper(self: Log, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.error is not None:
            raise self.error
        try:
            return method(self, *args, **kwargs)
        except OSError as error:
            self.error = error
            raise

    return wrapper


class Log:
    """A log that is open for writing. Its directory is locked by the caller; one thread calls it.

    Attributes:
        base: LSN, below which nothing is needed any more.
        end: LSN where the next batch begins.
        flushed: LSN up to which all is on the disk.
        proven: LSN up to which something on the disk says that all before it was flushed.
        ballot: the highest promise that any container's header holds, or that was noted.
        error: what has ended it, or None.
    """

    def __init__(self, containers: Containers, header: ContainerHeader, file: File) -> None:
        """Go on behind what a container's header says is flushed. `Log.create` and `open_log` are the ways to one.

        Args:
            containers: of the log.
            header: of the newest.
            file: of the newest.
        """
        self._containers = containers
        self._undo: dict[str, int] | None = None  # stream -> LSN of its newest record
        self._names: dict[str, bytes] = {}
        self._time_us = 0
        self.base = header.base
        self.ballot = header.ballot
        self.error: OSError | None = None
        self._begin(header, file)

    def _begin(self, header: ContainerHeader, file: File) -> None:
        self._header = header
        self._file = file
        self._origin = header.start - PAGE
        self._stop = self._origin + header.size_bytes
        self.end = self.flushed = self.proven = header.proven
        self._said = header.proven  # what the last batch says is flushed
        self._content_end = header.proven

    @classmethod
    def create(
        cls,
        files: Files,
        folder: str,
        *,
        container_bytes: int,
        containers: int,
        log_id: bytes,
        least_bytes: int = LEAST_BYTES,
    ) -> Log:
        """Make a new log. After a crash in the middle it can be made again.

        Args:
            files: the file system.
            folder: for it alone.
            container_bytes: size of a container; at least 512 KiB, rounded up to 4 KiB.
            containers: how many are made at once, at least two; so many are kept ready.
            log_id: 16 random bytes.
            least_bytes: the smallest container; less than 512 KiB in tests.

        Raises:
            StoreError: `store-not-empty`: there is a log already; `store-checksum`.
        """
        require_fast_checksums()
        size, count = rounded(container_bytes, least_bytes), max(containers, LEAST_CONTAINERS)
        files.make_folder(folder)
        made = Containers(files, folder, size, count)
        if made.numbers:
            raise StoreError(STORE_NOT_EMPTY, f"{folder} has a log: open it, or name an empty directory")
        while made.make_spare():
            pass
        start = size + PAGE  # container 1: LSN 0 is none
        header = ContainerHeader(count, log_id, 1, size, start, (0, 0), start, start)
        log = cls(made, header, made.take(header))
        log.chained({})
        return log

    def chained(self, newest: dict[str, int]) -> None:
        """All that was found has been read: the log may be written to.

        Args:
            newest: LSN of the newest record of each stream.
        """
        self._undo = newest

    @property
    def container_bytes(self) -> int:
        """The size of a container, as it was rounded."""
        return self._header.size_bytes

    @property
    def used_bytes(self) -> int:
        """What its containers take on the disk, spares apart."""
        return self._containers.used_bytes

    @_final
    def write(self, records: Sequence[tuple[int, str, Sequence[bytes]]], time_us: int) -> list[int]:
        """Write a group of records as one batch. It is durable when `sync` has returned, all of it or none.

        A group that was written before and not flushed is flushed first.

        Args:
            records: `Outgoing`s, in order.
            time_us: when, microseconds since 1970.

        Returns:
            The LSN of each.
        """
        undo = self._chain()
        if not records:
            return []
        if self.flushed != self.end:
            self.sync()
        names, newest, lsns = self._names, {}, []
        buffers = [b""]  # the batch's header, when all is known
        lsn = self.end + BATCH_HEAD
        for kind, stream, payload in records:
            name = names.get(stream) or self._named(stream)
            before = newest.get(stream) or undo.get(stream, 0)
            newest[stream] = lsn
            lsns.append(lsn)
            lsn += append_record(buffers, kind, WHOLE, lsn, before, name, payload)
        if lsn > self._stop:
            return self._write_spread(records, time_us)
        self._put(WHOLE, self.end, buffers, lsn, len(lsns), time_us)
        undo.update(newest)
        return lsns

    def _chain(self) -> dict[str, int]:
        if self._undo is None:
            raise LocalError("the log is written to before what was found in it has been read to the end")
        return self._undo

    def _named(self, stream: str) -> bytes:
        name = self._names[stream] = pack_name(stream)
        return name

    def _write_spread(self, records: Sequence[tuple[int, str, Sequence[bytes]]], time_us: int) -> list[int]:
        """As `write`, over the end of a container."""
        undo = self._chain()
        named = [(self._names[stream], payload) for _, stream, payload in records]
        plan = spread(named, self._stop - self.end, self._header.size_bytes - PAGE)
        parts = _parts(sum(map(bool, plan)))
        lsns: list[int] = []
        group = part_lsn = 0
        for number, chunks in enumerate(plan):
            if number:
                self._roll()
            if not chunks:
                continue
            buffers, lsn = [b""], self.end + BATCH_HEAD
            group = group or self.end
            for record, part, payload in chunks:
                kind, stream, _ = records[record]
                if part in (WHOLE, FIRST):
                    part_lsn = undo.get(stream, 0)
                    undo[stream] = lsn
                    lsns.append(lsn)
                before, part_lsn = part_lsn, lsn
                lsn += append_record(buffers, kind, part, lsn, before, named[record][0], payload)
            self._put(parts.pop(0), group, buffers, lsn, len(chunks), time_us)
        return lsns

    def _put(self, part: int, group: int, buffers: list[bytes], end: int, records: int, time_us: int) -> None:
        """Write a batch, whole pages of it: a page of which a part is written would have to be read first."""
        payload_bytes = end - self.end - BATCH_HEAD
        header = BatchHeader(part, self.end, group, payload_bytes, records, self.flushed, self.base, time_us)
        buffers[0] = pack_batch(self._header.log_id, header)
        buffers.append(ZEROS[: -end % PAGE])
        self._file.pwritev(buffers, self.end - self._origin)
        self._said = self.flushed
        self._time_us = time_us
        self.end = header.end
        if records:
            self._content_end = self.end

    @_final
    def sync(self) -> None:
        """Flush. What was written before is durable when this returns."""
        if self.flushed != self.end:
            self._file.fdatasync()
            self.flushed = self.end
            self.proven = self._said

    def _roll(self) -> None:
        """Go on in the next container; what was written is flushed first. Of one that is empty nothing remains."""
        self.sync()
        old = self._header
        number = self._containers.numbers[-1] + 1
        start = number * old.size_bytes + PAGE
        ends = self.end if self.end > old.start else old.ends
        header = old._replace(number=number, base=self.base, ballot=self.ballot, ends=ends, proven=start)
        file = self._containers.take(header)
        self._file.close()
        self._begin(header, file)

    def _put_empty(self) -> None:
        """Have the disk say what is flushed, and the base, and nothing else."""
        if self._stop - self.end < PAGE:
            self._roll()
        else:
            self._put(WHOLE, self.end, [b""], self.end + BATCH_HEAD, 0, self._time_us)
            self.sync()

    @_final
    def prove(self) -> bool:
        """Prove the last batch by an empty one behind it, so that rot in it cannot pass for a torn tail. Flushes what
        was written. To be called after a quiet second: it is a write like any, and the next batch would do as well.

        Returns:
            Whether there was anything to prove.
        """
        self._chain()
        self.sync()
        due = self._content_end > self.proven
        if due:
            self._put_empty()
        return due

    @_final
    def free_below(self, lsn: int) -> None:
        """Move the base. Containers wholly below it become spares, once a flush has made the new base durable; without
        that a crash in the middle could leave a gap that looks like containers that were lost.

        The base as recovered is that of the newest batch: it may be lower than the last one given here, as long as no
        container was freed for it. The highest ballot noted is in the header of a container that stays.

        Args:
            lsn: where the first record that is needed begins, or `end`.

        Raises:
            OSError: of the file system. It may need a container more before it gives one back, so one spare has to be
                left for it on a full disk.
        """
        self._chain()
        if lsn > self.end:
            raise LocalError(f"the base is moved to {lsn}, behind the end at {self.end}")
        self.base = max(self.base, lsn)
        size = self._header.size_bytes
        gone = [number for number in self._containers.numbers[:-1] if (number + 1) * size <= self.base]
        if gone:
            self.sync()
            if self.ballot > self._header.ballot:
                self._roll()
            else:
                self._put_empty()
            self._containers.free(gone)
            self._undo = {stream: last for stream, last in self._chain().items() if last >= self.base}

    def note_ballot(self, ballot: tuple[int, int]) -> None:
        """Hold a promise in the headers of containers written from now on, so that its record may be freed."""
        self.ballot = max(self.ballot, ballot)

    @_final
    def make_spare(self) -> bool:
        """Make a container ahead, if fewer are ready than are kept: best while nothing waits, in any thread.

        Returns:
            Whether one was made; not where the disk is full, which ends nothing.
        """
        return self._containers.make_spare()

    @property
    def spares(self) -> int:
        """Containers that can be written to without making a file."""
        return self._containers.ready

    def close(self) -> None:
        """Give the file back. Flushes nothing."""
        self._file.close()


def _parts(count: int) -> list[int]:
    """The parts of a group that is written as so many batches."""
    return [WHOLE] if count == 1 else [FIRST, *[MIDDLE] * (count - 2), LAST]
