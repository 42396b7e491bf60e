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
        commit: highest index known to be committed; everything up to it has been handed out by `append` or `hear`.
        need: as a learner, how many other voters must hold an entry for it to be committed; None: not a learner.
    """

    def __init__(self, stream: str, voter: str) -> None:
        self.stream = stream
        self.voter = voter
        self.promised: Ballot = ZERO
        self.end = 0
        self.end_ballot: Ballot = ZERO
        self.commit = 0
        self.need: int | None = None
        self._heard: dict[str, int] = {}  # voter -> how far it holds the log of the promised ballot, by its own word
        self._sure = 0  # up to here the log is the promised ballot's sequencer's
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
        if frame.ballot > self.promised:
            self._promise(frame.ballot)
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
        if index > self._sure:
            self._sure = index
        committed = self._commit(max(min(frame.commit, index), self._learned()))
        if frame.trim > self._base:
            self._trim(min(frame.trim, self.commit))
        return committed, None

    def hear(self, ack: Ack) -> list[Entry]:
        """Another voter's acknowledgement, told to us as the learner: the entries that are committed by it."""
        if ack.ballot != self.promised:
            return []
        if ack.match > self._heard.get(ack.voter, 0):
            self._heard[ack.voter] = ack.match
        return self._commit(self._learned())

    def _learned(self) -> int:
        """The largest index a majority holds, us among it, of the promised ballot's term (S4); 0 if we cannot tell."""
        if self.need is None or len(self._heard) < self.need:
            return 0
        index = self._sure
        if self.need:
            index = min(index, sorted(self._heard.values(), reverse=True)[self.need - 1])
        return index if index > self.commit and self._log[index].ballot == self.promised else 0

    def _commit(self, index: int) -> list[Entry]:
        if index <= self.commit:
            return []
        log = self._log
        committed = [log[i] for i in range(self.commit + 1, index + 1)]
        self.commit = index
        return committed

    def _promise(self, ballot: Ballot) -> None:
        """Follow a newer sequencer: what was said under older ballots does not count any more."""
        self.promised = ballot
        self.need = None
        self._heard.clear()
        self._sure = 0

    def ack(self, applied: int, eager: bool = True) -> Ack:
        return Ack(self.promised, self.stream, self.voter, self.end, applied, eager)

    def prepare(self, frame: Prepare) -> Promise | Nack:
        """Answer a would-be sequencer (K1)."""
        if frame.ballot <= self.promised:
            return Nack(self.promised)
        self._promise(frame.ballot)
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
