"""Large things go in pieces: in some stories everything is large."""

from __future__ import annotations

from mantamq.protocol.limits import Limits
from msgspec.structs import replace

PIECE_FOLD = 100
"""A sync point has no parts that stay whole: by the byte it would take all day."""


def at_most(size: int, limits: Limits) -> Limits:
    """A frame that goes in pieces has no more bytes than `size`, or one thing in it; but never more than in `limits`."""
    return replace(
        limits,
        append_bytes=min(size, limits.append_bytes),
        fetch_bytes=min(size, limits.fetch_bytes),
        update_piece_bytes=min(PIECE_FOLD * size, limits.update_piece_bytes),
        dead_letter_bytes=min(size, limits.dead_letter_bytes),
        move_bytes=min(size, limits.move_bytes),
        move_answered=min(size, limits.move_answered),
        request_bytes=min(size, limits.request_bytes),
        run_looks=min(size, limits.run_looks),
        apply_entries=min(2 * size, limits.apply_entries),
    )
