"""A frame as bytes: version and length first, then kind and payload. Feed bytes, take complete frames.

    byte 0      protocol major version (1)
    bytes 1-4   payload length, big endian
    byte 5      kind
    bytes 6-    payload: msgpack

A wrong version or a length over the limit is an error at once, before the payload is read. A kind that is newer than
this program is skipped. Free-form values nested deeper than the limit are refused (the decoder itself stops long
before the interpreter's stack does).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import msgspec

from ..errors import BAD_FRAME, TOO_LARGE, LocalError, PeerError
from ..limits import DEFAULT, Limits
from .frame import Frame
from .kinds import KIND_OF, KINDS
from .large import IN_PIECES, LARGE_BYTES
from .version import MAJOR, wrong_major

VERSION = MAJOR
HEADER = struct.Struct("!BIB")
_SMALL_BYTES = 4096
_header = HEADER.pack
_encode = msgspec.msgpack.Encoder().encode


def encode_frame(frame: Frame) -> bytes:
    """The bytes of one frame, header and all.

    Raises:
        LocalError: the frame is not one of `kinds.KINDS`.
    """
    kind = _kind_of(frame)
    payload = _encode(frame)
    return _header(VERSION, len(payload), kind) + payload


def encode_onto(frame: Frame, out: list[bytes], large_bytes: int = LARGE_BYTES) -> None:
    """Put the same bytes behind others that are written: in pieces, if there are values of `large_bytes` or more in it.

    Raises:
        LocalError: as `encode_frame`.
    """
    in_pieces, kind = IN_PIECES.get(type(frame)), _kind_of(frame)
    pieces = in_pieces(frame, large_bytes) if in_pieces is not None else None
    if pieces is not None:
        out.append(_header(VERSION, sum(map(len, pieces)), kind) + pieces[0])
        out += pieces[1:]
        return
    payload = _encode(frame)
    if len(payload) < large_bytes:
        out.append(_header(VERSION, len(payload), kind) + payload)
    else:
        out += (_header(VERSION, len(payload), kind), payload)


def _kind_of(frame: Frame) -> int:
    kind = KIND_OF.get(type(frame))
    if kind is None:
        raise LocalError(f"{type(frame).__name__} has no frame kind: add it to KINDS in wire/kinds.py")
    return kind


def _free_form(cls: type[Frame]) -> list[str]:
    """Fields typed Any are the only ones whose nesting the schema does not bound."""
    return [name for name in cls.__struct_fields__ if "Any" in str(cls.__annotations__.get(name, ""))]


_READ: dict[int, tuple[Callable[[bytes | memoryview], Frame], list[str]]] = {
    kind: (msgspec.msgpack.Decoder(cls).decode, _free_form(cls)) for kind, cls in KINDS.items()
}


class FrameBuffer:
    """Turns a byte stream into frames.

    Args:
        limits: frame size and depth bounds.
        kinds: kinds that may appear, or None for all; a known kind outside them breaks a rule (a client that sends
            cluster frames, say).
    """

    def __init__(self, limits: Limits = DEFAULT, kinds: frozenset[int] | None = None) -> None:
        self._limits = limits
        self.kinds = kinds
        self._parts: list[bytes | bytearray | memoryview] = []  # what has come of a frame that is not whole
        self._have = 0  # bytes of that
        self._need = HEADER.size  # bytes with which there is something to do

    def feed(self, data: bytes) -> list[Frame]:
        """All frames completed by `data`, in order.

        Raises:
            PeerError: the stream broke a rule; nothing after it can be trusted, so the link must be closed. The
                frames completed before the breach are on the exception as `frames`.
        """
        parts = self._parts
        if parts:
            self._have += len(data)
            if len(data) < _SMALL_BYTES:  # many small parts are one
                if type(parts[-1]) is not bytearray:
                    parts.append(bytearray())
                parts[-1] += data  # type: ignore[operator]
            else:
                parts.append(data)
            if self._have < self._need:
                return []
            data = b"".join(parts)
            parts.clear()
        frames: list[Frame] = []
        start = 0
        end = len(data)
        need = HEADER.size
        try:
            with memoryview(data) as view:
                while end - start >= HEADER.size:
                    version, length, kind = HEADER.unpack_from(view, start)
                    if version != VERSION:
                        raise wrong_major(version)
                    if length > self._limits.frame_bytes:
                        raise PeerError(
                            TOO_LARGE,
                            f"a frame's payload has at most {self._limits.frame_bytes} bytes, this one has {length}",
                        )
                    stop = start + HEADER.size + length
                    if stop > end:
                        need = stop - start
                        break
                    body = start + HEADER.size
                    start = stop
                    reading = _READ.get(kind)
                    if reading is None:
                        continue  # newer than this program
                    if self.kinds is not None and kind not in self.kinds:
                        raise PeerError(BAD_FRAME, f"a {KINDS[kind].__name__} frame is not allowed on this link now")
                    decode, free_form = reading
                    try:
                        frame = decode(view[body:stop])
                    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
                        text = f"a {KINDS[kind].__name__} frame must be a msgpack array of its fields: {error}"
                        raise PeerError(BAD_FRAME, text) from None
                    for name in free_form:
                        if value := getattr(frame, name):
                            check_depth(value, self._limits.depth)
                    frames.append(frame)
        except PeerError as error:
            error.frames = frames  # type: ignore[attr-defined]
            raise
        if start < end:
            rest = memoryview(data)[start:]
            self._parts.append(rest if len(rest) > end // 2 else bytes(rest))  # it keeps all of `data`
            self._have, self._need = end - start, need
        return frames


def check_depth(value: Any, limit: int) -> None:
    """Refuse a free-form value nested deeper than `limit`.

    Raises:
        PeerError: `bad-frame`.
    """
    level = [value]
    for _ in range(limit):
        level = [
            item
            for outer in level
            if isinstance(outer, (list, dict))
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise PeerError(BAD_FRAME, f"a frame must not nest deeper than {limit} arrays and maps")
