"""Entries that nobody is kept waiting by, such as accepts: they have their place in the order at once, and go to the
keepers with the next entry of their stream that is not patient, where one is to be expected.

Each round of a stream costs every keeper, and with a store every disk, about the same whether it brings one entry or
ten. Where messages come one by one, an accept that is replicated with the next message makes one round of two.
"""

from __future__ import annotations

from typing import NamedTuple

from ..timing import Timing
from .stream import Stream


class _Fed(NamedTuple):
    """When entries of a stream that are not patient left last, and the time before that."""

    before_ms: int
    last_ms: int


_NEVER = _Fed(-1 << 60, -1 << 60)


class PatientEntries:
    """Attributes:
    waiting: streams with patient entries that have not left.
    due_ms: when those leave at the latest; 0: none wait.
    """

    __slots__ = ("_fed", "_patience_ms", "due_ms", "waiting")

    def __init__(self, timing: Timing) -> None:
        self._patience_ms = timing.patience_ms
        self._fed: dict[str, _Fed] = {}
        self.waiting: dict[str, None] = {}
        self.due_ms = 0

    def due(self, now_ms: int) -> dict[str, None]:
        """Take the streams whose patient entries are to leave now: they have waited long enough, or what they would
        wait for does not come often enough."""
        waiting = self.waiting
        if self.due_ms and now_ms >= self.due_ms:
            self.waiting, self.due_ms = {}, 0
            return waiting
        since_ms = now_ms - 2 * self._patience_ms
        due = {name: None for name in waiting if self._fed.get(name, _NEVER).before_ms <= since_ms}
        for name in due:
            del waiting[name]
        if not waiting:
            self.due_ms = 0
        elif not self.due_ms:
            self.due_ms = now_ms + self._patience_ms
        return due

    def leaves(self, stream: Stream, now_ms: int) -> None:
        """Something of the stream goes to its keepers now, and its patient entries with what is not patient."""
        name, eager = stream.name, stream.eager
        if eager > stream.sendable:
            if name in self.waiting:
                del self.waiting[name]
                self.due_ms = self.due_ms if self.waiting else 0
            self._fed[name] = _Fed(self._fed.get(name, _NEVER).last_ms, now_ms)
        elif name in self.waiting:
            return
        stream.sendable = stream.end

    def dropped(self, name: str) -> None:
        self.waiting.pop(name, None)
        self._fed.pop(name, None)
