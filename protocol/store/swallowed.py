"""Damage that may have swallowed all there was of a stream, votes too, stays in its log until that is known.

A queue of which an intact log has no record was never voted in here, and may be hosted with an empty log that counts.
Where there is damage, it may be one that was: then its log does not count (K4), and its next record says so. That next
record comes when a process takes the stream, and of a queue that nobody has taken yet there is none. If the base passed
the damage before, the next start would find an intact log, and a voter that has forgotten its votes. So the base stays
until each queue that the wiring has is known by a record behind the damage; which those are, the broker says
(`Expected`), once it knows all that was complete.
"""

from __future__ import annotations

from collections.abc import Iterable

from .index import LogIndex


class Swallowed:
    """What the damage of one log may have swallowed.

    Args:
        index: of that log.
        expected: the streams that are its own; None: nobody has said yet.
    """

    def __init__(self, index: LogIndex, expected: Iterable[str] | None = None) -> None:
        self._index = index
        self._expected = set(expected) if expected is not None else None

    def expect(self, streams: Iterable[str]) -> None:
        """These are all that this log may have had records of; every other one begins later."""
        if self._expected is None:
            self._expected = set(streams)
            self._index.moved = True

    def dropped(self, stream: str) -> None:
        """All records of it are dead, wherever they are."""
        if self._expected is not None:
            self._expected.discard(stream)

    def may_have(self, stream: str) -> bool:
        """Whether a stream without a record may have had some, in the damage."""
        return bool(self._index.damage) and (self._expected is None or stream in self._expected)

    @property
    def low(self) -> int | None:
        """The least LSN of the damage, while it must stay; None: it need not."""
        damage, streams = self._index.damage, self._index.streams
        if not damage:
            return None
        known = self._expected is not None and all(stream in streams for stream in self._expected)
        # A stream that is hurt, and says in no record that its log does not count, would look whole without the damage.
        if known and not any(place.hurt and not place.blank for place in streams.values()):
            return None
        return min(first for first, _ in damage)
