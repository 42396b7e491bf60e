"""The bytes of format 1 of the log: container headers, batches and records, each with its checksum and its place.

Whatever is read says of itself where it belongs: a batch and a record carry their LSN, which is the position where they
were written. So what a recycled container still holds of its former life is no part of the log, however well its
checksum fits (ARIES' page LSN; `durable.md` 2). The tables are in `README.md`.

All numbers are little-endian. Nothing here reads or writes a file.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import google_crc32c
import msgpack
from google_crc32c import extend, value

from ...protocol.errors import STORE_CHECKSUM, STORE_FORMAT, LocalError, StoreError

FORMAT = 1
PAGE = 4096
"""Bytes of a container's header, and the boundary at which each batch begins."""
LEAST_BYTES = 512 * 1024
"""The smallest container (as in CLFS)."""
MOST_BYTES = 1 << 30

WHOLE, FIRST, MIDDLE, LAST = 0, 1, 2, 3
"""Which part of a record, or of a group of records, this is: parts end where a container does."""

_CONTAINER = struct.Struct("<8sII16sQQQQQQQI")
_CONTAINER_MAGIC = b"MANTALOG"
_BATCH = struct.Struct("<3sB8sQQIIQQqI")
_BATCH_MAGIC = b"MTB"
_SUM = struct.Struct("<I")
_FRONT = struct.Struct("<II")
_REST = struct.Struct("<BBHQQ")
_PLACE = struct.Struct("<Q")
_PLACE_AT = 12  # where a record has its LSN
BATCH_HEAD = _BATCH.size
RECORD_HEAD = _FRONT.size + _REST.size
ZEROS = bytes(PAGE)
_PADS = tuple(bytes(count) for count in range(8))


class ContainerHeader(NamedTuple):
    """The first page of a container.

    Attributes:
        spares: containers that are kept ready for use.
        log_id: 16 random bytes, the same in all of a log's containers.
        number: container `n` covers the LSNs from `n * size_bytes` on.
        size_bytes: of each container of this log, header and all.
        base: LSN, below which nothing was needed any more when this was written.
        ballot: the highest promise noted so far.
        ends: LSN where the log before this container ends (`from` in `durable.md` 2). All before it was flushed when
            this was written; what an older container has behind it does not count.
        proven: LSN up to which all was flushed before this container had its name; in one that recovery has made it
            covers the batch that was written again.
    """

    spares: int
    log_id: bytes
    number: int
    size_bytes: int
    base: int
    ballot: tuple[int, int]
    ends: int
    proven: int

    @property
    def start(self) -> int:
        """LSN of the first batch."""
        return self.number * self.size_bytes + PAGE


class BatchHeader(NamedTuple):
    """What a batch says of itself.

    Attributes:
        part: which part of its group of records: `WHOLE`, unless the group went over the end of a container.
        lsn: where it begins.
        group: LSN of its group's first batch.
        payload_bytes: of its records, with their padding.
        records: how many there are.
        proven: LSN up to which a flush had returned when this was written.
        base: LSN, below which nothing was needed any more when this was written.
        time_us: when its records were ordered, microseconds since 1970.
    """

    part: int
    lsn: int
    group: int
    payload_bytes: int
    records: int
    proven: int
    base: int
    time_us: int

    @property
    def end(self) -> int:
        """LSN of the place where the next batch begins."""
        return page_end(self.lsn + BATCH_HEAD + self.payload_bytes)


class LogRecord(NamedTuple):
    """One record, or one part of it, whose checksum and place are right.

    Attributes:
        lsn: where it begins.
        kind: see `durable.md` 2; the log gives it no meaning.
        part: `WHOLE`, or which part.
        undo: LSN of the stream's record before, 0 for none; of a part that is not the first, LSN of the part before.
        stream: the stream's name.
        payload: as it was given, or this part of it.
        size_bytes: on disk, with its padding.
    """

    lsn: int
    kind: int
    part: int
    undo: int
    stream: str
    payload: bytes
    size_bytes: int


def require_fast_checksums() -> None:
    """Refuse to work with checksums that are computed in Python.

    Raises:
        StoreError: `store-checksum`.
    """
    if google_crc32c.implementation != "c":
        text = "CRC32C would be computed in Python, a thousand times slower: install google-crc32c with its C extension"
        raise StoreError(STORE_CHECKSUM, f"{text} (a wheel for this platform, or its source with a C compiler)")


