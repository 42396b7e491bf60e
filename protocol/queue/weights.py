"""How many of the messages that come next byte credit and the size of a frame allow."""

from __future__ import annotations

from collections.abc import Mapping

from ..range_columns import positions_in
from .credit import UNLIMITED, CreditBalance
from .sequence import Shown


def weigh(
    blobs: Mapping[int, bytes], first: int, last: int, size: int, credit: CreditBalance, most_bytes: int
) -> tuple[int, int, bool]:
    """Of one range, behind `size` bytes: (last position that fits, bytes so far, stop here)."""
    for position in range(first, last + 1):
        weight = len(blobs[position])
        if (credit.bytes != UNLIMITED and size + weight > credit.bytes) or (size and size + weight > most_bytes):
            return position - 1, size, True
        size += weight
    return last, size, False


def fitting(
    state: Shown, parts: list[tuple[int, int]], credit: CreditBalance, most_bytes: int
) -> tuple[list[tuple[int, int]], int]:
    """The first of many ranges, and their bytes, where anything bounds those."""
    if credit.bytes == UNLIMITED and state.bytes <= most_bytes:
        return parts, 0
    blobs = state.blobs
    size = sum(map(len, map(blobs.__getitem__, positions_in(parts))))
    if size <= most_bytes and (credit.bytes == UNLIMITED or size <= credit.bytes):
        return parts, size
    fits, size = list[tuple[int, int]](), 0
    for first, last in parts:
        last, size, full = weigh(blobs, first, last, size, credit, most_bytes)
        if last >= first:
            fits.append((first, last))
        if full:
            break
    return fits, size
