"""Moving a log's tail: a log-structured cleaner whose owners carry their live records forward (`durable.md` 2).

The log may hold twice what lives in it, and a little more. Beyond that the oldest container has to go: the owners of
streams that need anything in it are asked to write that again. When their checkpoints are on disk the base moves, by
whole containers, up to the least LSN that a stream needs. A stream that nobody keeps holds the base until it is kept.
"""

from __future__ import annotations

from .index import LogIndex

SLACK_CONTAINERS = 4
"""How many containers a log may have besides twice what lives."""


class LogTail:
    """The old end of one log.

    Args:
        base, end: LSN of the oldest container, and of the place where the next batch goes.
        container_bytes: the size of a container.

    Attributes:
        hold: nothing from here on goes, whatever the streams need; None: only they count.
    """

    def __init__(self, index: LogIndex, base: int, end: int, container_bytes: int) -> None:
        self.base = base
        self.end = end
        self.container_bytes = container_bytes
        self.hold: int | None = None
        self._index = index
        self._looked = -1  # the last container when it was looked at
        self._asked: dict[str, int] = {}  # stream -> up to which LSN its owner was asked to move

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
        low = self._index.low
        low = self.end if low is None else low
        base = (low if self.hold is None else min(low, self.hold)) // self.container_bytes * self.container_bytes
        if base <= self.base:
            return False
        self.base = base
        return True

    def ask(self) -> tuple[int, list[str]]:
        """If the log is too long: the end of its oldest container, and the streams, not yet asked, that need anything
        below."""
        if self.used_bytes <= 2 * self._index.live_bytes + SLACK_CONTAINERS * self.container_bytes:
            return 0, []
        upto = self.base + self.container_bytes
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
