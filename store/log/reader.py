"""Reading single records by their LSN, in any process, without the lock, while another one writes the log.

The writer may free a container and use it again at any time, so a reader believes nothing but what it has verified: the
record's checksum, and that it says the place where it was looked for. What is there no more raises `store-gone`: it was
moved, and whoever named the place has to be asked again.
"""

from __future__ import annotations

import struct
from contextlib import suppress

from ...protocol.errors import STORE_DAMAGED, STORE_GONE, STORE_NO_LOG, StoreError
from ..files import File, Files
from .containers import container_name, container_numbers
from .layout import (
    BATCH_HEAD,
    FIRST,
    LAST,
    MIDDLE,
    PAGE,
    RECORD_HEAD,
    LogRecord,
    read_batch,
    read_container,
    read_record,
    require_fast_checksums,
)

_LENGTH = struct.Struct("<I")
GUESS_BYTES = 4096
"""Read at once: of most records it is all."""


class LogReader:
    """Reads the records of one log. Keeps one file open, and the record that was read last."""

    def __init__(self, files: Files, folder: str) -> None:
        """Nothing is read yet but one container's header.

        Args:
            files: the file system.
            folder: of the log.

        Raises:
            StoreError: `store-no-log`, `store-format`, `store-checksum`.
        """
        require_fast_checksums()
        self._files = files
        self._folder = folder
        self._open: tuple[int, File] | None = None
        self._last: LogRecord | None = None
        self._names: dict[bytes, str] = {}
        for number in reversed(container_numbers(files.list(folder))):
            file = self._file(number)
            header = read_container(file.pread(PAGE, 0)) if file else None
            if header:
                self._size_bytes, self._log_id = header.size_bytes, header.log_id
                return
        raise StoreError(STORE_NO_LOG, f"{folder} has no log whose containers can be read")

    def _file(self, number: int, fresh: bool = False) -> File | None:
        """A container's file, None if there is none of that number.

        Args:
            number: of the container.
            fresh: look again, since what is open may have another number by now.
        """
        if fresh or self._open is None or self._open[0] != number:
            self.close()
            with suppress(FileNotFoundError):
                path = f"{self._folder}/{container_name(number)}"
                self._open = number, self._files.open(path, read_only=True)
        return self._open[1] if self._open else None

    def close(self) -> None:
        """Give the open file back."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def read(self, lsn: int) -> LogRecord:
        """A whole record.

        Args:
            lsn: where it begins.

        Returns:
            It; of one that went over the ends of containers, all parts as one.

        Raises:
            StoreError: `store-gone`: its container was freed; `store-damaged`: it is not as it was written.
        """
        if self._last is None or self._last.lsn != lsn:
            first = self._verified(lsn)
            if first.part in (MIDDLE, LAST):
                raise StoreError(STORE_DAMAGED, f"at {lsn} no record begins: it is a part of one")
            self._last = first if first.part != FIRST else self._joined(first)
        return self._last

    def piece(self, lsn: int, offset: int, count: int) -> bytes:
        """Some bytes of a record's payload, as a body in an entry; verified with all of the record.

        Args:
            lsn: where the record begins.
            offset: of the first byte in the payload.
            count: how many bytes.

        Raises:
            StoreError: as `read`; `store-damaged` also where the payload has no such bytes.
        """
        payload = self.read(lsn).payload
        if offset < 0 or offset + count > len(payload):
            text = f"the record at {lsn} has {len(payload)} bytes, {count} from {offset} on were asked for"
            raise StoreError(STORE_DAMAGED, text)
        return payload[offset : offset + count]

    def _verified(self, lsn: int) -> LogRecord:
        number = lsn // self._size_bytes
        record = self._at(lsn) or self._at(lsn, fresh=True)
        if record is not None:
            return record
        if number in container_numbers(self._files.list(self._folder)):
            raise StoreError(STORE_DAMAGED, f"the record at {lsn} in {self._folder} is not as it was written")
        raise StoreError(STORE_GONE, f"the record at {lsn} is in {self._folder} no more: ask again where it is")

    def _at(self, lsn: int, fresh: bool = False) -> LogRecord | None:
        """What stands at a place, None if it is no valid record."""
        file = self._file(lsn // self._size_bytes, fresh)
        at = lsn % self._size_bytes
        left = self._size_bytes - at
        data = file.pread(min(GUESS_BYTES, left), at) if file else b""
        if file is None or len(data) < RECORD_HEAD:
            return None
        length = min(RECORD_HEAD + _LENGTH.unpack_from(data)[0], left)
        if length > len(data):
            data = file.pread(length, at)
        return read_record(data, 0, lsn, self._names)

    def _joined(self, first: LogRecord) -> LogRecord:
        """A record with its other parts. Each is what a later container begins with, and names the one before."""
        part, pieces, size_bytes = first, [first.payload], first.size_bytes
        while part.part != LAST:
            part = self._next_part(part)
            pieces.append(part.payload)
            size_bytes += part.size_bytes
        return first._replace(payload=b"".join(pieces), size_bytes=size_bytes)

    def _next_part(self, part: LogRecord) -> LogRecord:
        numbers = container_numbers(self._files.list(self._folder))
        for number in numbers:
            start = number * self._size_bytes + PAGE
            if start < part.lsn:
                continue
            file = self._file(number, fresh=True)
            head = file.pread(BATCH_HEAD, PAGE) if file else b""
            found = self._at(start + BATCH_HEAD) if read_batch(self._log_id, head, 0, start) else None
            if found and found.part in (MIDDLE, LAST) and found.undo == part.lsn:
                return found
        raise StoreError(STORE_DAMAGED, f"the record that goes on behind its part at {part.lsn} has no next part")
