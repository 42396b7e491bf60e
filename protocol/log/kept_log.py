"""The entries of one stream that a voter keeps: by index, from behind the last one it has forgotten to the end."""

from __future__ import annotations

from ..wire.events import ZERO, Ballot, Entry

TAIL_ENTRIES = 1000
TAIL_BYTES = 1024 * 1024
"""The most of the log that goes with an update: voters that are a little behind may lack these entries."""


class KeptLog:
    """Attributes:
    end, end_ballot, end_seq: index, ballot and seq of the last entry held.
    base: entries up to here are forgotten.
    """

    def __init__(self) -> None:
        self.end = 0
        self.end_ballot: Ballot = ZERO
        self.end_seq = 0
        self.base = 0
        self._log: dict[int, Entry] = {}
        self._base_ballot: Ballot = ZERO
        self._base_seq = 0

    def _ballot_at(self, index: int) -> Ballot:
        return self._log[index].ballot if index > self.base else self._base_ballot

    def place(self, index: int) -> tuple[Ballot, int]:
        """Ballot and seq of the entry at `index`, or of the last one forgotten."""
        entry = self._log.get(index)
        return (entry.ballot, entry.seq) if entry is not None else (self._base_ballot, self._base_seq)

    def entries(self, first: int, last: int) -> list[Entry]:
        """Those from `first` to `last`, which are held."""
        return [self._log[index] for index in range(first, last + 1)]

    def _cut(self, index: int) -> None:
        """Drop the suffix from `index` on."""
        for i in range(index, self.end + 1):
            del self._log[i]
        self.end = index - 1
        self.end_ballot, self.end_seq = self.place(self.end)

    def _trim(self, index: int) -> None:
        if index <= self.base:
            return
        self._base_ballot, self._base_seq = self.place(index)
        for i in range(self.base + 1, index + 1):
            del self._log[i]
        self.base = index

    def _tail(self, upto: int) -> int:
        """The index before the last entries up to `upto`, as many as go with an update."""
        first, size = upto, 0
        while first > self.base and size < TAIL_BYTES and upto - first < TAIL_ENTRIES:
            size += len(self._log[first].event)
            first -= 1
        return first
