"""Entries kept for durable voters that are away, so that they come back by those, and need no update (`durable.md` 4).

A voter whose log is on disk comes back with it, seconds or a minute later, and lacks no more than what was committed
meanwhile. Nobody waits for it, and flow control does not count it. What all streams keep so is bounded, as the segments
that PostgreSQL keeps for its standbys; beyond that the stream that keeps the most gives its voter up that lacks the
most, and whole: what is left of the entries that a voter lacks is of no use to it. It is told to forget its log when it
comes back, as any voter that is too far behind. Keepers keep what the sequencer keeps, by `Append.trim`, so one that
takes over has it as well; it does not know up to where those hold the log that are away already, so it keeps all that
there is.
"""

from __future__ import annotations

from ..limits import DEFAULT, Limits
from .evictions import Evictions
from .order import Order
from .stream import Stream


class Retention:
    """What one sequencer keeps for voters that are away.

    Attributes:
        bytes, entries: of all that is kept for nobody else.
    """

    def __init__(self, order: Order, evictions: Evictions, limits: Limits = DEFAULT) -> None:
        self._order = order
        self._evictions = evictions
        self._limits = limits
        self._kept: dict[str, tuple[int, int]] = {}  # stream -> bytes and entries
        self.bytes = 0
        self.entries = 0

    def upto(self, stream: Stream) -> int:
        """Up to where a durable stream's log may be forgotten; others may lose what they keep, to make room."""
        if not self._evictions.absent:
            self.dropped(stream)
            return stream.held
        self._count(stream)
        while self.bytes > self._limits.retained_bytes or self.entries > self._limits.retained_entries:
            worst = self._order.streams[max(self._kept, key=self._share)]
            lacking = self._lacking(worst)
            least = min(lacking.values(), default=-1)
            worst.left |= {voter: -1 for voter, index in lacking.items() if index == least}
            self._count(worst)
            if worst is not stream:
                worst.forget(self._low(worst))
        return self._low(stream)

    def _lacking(self, stream: Stream) -> dict[str, int]:
        """Voters that are away, and for which entries are kept -> up to where they hold the log."""
        left, base, held = stream.left, stream.base, stream.held
        away = [v for v in stream.voters + stream.changed if v not in stream.keepers and v not in stream.gone]
        return {voter: index for voter in away if base <= (index := left.get(voter, base)) < held}

    def _low(self, stream: Stream) -> int:
        return min(self._lacking(stream).values(), default=stream.held)

    def _count(self, stream: Stream) -> None:
        """Count anew what a stream keeps."""
        self.dropped(stream)
        low, held = self._low(stream), stream.held
        if low < held:
            kept = self._kept[stream.name] = stream.size[held] - stream.size[low], held - low
            self.bytes += kept[0]
            self.entries += kept[1]

    def _share(self, name: str) -> float:
        kept_bytes, kept_entries = self._kept[name]
        limits = self._limits
        return max(kept_bytes / max(limits.retained_bytes, 1), kept_entries / max(limits.retained_entries, 1))

    def dropped(self, stream: Stream) -> None:
        """It keeps nothing any more."""
        kept = self._kept.pop(stream.name, None)
        if kept is not None:
            self.bytes -= kept[0]
            self.entries -= kept[1]
