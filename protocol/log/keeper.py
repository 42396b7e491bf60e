"""A keeper: holds one stream's log, votes with its acknowledgements, and applies what is committed, in order.

Rules K1 to K4 of `sequencer.md`. The keeper knows nothing of what the events mean, but for two, which change the
voters: a `Rejoin` and a `Member`. Its owner applies the entries that `append` and `learn` return, and reports how far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import LocalError
from ..wire.events import ZERO, AnyEvent, Ballot, Entry, Member, Rejoin, Return, decode_event
from ..wire.log_frames import Ack, Append, Fetch, Fetched, Gap, LogReport, Nack, Numbers, UpdateStart
from ..wire.version import MINOR
from .durability import Durability
from .earlier import lives_since
from .history import StreamHistory
from .kept_log import KeptLog
from .numbers import drop_numbers, note_number
from .quorum import change

ENTRY_BYTES = 64
"""Bytes of an entry in a frame besides its event, about."""


class Keeper(KeptLog):
    """The log of one stream at one voter.

    Args:
        life: incarnation under which its process keeps the stream.
        blank: an earlier incarnation of this voter may have held a log: it does not vote until it has rejoined (K4).
        promised: the ballot the process follows already.
        voters: the voters with which the stream begins.
        log_inc: incarnation of the log, if it is older than the process; None: it begins with it.
        opened: the life that kept the log before; 0 for none.
        stored: the log is on disk.

    Attributes:
        life, opened, stored: as given.
        log_inc: incarnation of the log: the life in which it was born or rejoined last (`durable.md` 4).
        earlier: the lives that have kept the log before, as in `LogReport`.
        promised: the highest ballot seen; nothing below it is accepted (K1). Never decreases.
        commit: the commit index; every entry up to it has been handed out by `append` or `learn`.
        numbers, over: last request of each origin, and of which brokers none is taken any more (`numbers.py`), as of
            `commit`.
        incs: voter -> the incarnation of the log that joined or rejoined last, as of `commit`.
        lives: voter -> the life that joined, rejoined or returned last, as of `commit`.
        voters: the stream's voters, as of `commit`.
        quorum_needed: as the distinguished learner, how many other voters must hold an entry for it to be committed;
            None: this keeper is not the distinguished learner.
        durability: what of the log is on disk, if the stream is durable.
    """

    def __init__(
        self,
        stream: str,
        voter: str,
        life: int = 0,
        blank: bool = False,
        promised: Ballot = ZERO,
        voters: Sequence[str] = (),
        log_inc: int | None = None,
        opened: int = 0,
        stored: bool = False,
    ) -> None:
        super().__init__()
        self.stream = stream
        self.voter = voter
        self.life = life
        self.log_inc = life if log_inc is None else log_inc
        self.opened = opened
        self.earlier: list[int] = []
        self.stored = stored
        self.blank = blank
        self.promised = promised
        self.commit = 0
        self.numbers: Numbers = {}
        self.over: dict[str, int] = {}
        self.incs: dict[str, int] = {}
        self.lives: dict[str, int] = {}
        self.voters = list(voters)
        self._change = 0  # index of the last change of the voters in the log
        self.quorum_needed: int | None = None
        self._heard: dict[str, int] = {}  # voter -> how far it has acknowledged, under the promised ballot
        self._sure = 0  # up to here the log equals that of the promised ballot's sequencer
        self.durability: Durability | None = None

    @property
    def returning(self) -> bool:
        """Its process has come with an earlier life's log, and the stream does not say so yet (`durable.md` S9)."""
        return self.opened > 0 and not self.blank and self.lives.get(self.voter, 0) < self.life

    # ---- promises

    def promise(self, ballot: Ballot) -> None:
        """Follow a newer sequencer: acknowledgements under older ballots no longer count (K1)."""
        if ballot > self.promised:
            self.promised = ballot
            self.quorum_needed = None
            self._heard.clear()
            self._sure = 0

    def log_report(self) -> LogReport:
        """All that a sequencer must know to adopt this log or to continue it; while it prepares, the promise too."""
        uncommitted: dict[str, int] = {}
        lives = dict(self.lives)
        voters, changed, change_at, joins = self.voters, self.voters, 0, False
        end, ballot, seq = self._said()
        for index in range(self.commit + 1, end + 1):
            event = _own_event(self._log[index])
            note_log(uncommitted, event)
            note_life(lives, event)
            if type(event) is Member:
                voters, changed, change_at = changed, list(changed), index
                change(changed, event)
                if event.broker == self.voter:
                    joins = event.present and event.inc == self.log_inc
        return LogReport(
            self.stream, self.voter, end, ballot, self.promised, seq, self.commit, self.base, self.log_inc, self.blank,
            dict(self.numbers), dict(self.incs), uncommitted, list(voters), change_at,
            list(changed) if change_at else [], joins, MINOR, dict(self.over), self.life, self.opened, lives,
            self.stored, self.durability is None or self.durability.whole, list(self.earlier),
        )  # fmt: skip

    def _said(self) -> tuple[int, Ballot, int]:
        """Index, ballot and seq of the last entry that others are told of: that on disk, if the stream is durable."""
        found = self.durability
        if found is None or found.flushed >= self.end:
            return self.end, self.end_ballot, self.end_seq
        return (found.flushed, *self.place(found.flushed))

    def fetch(self, frame: Fetch) -> Fetched | None:
        """The entries a sequencer adopts from this log, or the first of them; None if they are not there."""
        if frame.ballot != self.promised or frame.first <= self.base or frame.last > self.end:
            return None
        entries: list[Entry] = []
        size = 0
        for index in range(frame.first, frame.last + 1):
            entry = self._log[index]
            size += len(entry.event) + ENTRY_BYTES
            if frame.most_bytes and entries and size > frame.most_bytes:
                break
            entries.append(entry)
        return Fetched(frame.ballot, self.stream, frame.first, self._ballot_at(frame.first - 1), entries)

    # ---- the log

    def begin(self, frame: Append) -> None:
        """A blank log that is told the stream from its beginning: who voted then."""
        if self.blank and not frame.previous and not self.end and frame.voters:
            self.voters = list(frame.voters)

    def append(self, frame: Append) -> tuple[list[Entry], Gap | Nack | None]:
        """Take an `Append`.

        Returns:
            The entries newly committed, in order, to be applied now (the first has index ``commit before + 1``), and
            the answer that must go out instead of an acknowledgement, if any.
        """
        if frame.ballot < self.promised:
            return [], Nack(self.promised)
        if frame.ballot > self.promised:
            self.promise(frame.ballot)
        previous = frame.previous
        self.begin(frame)
        if previous > self.end:
            return [], Gap(frame.ballot, self.stream, self.voter, self.end)
        if previous > self.base and previous > self.commit and self._ballot_at(previous) != frame.previous_ballot:
            return [], Gap(frame.ballot, self.stream, self.voter, self.commit)
        index = previous
        for entry in frame.entries:
            index += 1
            if index <= self.end:
                if index <= self.commit or self._log[index].ballot == entry.ballot:
                    continue
                self._drop_from(index)
            if not entry.origin and type(decode_event(entry.event)) is Member:
                self._change = index
            self._log[index] = entry
            self.end = index
            self.end_ballot = entry.ballot
            self.end_seq = entry.seq
        if index > self._sure:
            self._sure = index
        known = min(frame.commit, index)
        if self.durability is not None:
            known = self.durability.appended(frame, self.end, known)
        committed = self._commit(known if self.quorum_needed is None else max(known, self._learned()))
        if frame.trim > self.base:
            self._trim(min(frame.trim, self.commit))
        return committed, None

    def learn(self, ack: Ack) -> list[Entry]:
        """Take another voter's acknowledgement, as the distinguished learner; returns the entries it commits."""
        if ack.ballot != self.promised:
            return []
        if ack.match > self._heard.get(ack.voter, 0):
            self._heard[ack.voter] = ack.match
        return self._commit(self._learned())

    def wrote(self) -> list[Entry]:
        """More of the log is on disk: the entries that are committed, and only now may be applied (K5)."""
        found = self.durability
        return self._commit(max(min(found.known, found.flushed), self._learned())) if found is not None else []

    def _learned(self) -> int:
        """The largest index that a majority, with this voter, holds of the promised ballot's term (S4); 0: unknown."""
        if self.quorum_needed is None or self._change > self.commit or self.voter not in self.voters:
            return 0
        others: list[int] = []
        for voter in self.voters:
            if voter != self.voter:
                others.append(self._heard.get(voter, 0))
        others.sort(reverse=True)
        needed = len(self.voters) // 2
        held = self._sure if self.durability is None else min(self._sure, self.durability.flushed)
        index = min(held, others[needed - 1]) if needed else held
        return index if index > self.commit and self._log[index].ballot == self.promised else 0

    def _commit(self, index: int) -> list[Entry]:
        if index <= self.commit:
            return []
        log, numbers = self._log, self.numbers
        committed = [log[i] for i in range(self.commit + 1, index + 1)]
        for entry in committed:
            if entry.origin:
                note_number(numbers, entry)
            else:
                self._own_entry(entry)
        self.commit = index
        return committed

    def _own_entry(self, entry: Entry) -> None:
        """An entry of the sequencer's own is committed: it may change the voters, or give this voter its vote back."""
        event = _own_event(entry)
        note_log(self.incs, event)
        note_life(self.lives, event)
        drop_numbers(self.numbers, self.over, event)
        if type(event) is Member:
            change(self.voters, event)
        if self.blank and self.incs.get(self.voter) == self.log_inc:
            self.blank = False

    def ack(self, applied: int, eager: bool = True) -> Ack:
        # Entries behind `_sure` are an older sequencer's; this one has not confirmed them: they are not acknowledged.
        match, found = max(self._sure, self.commit), self.durability
        if found is not None and match > (flushed := found.flushed if found.whole else 0):
            match = flushed
        return Ack(self.promised, self.stream, self.voter, match, applied, eager)

    def restore(self, frame: UpdateStart) -> None:
        """Begin at a sync point: events before it are known by their outcome only."""
        if not self.blank:
            raise LocalError(f"stream {self.stream}: a keeper that votes keeps its log and takes no update (K4)")
        self.end = self.commit = frame.index
        self.base = frame.index - len(frame.log)
        self.end_ballot, self.end_seq = frame.ballot, frame.seq
        self._base_ballot, self._base_seq = (
            (frame.log_ballot, frame.log_seq) if frame.log else (frame.ballot, frame.seq)
        )
        self.numbers = dict(frame.numbers)
        self.over = dict(frame.over)
        self.incs = dict(frame.incs)
        self.lives = dict(frame.lives)
        self.voters = list(frame.voters)
        self._change = 0
        self.earlier = []
        self._log = dict(enumerate(frame.log, self.base + 1))
        self._sure = 0
        self._heard.clear()
        if self.durability is not None:
            self.durability.restored(frame.index)

    def resume(self, history: StreamHistory) -> list[Entry]:
        """Begin where an earlier life of this voter ended, by its records: it is the same voter, and votes at once.

        Returns:
            The entries behind the checkpoint that were known committed, to be applied now.
        """
        found = history.checkpoint
        self.commit, self.end, self.blank = history.base, history.end, history.blank
        self.base, self._base_ballot, self._base_seq, self._log = history.kept()
        self.end_ballot, self.end_seq = self.place(self.end)
        self.voters = list(history.voters)
        if found is not None:
            self.numbers, self.over = dict(found.numbers), dict(found.over)
            self.incs, self.lives = dict(found.incs), dict(found.lives)
        self.earlier = lives_since(self.lives.get(self.voter, 0), [*history.earlier, history.life])
        for index, entry in self._log.items():
            if type(_own_event(entry)) is Member:
                self._change = index
        if self.durability is not None:
            self.durability.resumed(self.end, history.commit)
        return self._commit(history.commit)

    def update(self, updater: str, updatee: str, state: Any, number: int = 0) -> UpdateStart:
        """The sync point of the updater's update of that number: `state` is the outcome of the committed entries."""
        first = self._tail(self.commit)
        return UpdateStart(
            self.stream,
            updater,
            updatee,
            self.commit,
            *self.place(self.commit),
            dict(self.numbers),
            dict(self.incs),
            state,
            list(self.voters),
            [self._log[index] for index in range(first + 1, self.commit + 1)],
            *self.place(first),
            dict(self.over),
            dict(self.lives),
            number,
        )

    def _drop_from(self, index: int) -> None:
        """Drop the suffix from `index` on, which a newer sequencer overrules."""
        if index <= self.commit:
            raise LocalError(f"stream {self.stream}: entry {index} is committed and cannot be dropped (K2)")
        self._cut(index)
        if self.durability is not None:
            self.durability.dropped(index)


def _own_event(entry: Entry) -> AnyEvent | None:
    """The event of an entry of the sequencer's own; None for any other entry."""
    return decode_event(entry.event) if not entry.origin else None


def note_log(incs: dict[str, int], event: AnyEvent | None) -> None:
    """Note the incarnation of a voter's log that counts from this event on."""
    if type(event) is Rejoin:
        incs[event.voter] = max(event.inc, incs.get(event.voter, 0))
    elif type(event) is Member and event.present:  # a leaving broker counts until it has left
        incs[event.broker] = max(event.inc, incs.get(event.broker, 0))


def note_life(lives: dict[str, int], event: AnyEvent | None) -> None:
    """Note the life of a voter that keeps the stream from this event on: no older one speaks for it."""
    if type(event) is Return:
        lives[event.voter] = max(event.life, lives.get(event.voter, 0))
    else:
        note_log(lives, event)
