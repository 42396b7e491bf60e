"""A keeper: holds one stream's log, votes with its acknowledgements, and applies what is committed, in order.

Rules K1 to K3 of `sequencer.md`. The keeper knows nothing of what the events mean; whoever owns it applies the entries
that `append` returns and reports how far that went.
"""

from __future__ import annotations

from .errors import LocalError
from .events import ZERO, Ballot, Entry
from .frames import Ack, Append, Gap, Nack, Prepare, Promise, Subscribe


class Keeper:
    """The log of one stream at one voter.

    Attributes:
        promised: the highest ballot seen; nothing below it is accepted (K1). Never decreases.
        end, end_ballot: index and ballot of the last entry held.
        commit: highest index known to be committed; everything up to it has been handed out by `append`.
    """

    def __init__(self, stream: str, voter: str) -> None:
        self.stream = stream
        self.voter = voter
        self.promised: Ballot = ZERO
        self.end = 0
        self.end_ballot: Ballot = ZERO
        self.commit = 0
        self._log: dict[int, Entry] = {}
        self._base = 0  # entries up to here are forgotten: every voter holds them

    def subscribe(self) -> Subscribe:
        return Subscribe(self.stream, self.voter, self.end, self.end_ballot)

    def append(self, frame: Append) -> tuple[list[Entry], Gap | Nack | None]:
        """Take an `Append`.

        Returns:
            The entries newly committed, in order, to be applied now (the first has index ``commit before + 1``), and
            the answer that must go out instead of an acknowledgement, if any.
        """
        if frame.ballot < self.promised:
            return [], Nack(self.promised)
        self.promised = frame.ballot
        previous = frame.previous
        if previous > self.end:
            return [], Gap(frame.ballot, self.stream, self.voter, self.end)
        if previous > self._base and previous > self.commit and self._ballot_at(previous) != frame.previous_ballot:
            return [], Gap(frame.ballot, self.stream, self.voter, self.commit)
        index = previous
        for entry in frame.entries:
            index += 1
            if index <= self.end:
                if index <= self.commit or self._log[index].ballot == entry.ballot:
                    continue
                self._drop_from(index)
            self._log[index] = entry
            self.end = index
            self.end_ballot = entry.ballot
        commit = min(frame.commit, index)
        committed: list[Entry] = []
        if commit > self.commit:
            log = self._log
            committed = [log[i] for i in range(self.commit + 1, commit + 1)]
            self.commit = commit
        if frame.trim > self._base:
            self._trim(min(frame.trim, self.commit))
        return committed, None

    def ack(self, applied: int, eager: bool = True) -> Ack:
        return Ack(self.promised, self.stream, self.voter, self.end, applied, eager)

    def prepare(self, frame: Prepare) -> Promise | Nack:
        """Answer a would-be sequencer (K1)."""
        if frame.ballot <= self.promised:
            return Nack(self.promised)
        self.promised = frame.ballot
        suffix = [self._log[i] for i in range(self.commit + 1, self.end + 1)]
        return Promise(frame.ballot, self.stream, self.voter, self.end, self.end_ballot, self.commit, suffix)

    def _ballot_at(self, index: int) -> Ballot:
        return self._log[index].ballot

    def _drop_from(self, index: int) -> None:
        """Drop a suffix that a newer sequencer overrules."""
        if index <= self.commit:
            raise LocalError(f"stream {self.stream}: entry {index} is committed and cannot be dropped (K2)")
        for i in range(index, self.end + 1):
            del self._log[i]
        self.end = index - 1

    def _trim(self, index: int) -> None:
        for i in range(self._base + 1, index + 1):
            self._log.pop(i, None)
        self._base = max(self._base, index)
