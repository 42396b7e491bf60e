"""An update's sync point in pieces, where it is larger than a frame should be: Raft's InstallSnapshot, in chunks.

A deep queue's expiries, or a large wiring, are tens of megabytes. An updater writes the `UpdateStart` once and sends
those bytes piece by piece; its updatee puts them together, and has nothing of them before it has all. Each piece names
its update by its updater, number, size and checksum: pieces of two updates are never put together.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import msgspec

from ..errors import BAD_FRAME, PeerError
from ..wire.framing import check_depth
from ..wire.log_frames import UpdatePiece, UpdateStart
from ..wire.version import KNOWS_PIECES

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(UpdateStart).decode


def cut(start: UpdateStart, minor: int, most_bytes: int) -> Iterator[UpdatePiece] | None:
    """The pieces of a sync point, of at most `most_bytes` each; None: it goes in one frame, since it is small, or since
    its reader is of a minor version before 3."""
    whole = _encode(start) if minor >= KNOWS_PIECES else b""
    return _pieces(start, whole, most_bytes) if len(whole) > most_bytes else None


def _pieces(start: UpdateStart, whole: bytes, most_bytes: int) -> Iterator[UpdatePiece]:
    checksum, size = zlib.crc32(whole), len(whole)
    for chunk, first in enumerate(range(0, size, most_bytes), 1):
        data = whole[first : first + most_bytes]
        yield UpdatePiece(start.stream, start.updater, start.updatee, start.number, chunk, size, checksum, data)


class Pieces:
    """The pieces that have come of one sync point, at its updatee: at most one sync point is being put together.

    Args:
        depth: deepest nesting of the free-form state (`Limits.depth`).

    Attributes:
        updater, number: the peer name of its updater, "" for none, and which of its updates it is.
        chunk: how many pieces of it have come.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self.clear()

    def clear(self) -> None:
        """What has come is not wanted."""
        self.updater = ""
        self.number = self.chunk = 0
        self._of = ("", 0, 0, 0)
        self._data = bytearray()

    def take(self, piece: UpdatePiece) -> bool:
        """Take the next piece, or the first of another update, with which all begins anew; False: it is neither."""
        of = (piece.updater, piece.number, piece.size, piece.checksum)
        if piece.chunk == 1:
            self.clear()
            self.updater, self.number, self._of = piece.updater, piece.number, of
        elif of != self._of or piece.chunk != self.chunk + 1:
            return False
        self.chunk = piece.chunk
        self._data += piece.data
        return True

    def whole(self) -> UpdateStart | None:
        """The sync point, once all of it is here; nothing of it is kept.

        Raises:
            PeerError: `bad-frame`, when the pieces are not the sync point that they say; nothing of them is kept.
        """
        _, _, size, checksum = self._of
        if not self.updater or len(self._data) < size:
            return None
        data, chunks = self._data, self.chunk
        self.clear()
        if len(data) != size or zlib.crc32(data) != checksum:
            raise PeerError(BAD_FRAME, f"{chunks} pieces of an update must be {size} bytes of checksum {checksum:08x}")
        try:
            start = _decode(data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise PeerError(BAD_FRAME, f"an update's pieces must be an UpdateStart's fields: {error}") from None
        check_depth(start.state, self._depth)
        return start
