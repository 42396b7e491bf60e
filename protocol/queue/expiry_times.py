"""When the messages of a queue expire."""

from __future__ import annotations

from ..ranges import RangeSet, compress, pairs
from ..wire.events import Expire


class ExpiryTimes(dict[int, int]):
    """Position -> expiry in ms, only where there is one. Part of a queue's replicated state."""

    __slots__ = ()

    def came(self, first: int, count: int, expiry: list[int]) -> None:
        """`count` messages have positions from `first` on; `expiry` is as in an `Enqueue`."""
        for index, expires_ms in pairs(expiry):
            if 0 <= index < count:
                self[first + index] = expires_ms

    def due(self, event: Expire, *waiting: RangeSet) -> list[tuple[int, int]]:
        """What is in one of these sets and has expired by that event, as ranges."""
        get, now_ms = self.get, event.now_ms
        never_ms = now_ms + 1
        found = [
            position
            for first, last in pairs(event.ranges)
            for positions in waiting
            for a, b in positions.within(first, last)
            for position in range(a, b + 1)
            if get(position, never_ms) <= now_ms
        ]
        return list(pairs(compress(sorted(found))))

    def forget(self, positions: list[tuple[int, int]]) -> None:
        """The messages in these ranges are gone."""
        for first, last in positions:
            for position in range(first, last + 1):
                self.pop(position, None)
