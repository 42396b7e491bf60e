"""What a copy that begins again still has: bodies of an earlier log, or of an update that was cut off.

A position's body never changes once it is committed, so what an updater would send again is left out (`durable.md` 4):
the updatee says which it has (`UpdateHave`), as rsync's receiver does of its old file. Only bodies of committed entries
may be put in: behind the commit index a position may become another message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..ranges import RangeSet


class BodyCache:
    """Position -> encoded message."""

    __slots__ = ("_bodies",)

    def __init__(self) -> None:
        self._bodies: dict[int, bytes] = {}

    def __bool__(self) -> bool:
        return bool(self._bodies)

    def put(self, committed: Mapping[int, bytes]) -> None:
        """Messages of committed entries; an empty one is none."""
        self._bodies.update((position, body) for position, body in committed.items() if body)

    def of(self, live: Iterable[tuple[int, int]]) -> dict[int, bytes]:
        """Those that are here of a sync point's live messages. The others are of no use any more."""
        bodies, found = self._bodies, dict[int, bytes]()
        for first, last in live:
            if last - first < len(bodies):
                found.update((p, bodies[p]) for p in range(first, last + 1) if p in bodies)
            else:
                found.update((p, bodies[p]) for p in sorted(bodies) if first <= p <= last)
        self._bodies = dict(found)
        return found

    def clear(self) -> None:
        self._bodies = {}


def ranges_of(rising: Iterable[int]) -> list[int]:
    """Rising positions as a flat list of ranges."""
    found = RangeSet()
    for position in rising:
        found.add(position, position)
    return found.flat()
