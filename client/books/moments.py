"""When the messages of a delivery came into their queue: its column of times, message by message."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, repeat

from ...protocol.ranges import pairs


def each(times: list[int], count: int) -> Iterator[int]:
    """Unix ms of each of the `count` messages of a delivery with this column of `times`; 0: it is not known."""
    if not times:
        return repeat(0, count)
    if len(times) == 2 and not times[0]:  # all at once, as most are
        return repeat(times[1], count)
    edges = [*times[::2], count]
    runs = zip(times[1::2], edges, edges[1:], strict=False)
    return chain(repeat(0, times[0]), chain.from_iterable(repeat(at_ms, end - first) for at_ms, first, end in runs))


def behind(times: list[int], first: int) -> list[int]:
    """The column of the messages from index `first` on."""
    rest: list[int] = []
    for index, at_ms in pairs(times):
        if index <= first:
            rest = [0, at_ms]
        else:
            rest += (index - first, at_ms)
    return rest
