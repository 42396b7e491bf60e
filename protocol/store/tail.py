"""Moving a log's tail: a log-structured cleaner whose owners carry their live records forward (`durable.md` 2).

The log may hold twice what lives in it, and a little more. Beyond that the oldest containers have to go: the owners of
streams that need anything in them are asked to write that again. When their checkpoints are on disk the base moves, by
whole containers, up to the least LSN that a stream needs. A stream that nobody keeps holds the base until it is kept.
"""

from __future__ import annotations

from .index import LogIndex
from .swallowed import Swallowed

SLACK_CONTAINERS = 4
"""How many containers a log may have besides twice what lives."""


CHECKPOINTS_WORTH = 2
"""So many times what the last checkpoints have is asked for at once, besides a container: each stream that moves writes
a checkpoint, and less room than those take would make the log longer by all that is done to shorten it."""


class LogTail:
    """The old end of one log.

    Args:
        base, end: LSN of the oldest container, and of the place where the next batch goes.
        container_bytes: the size of a container.
        expected: the streams that are its own, if that is known from the beginning.

    Attributes:
        hold: nothing from here on goes, whatever the streams need; None: only they count.
        swallowed: what its damage may have swallowed, which stays until that is known.
    """

    def __init__(
        self, index: LogIndex, base: int, end: int, container_bytes: int, expected: list[str] | None = None
    ) -> None:
        self.base = base
        self.end = end
        self.container_bytes = container_bytes
        self.hold: int | None = None
        self.swallowed = Swallowed(index, expected)
        self._index = index
        self._looked = -1  # the last container when it was looked at
        self._asked: dict[str, int] = {}  # stream -> up to which LSN its owner was asked to move
        self._rot: list[tuple[int, int]] = []  # found while the log is in use, and not behind the base yet

    @property
    def used_bytes(self) -> int:
        return self.end - self.base

    def due(self) -> bool:
        """Whether it is worth a look at all streams: a container was begun, or a stream may need less."""
        container = self.end // self.container_bytes
        if container == self._looked and not self._index.moved:
            return False
        self._looked, self._index.moved = container, False
        return True

    def advance(self) -> bool:
        """Move the base over the containers that no stream needs; whether it moved."""
        lows = (self._index.low, self.hold, self.swallowed.low)
        low = min([self.end if lows[0] is None else lows[0], *(one for one in lows[1:] if one is not None)])
        base = low // self.container_bytes * self.container_bytes
        if base <= self.base:
            return False
        self.base = base
        return True

    @property
    def rot(self) -> list[tuple[int, int]]:
        """What was found rotten, as (first, behind) LSNs, and has not gone with its container."""
        self._rot = [one for one in self._rot if one[1] > self.base]
        return self._rot

    def rotten(self, first: int, behind: int) -> bool:
        """That part cannot be read any more; whether that is news, of what may still be needed."""
        new = behind > self.base and (first, behind) not in self._rot
        self._rot += [(first, behind)] if new else []
        return new

    def ask(self) -> tuple[int, list[str]]:
        """If the log is too long, the end of its oldest containers; of what is rotten, the end of its container, once
        another is written to: what is needed below is still in memory. And the streams, not yet asked, that need
        anything below."""
        size, upto = self.container_bytes, 0
        if self.used_bytes > 2 * self._index.live_bytes + SLACK_CONTAINERS * size:
            worth = size + CHECKPOINTS_WORTH * self._index.checkpoint_bytes
            upto = min(self.base + worth, self.end) // size * size
        for _, behind in self.rot if self._rot else ():
            end = -(-behind // size) * size
            upto = max(upto, end if end <= self.end else 0)
        if not upto:
            return 0, []
        return upto, [
            stream
            for stream, place in self._index.streams.items()
            if place.low < upto and self._asked.get(stream, 0) < upto
        ]

    def asked(self, stream: str, upto: int) -> None:
        self._asked[stream] = upto

    def forget(self, stream: str) -> None:
        """Another owner has it, or none: what was asked of the one before is asked again."""
        self._asked.pop(stream, None)

    def dropped(self, stream: str) -> None:
        """All its records are dead."""
        self.forget(stream)
        self.swallowed.dropped(stream)
