"""Bringing a replica that has lost its log up to date (`design.md` section 8): the updater's side and the updatee's.

At a sync point the updater sends all but the messages, in pieces where that is large; then the messages, from the back
to the front, in chunks. Few of either are under way at a time, between its other work. Messages that are dequeued by
the time their chunk is due are left out: consumers shrink the update. Not of a queue with policies, where it depends on
what the messages are which of them go: what follows the sync point is applied to all that were there.
Meanwhile the updatee gets the entries committed behind the sync point from the sequencer, keeps them, and applies them
when all messages are there; until then it acknowledges and owns nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..limits import DEFAULT, Limits
from ..queue.state import QueueState
from ..ranges import RangeSet
from ..status.machines import UpdateStatus
from ..wire.log_frames import UpdateFront, UpdateHave, UpdatePiece, UpdateStart
from .body_cache import BodyCache, ranges_of


class Updater:
    """One update that a replica gives.

    Args:
        state: what is copied, as it is now.
        start: the sync point, as the keeper tells it.
        pieces: of it, where it does not go in one frame.
    """

    def __init__(
        self, state: QueueState, start: UpdateStart, pieces: Iterator[UpdatePiece] | None, limits: Limits = DEFAULT
    ) -> None:
        self._limits = limits
        self.updatee = start.updatee
        self.index = start.index
        self.number = start.number
        self._pieces = pieces or iter(())
        self.sent = 0
        self.taken = 0
        self.messages = 0
        self.done = False
        self._state = state
        self._blobs = dict(state.blobs) if state.policies else state.blobs
        self._left = list(state.live())

    def leave_out(self, frame: UpdateHave) -> None:
        """The updatee has these already; what is on its way comes all the same."""
        left = RangeSet()
        left.update(self._left)
        for i in range(0, len(frame.ranges) - 1, 2):
            left.remove(frame.ranges[i], frame.ranges[i + 1])
        self._left = list(left)

    def chunk(self) -> UpdatePiece | UpdateFront | None:
        """The next piece of the sync point, or the next chunk behind it, if one may be sent now."""
        if self.done or self.sent - self.taken >= self._limits.update_chunks:
            return None
        self.sent += 1
        return next(self._pieces, None) or self._front()

    def _front(self) -> UpdateFront:
        blobs_of = self._blobs
        most_bytes, most_messages = self._limits.update_chunk_bytes, self._limits.update_chunk_messages
        left = self._left
        positions: list[int] = []
        size = looked = 0
        while left and size < most_bytes and looked < most_messages:
            first, last = left.pop()
            position = last
            while position >= first and size < most_bytes and looked < most_messages:
                blob = blobs_of.get(position)
                if blob is not None:
                    positions.append(position)
                    size += len(blob)
                looked += 1
                position -= 1
            if position >= first:
                left.append((first, position))
        positions.reverse()
        ranges = ranges_of(positions)
        self.messages += len(positions)
        self.done = not left
        blobs = [blobs_of[position] for position in positions]
        return UpdateFront(self._state.id, self.sent, ranges, blobs, self.done, self._state.index)


class Updatee:
    """One update that a replica takes.

    Args:
        had: of the messages of the sync point those that are here already, in `cache`.
        cache: what is brought goes there, too; None: nothing is kept for another update.

    Attributes:
        updater: its peer name.
        number: of the update.
        chunk: how many chunks have come, with the pieces of the sync point.
        blobs: the messages so far; with a cache, all of it.
        had: as given.
        until: with all messages here, how far the stream must be committed before the state is whole; -1: not all
            are here.
    """

    def __init__(
        self, frame: UpdateStart, depth: int, now_ms: int, pieces: int = 0, had: RangeSet | None = None,
        cache: BodyCache | None = None,
    ) -> None:  # fmt: skip
        self.updater = frame.updater
        self.number = frame.number
        self.chunk = pieces
        self.had = had or RangeSet()
        self.blobs: dict[int, bytes] = cache.bodies if cache is not None else {}
        self._cache = cache
        self.until = -1
        self._messages = 0
        self._depth = depth
        self._began_ms = now_ms
        self._ended_ms = 0

    def take(self, frame: UpdateFront) -> bool:
        """Take a chunk; False: it is not the next one (of an update that was given up, say)."""
        if frame.chunk != self.chunk + 1:
            return False
        self.chunk = frame.chunk
        ranges = frame.ranges
        positions = (p for i in range(0, len(ranges), 2) for p in range(ranges[i], ranges[i + 1] + 1))
        brought = dict(zip(positions, frame.blobs, strict=True))
        self.blobs.update(brought)
        if self._cache is not None:
            self._cache.put(brought)
        self._messages += len(frame.blobs)
        if frame.last:
            self.until = frame.index
        return True

    def end(self, now_ms: int) -> None:
        self.blobs = {}
        self._ended_ms = now_ms

    def report(self) -> UpdateStatus:
        return UpdateStatus(
            messages=self._messages, depth=self._depth, began_ms=self._began_ms, ended_ms=self._ended_ms
        )


class Pace:
    """How fast an update may go, in bytes a second.

    An update that takes all it can get is felt by every publisher, since their brokers need the same cores.
    """

    def __init__(self, bytes_s: int) -> None:
        self._bytes_s = bytes_s
        self._free_us = 0

    def next(self, now_ms: int, size: int) -> int:
        """When the next chunk may come, after one of `size` bytes; milliseconds."""
        self._free_us = max(self._free_us, now_ms * 1000) + size * 1_000_000 // self._bytes_s
        return self._free_us // 1000