def page_end(lsn: int) -> int:
    """The first page boundary at or behind `lsn`."""
    return -(-lsn // PAGE) * PAGE


# ---- container headers


def pack_container(header: ContainerHeader) -> bytes:
    """A container's first page."""
    fields = (header.spares, header.log_id, header.number, header.size_bytes, header.base, *header.ballot)
    packed = _CONTAINER.pack(_CONTAINER_MAGIC, FORMAT, *fields, header.ends, header.proven, 0)[: -_SUM.size]
    return (packed + _SUM.pack(value(packed))).ljust(PAGE, b"\0")


def read_container(page: bytes) -> ContainerHeader | None:
    """Read a container's header.

    Args:
        page: the first page of a file.

    Returns:
        It, or None where its checksum is wrong, or it is none.

    Raises:
        StoreError: `store-format`: it is of a format that this program does not know.
    """
    if len(page) < _CONTAINER.size or not page.startswith(_CONTAINER_MAGIC):
        return None
    _, format_, spares, log_id, number, size, base, counter, uid, ends, proven, sum_ = _CONTAINER.unpack_from(page)
    if sum_ != value(page[: _CONTAINER.size - _SUM.size]):
        return None
    if format_ != FORMAT:
        raise StoreError(STORE_FORMAT, f"the log is of format {format_}, this program knows {FORMAT}: use a newer one")
    return ContainerHeader(spares, log_id, number, size, base, (counter, uid), ends, proven)


# ---- batches


def pack_batch(log_id: bytes, header: BatchHeader) -> bytes:
    """A batch's header."""
    part, *numbers = header
    packed = _BATCH.pack(_BATCH_MAGIC, part, log_id[:8], *numbers, 0)[: -_SUM.size]
    return packed + _SUM.pack(value(packed))


def read_batch(log_id: bytes, data: bytes, at: int, lsn: int) -> BatchHeader | None:
    """Read a batch's header.

    Args:
        log_id: of the log it must be of.
        data: some of a container.
        at: where in `data` to look.
        lsn: the place of that in the log.

    Returns:
        It, or None where none is, or one of another log or place.
    """
    if data[at : at + 3] != _BATCH_MAGIC or len(data) - at < BATCH_HEAD:
        return None
    _, part, log, *numbers, sum_ = _BATCH.unpack_from(data, at)
    if log != log_id[:8] or numbers[0] != lsn or sum_ != value(data[at : at + BATCH_HEAD - _SUM.size]):
        return None
    return BatchHeader(part, *numbers)


# ---- records


def pack_name(stream: str) -> bytes:
    """A stream's name as each of its records begins with it: msgpack.

    Raises:
        LocalError: it is longer than 65,535 bytes.
    """
    packed = msgpack.packb(stream) or b""
    if len(packed) > 65_538:
        raise LocalError(f"a stream's name of {len(packed)} bytes")
    return packed


def record_bytes(name: bytes, payload_bytes: int) -> int:
    """What a record takes on disk, with its padding."""
    return (RECORD_HEAD + len(name) + payload_bytes + 7) & ~7


def append_record(
    buffers: list[bytes], kind: int, part: int, lsn: int, undo: int, name: bytes, payload: Sequence[bytes]
) -> int:
    """Put a record's bytes behind others. The pieces of its payload are taken as they are: none is copied.

    Args:
        buffers: what is written, in pieces.
        kind: of the record.
        part: which part of it.
        lsn: its place.
        undo: of its stream, or of the part before.
        name: the stream's, packed.
        payload: in pieces.

    Returns:
        The bytes it takes.
    """
    rest = _REST.pack(kind, part, 0, lsn, undo) + name
    length = len(name)
    sum_ = value(rest)
    for piece in payload:
        length += len(piece)
        sum_ = extend(sum_, piece)
    buffers.append(_FRONT.pack(length, sum_) + rest)
    buffers.extend(payload)
    pad = -(RECORD_HEAD + length) & 7
    if pad:
        buffers.append(_PADS[pad])
    return RECORD_HEAD + length + pad


def read_record(data: bytes, at: int, lsn: int, names: dict[bytes, str]) -> LogRecord | None:
    """Read and verify a record.

    Args:
        data: some of a container.
        at: where in `data` it begins.
        lsn: the place of that in the log.
        names: packed names that were read before, and what each says; filled here.

    Returns:
        It, or None where none is, its bytes have changed, or it belongs to another place.
    """
    if len(data) - at < RECORD_HEAD:
        return None
    length, sum_ = _FRONT.unpack_from(data, at)
    end = at + RECORD_HEAD + length
    body = data[at + _FRONT.size : end]
    if len(body) != _REST.size + length or value(body) != sum_:
        return None
    kind, part, _, place, undo = _REST.unpack_from(body)
    if place != lsn or part > LAST:
        return None
    name_end = _name_end(body)
    packed = body[_REST.size : name_end]
    stream = names.get(packed)
    if stream is None:
        stream = names[packed] = msgpack.unpackb(packed)
    return LogRecord(lsn, kind, part, undo, stream, body[name_end:], (RECORD_HEAD + length + 7) & ~7)


def _name_end(body: bytes) -> int:
    """Where the name ends in a record's bytes behind its checksum (msgpack's three headers of short texts)."""
    first = body[_REST.size]
    if first == 0xDA:
        return _REST.size + 3 + int.from_bytes(body[_REST.size + 1 : _REST.size + 3], "big")
    if first == 0xD9:
        return _REST.size + 2 + body[_REST.size + 1]
    return _REST.size + 1 + (first & 0x1F)


def next_record(data: bytes, at: int, lsn: int, names: dict[bytes, str]) -> int:
    """Where the next record is in a batch of which a piece is damaged: a record says its place, so it can be found.

    Args:
        data: the batch's bytes.
        at: where to begin; a multiple of 8.
        lsn: the place of `data` in the log.
        names: as `read_record` has it.

    Returns:
        Its place in `data`, or the end of `data`.
    """
    for here in range(at, len(data) - RECORD_HEAD + 1, 8):
        if _PLACE.unpack_from(data, here + _PLACE_AT)[0] == lsn + here and read_record(data, here, lsn + here, names):
            return here
    return len(data)
