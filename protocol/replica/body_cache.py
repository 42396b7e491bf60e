"""What a copy that begins again still has: bodies of an earlier log, or of an update that was cut off.

A position's body never changes once it is committed, so what an updater would send again is left out (`durable.md` 4):
the updatee says which it has (`UpdateHave`), as rsync's receiver does of its old file. Only bodies of committed entries
may be put in: behind the commit index a position may become another message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..ranges import RangeSet, compress, pairs


class BodyCache:
    """What is here of a deep queue's messages costs its loop nothing per message: it is put in beside the loop
    (`stored/read_back.py`), or as it comes.

    Attributes:
        bodies: position -> encoded message.
    """

    __slots__ = ("_ranges", "bodies")

    def __init__(self, committed: Mapping[int, bytes] | None = None) -> None:
        self.bodies: dict[int, bytes] = {}
        self._ranges = RangeSet()  # their positions
        if committed:
            self.put(committed)

    def __bool__(self) -> bool:
        return bool(self._ranges)

    def put(self, committed: Mapping[int, bytes]) -> None:
        """Messages of committed entries; an empty one is none."""
        bodies = {position: body for position, body in committed.items() if body}
        self.bodies.update(bodies)
        self._ranges.update(pairs(compress(sorted(bodies))))

    def of(self, live: Iterable[tuple[int, int]]) -> RangeSet:
        """Those that are here of a sync point's live messages, which rise. If there are none, nothing is of use any
        more."""
        found = RangeSet()
        for first, last in live:
            for part in self._ranges.within(first, last):
                found.add(*part)
        if not found:
            self.clear()
        return found

    def clear(self) -> None:
        self.bodies, self._ranges = {}, RangeSet()


def ranges_of(rising: Iterable[int]) -> list[int]:
    """Rising positions as a flat list of ranges."""
    found = RangeSet()
    for position in rising:
        found.add(position, position)
    return found.flat()
