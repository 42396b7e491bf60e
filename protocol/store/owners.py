"""Which process keeps which stream: a lease that only a higher life can take, and a fence behind it.

A process names its *life* with each stream it takes. The highest counts (a fencing token, as a ballot is one for
logs): what an older life writes is dropped, so a process that was given up can never acknowledge again.
"""

from __future__ import annotations

from typing import NamedTuple


class Keeping(NamedTuple):
    """`peer` keeps a stream in its life `life`."""

    peer: str
    life: int


class Owners:
    """Attributes:
    by_stream: stream -> who keeps it. A stream that nobody keeps is not here.
    """

    def __init__(self) -> None:
        self.by_stream: dict[str, Keeping] = {}

    def take(self, peer: str, stream: str, life: int, opened: int) -> int:
        """`peer` asks for a stream that life `opened` has opened last; 0: granted, else the life it must give way to.

        The same process may ask again. Any other one needs a higher life than every one before: two processes under
        one life could not be told apart.
        """
        wanted, before = Keeping(peer, life), self.by_stream.get(stream)
        highest = max(opened, before.life if before is not None else 0)
        if before != wanted and life <= highest:
            return highest
        self.by_stream[stream] = wanted
        return 0

    def may_write(self, peer: str, stream: str) -> bool:
        found = self.by_stream.get(stream)
        return found is not None and found.peer == peer

    def life(self, stream: str) -> int:
        """The life that keeps the stream, 0 for none."""
        found = self.by_stream.get(stream)
        return found.life if found is not None else 0

    def gone(self, peer: str) -> list[str]:
        """A process is gone; returns the streams that nobody keeps now."""
        left = [stream for stream, keeping in self.by_stream.items() if keeping.peer == peer]
        for stream in left:
            del self.by_stream[stream]
        return left

    def dropped(self, stream: str) -> None:
        self.by_stream.pop(stream, None)
