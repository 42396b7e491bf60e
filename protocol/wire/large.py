"""Large frames in pieces: what is large in them (events, records) is written as it is, and copied by nobody.

The bytes are the same as those of `encode_frame`. Only frames that carry the bodies of many messages in one value have
a way of their own here; every other frame is small, or made of small values, and is encoded whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from .events import Entry
from .log_frames import Append, Request
from .store_frames import Write

LARGE_BYTES = 8 * 1024
"""A value of fewer bytes is copied: that costs less than a piece does."""

_encode = msgspec.msgpack.Encoder().encode


class Buffers:
    """What is written, put together from small parts and large ones."""

    __slots__ = ("_large_bytes", "_small", "made")

    def __init__(self, large_bytes: int = LARGE_BYTES) -> None:
        self.made: list[bytes] = []
        self._small: list[bytes] = []
        self._large_bytes = large_bytes

    def put(self, *small: bytes) -> None:
        self._small += small

    def blob(self, value: bytes) -> None:
        """A msgpack value of bytes."""
        size, small = len(value), self._small
        if size < 1 << 8:
            small.append(b"\xc4%c" % size)
        elif size < 1 << 16:
            small.append(b"\xc5" + size.to_bytes(2, "big"))
        else:
            small.append(b"\xc6" + size.to_bytes(4, "big"))
        small.append(value)
        if size >= self._large_bytes:
            self.made += (b"".join(small[:-1]), value)
            small.clear()

    def entries(self, entries: list[Entry]) -> None:
        """A msgpack array of entries."""
        self._small.append(array(len(entries)))
        for ballot, seq, origin, inc, number, event in map(msgspec.structs.astuple, entries):
            self._small += (b"\x96", _encode((ballot, seq, origin, inc, number))[1:])
            self.blob(event)

    def end(self) -> list[bytes]:
        if self._small:
            self.made.append(b"".join(self._small))
        return self.made


def array(count: int) -> bytes:
    """The header of a msgpack array."""
    if count < 16:
        return b"%c" % (0x90 | count)
    return b"\xdc" + count.to_bytes(2, "big") if count < 1 << 16 else b"\xdd" + count.to_bytes(4, "big")


def _any(values: Iterable[bytes], large_bytes: int) -> bool:
    return any(len(value) >= large_bytes for value in values)


def _write(frame: Write, large_bytes: int) -> list[bytes] | None:
    if not _any((payload for _, _, payload in frame.records), large_bytes):
        return None
    out = Buffers(large_bytes)
    out.put(b"\x93", _encode(frame.number), array(len(frame.records)))
    for kind, stream, payload in frame.records:
        out.put(b"\x93", _encode(kind), _encode(stream))
        out.blob(payload)
    out.put(_encode(frame.live_bytes))
    return out.end()


def _request(frame: Request, large_bytes: int) -> list[bytes] | None:
    if not _any((event for _, event in frame.parts), large_bytes):
        return None
    out = Buffers(large_bytes)
    out.put(b"\x95", _encode((frame.origin, frame.inc, frame.number))[1:], array(len(frame.parts)))
    for stream, event in frame.parts:
        out.put(b"\x92", _encode(stream))
        out.blob(event)
    out.put(_encode(frame.patient))
    return out.end()


def _append(frame: Append, large_bytes: int) -> list[bytes] | None:
    if not _any((entry.event for entry in frame.entries), large_bytes):
        return None
    out = Buffers(large_bytes)
    before = (frame.ballot, frame.stream, frame.previous, frame.previous_ballot, frame.commit, frame.trim)
    out.put(b"\x9a", _encode(before)[1:])
    out.entries(frame.entries)
    out.put(_encode((frame.distinguished_learner, frame.quorum_needed, frame.voters))[1:])
    return out.end()


IN_PIECES: dict[type, Callable[[Any, int], list[bytes] | None]] = {Write: _write, Request: _request, Append: _append}
"""Kind of a frame -> gives its payload in pieces; None if nothing in it is large."""


def entries_payload(first: int, commit: int, entries: list[Entry]) -> bytes:
    """The payload of an `EntriesRecord`, whose events are copied once."""
    out = Buffers(1 << 62)
    out.put(b"\x93", _encode(first), _encode(commit))
    out.entries(entries)
    return b"".join(out.end())
