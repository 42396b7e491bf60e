"""What a numbered message's body says: where it was sent, by whom, its number; and whether it is whole."""

from __future__ import annotations

import zlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Body:
    """Attributes: of: the queue it was sent to; damaged: it is not what was sent (the rest is then as far as legible)."""

    of: str
    producer: str
    number: int
    damaged: bool = False


def write(of: str, producer: str, number: int, padding: bytes) -> bytes:
    text = f"{of} {producer} {number} ".encode() + padding
    return zlib.crc32(text).to_bytes(4, "big") + text


def read(body: bytes) -> Body:
    damaged = zlib.crc32(body[4:]).to_bytes(4, "big") != body[:4]
    try:
        of, producer, number, _ = body[4:].split(b" ", 3)
        return Body(of.decode(), producer.decode(), int(number), damaged)
    except ValueError:
        return Body("", "?", 0, True)
