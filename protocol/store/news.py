"""What a store tells its broker of itself for the event table: nobody waits for it, it may be lost with the process.
What a flush has brought comes behind the answers to what was written by it (`Written`), and may come before others.

What happens before the broker has its link is kept until then, within a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from msgspec.json import encode

from ..machine import Measured, broker_of
from ..resident import ResidentTeller
from ..wire.events import CLUSTER
from ..wire.flow_frames import Resident
from ..wire.records import CHECKPOINT
from ..wire.store_frames import Happened
from .host import FoundLog

SLOW_US = 1_000_000
"""A flush that takes so long is told."""
KEPT = 256
"""So many are kept while the broker has no link; the oldest go first."""

RECOVERED, DAMAGED, SLOW, CHECKPOINTED, DROPPED = (
    "store_recovered", "store_damaged", "flush_slow", "store_checkpoint", "store_dropped",
)  # fmt: skip
"""Kinds of rows in the event table."""


class News:
    """
    Args:
        name: the store's.
        send: sends a frame to a peer.
    """

    def __init__(self, name: str, send: Callable[[str, Happened | Resident], object]) -> None:
        self._broker = broker_of(name)
        self._send = send
        self._linked = False
        self._kept: list[Happened] = []
        self._teller = ResidentTeller()

    def linked(self, peer: str, up: bool) -> None:
        """A process has a link to the store now, or none any more."""
        if peer == self._broker:
            self._linked = up
            self._teller = ResidentTeller()  # another process may be there
            self.tell()

    def tell(self) -> None:
        """What has happened goes to the broker, if it has a link."""
        if self._linked and self._kept:
            kept, self._kept = self._kept, []
            for one in kept:
                self._send(self._broker, one)

    def measured(self, input: Measured) -> None:
        """How much memory the process has."""
        if self._linked and (news := self._teller.news(input)) is not None:
            self._send(self._broker, news)

    def recovered(self, logs: Mapping[str, FoundLog], took_us: int) -> None:
        """The logs are open, and what was in them is known. Of a new store that is nothing."""
        if any(found.index.streams for found in logs.values()):
            sizes = {log: found.end - found.base for log, found in logs.items()}
            self._note(Happened(RECOVERED, "", took_us, encode({"bytes": sizes}).decode()))
        for log, found in logs.items():
            for first, behind in found.index.damage:
                self.damaged(log, first, behind)

    def damaged(self, log: str, first: int, behind: int) -> None:
        self._note(Happened(DAMAGED, "", behind - first, encode({"log": log, "first": first}).decode()))

    def rotten(self, log: str, first: int, behind: int) -> None:
        """Damage that was found in a running store."""
        self.damaged(log, first, behind)
        self.tell()

    def flushed(self, took_us: int) -> None:
        """A group is on disk, and its writers are answered: what has happened is told."""
        if took_us >= SLOW_US:
            self._note(Happened(SLOW, "", took_us))
        self.tell()

    def wrote(self, kind: int, stream: str, payload_bytes: int) -> None:
        """A stream has a new checkpoint, or none of it counts any more."""
        queue = "" if stream == CLUSTER else stream
        checkpoint = kind == CHECKPOINT
        self._note(Happened(CHECKPOINTED if checkpoint else DROPPED, queue, payload_bytes if checkpoint else 0))

    def _note(self, one: Happened) -> None:
        self._kept.append(one)
        if len(self._kept) > KEPT:
            del self._kept[0]
