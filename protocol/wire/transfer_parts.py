"""Some of the messages of a transfer, as a transfer: what is to be sent again, or goes on without the rest."""

from __future__ import annotations

from .client_frames import Transfer


def part(frame: Transfer, start: int, stop: int) -> Transfer:
    """The messages at these indexes, with their numbers and all that is said of them."""
    ttl = zip(frame.ttl[::2], frame.ttl[1::2], strict=False)
    return Transfer(
        frame.handle,
        frame.first + start,
        frame.blobs[start:stop],
        frame.keys[start:stop] if frame.keys is not None else None,
        [n for index, ttl_ms in ttl if start <= index < stop for n in (index - start, ttl_ms)],
        frame.headers[start:stop] if frame.headers is not None else None,
        [(index - start, keys) for index, keys in frame.several if start <= index < stop],
        [(index - start, ms, since) for index, ms, since in frame.delays if start <= index < stop],
    )
