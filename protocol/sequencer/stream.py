"""One stream at the sequencer: its log, its keepers, and the rule by which entries are committed.

Nothing of it is durable: a new sequencer learns it from the keepers (`sequencer.md` section 1).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from ..log.keeper import note_life
from ..log.numbers import drop_numbers, is_over, note_number
from ..log.quorum import change, held_by_majority, majority, recovery_quorum
from ..status.machines import StreamStatus
from ..wire.events import ZERO, Ballot, Entry, Member, decode_event
from ..wire.log_frames import Fetched, LogReport, Numbers
from .pending import Part, Pending
from .progress import Progress

ALL_PARTS = 1 << 30


class Stream:
    """One stream.

    Attributes:
        ready: its log has been adopted (or it began in this term).
        reports: voter -> (peer, what it said of its log), as long as the stream is not ready, or it is too far
            behind and cannot be spared.
        asked: the peer its log is being fetched from, "": none. asked_for: up to which entry. pieces: what has come.
        voters: whose logs count, as committed; empty until a keeper has said.
        change, changed: index of a change of the voters that is not committed (0: none is under way), and the voters
            behind it.
        settled: index of the last change that was committed in this term.
        incs, lives: as in `LogReport`, with what this term has ordered.
        returned: voter -> (incarnation of its log, index of the entry by which it joins or rejoins, 0 for long ago).
        counted: voter -> the incarnation of the log whose promise counted when the log was adopted.
        deferred: parts of requests that wait until it is ready, in order.
        start: index of this term's `Start`: once that is committed, so is all that was adopted.
        stored: its keepers have it on disk, as one of them has said.
        eager, sendable: index of the last entry that is not patient, and up to which entries may go to the keepers
            (`patient_entries.py`).
        held: every voter that is waited for holds the log up to here; what is kept below is for those that are away.
        left: voter whose log is on disk, and which is away -> up to where it held the log; -1: nothing is kept for it.
    """

    __slots__ = (
        "asked", "asked_for", "away", "base", "base_ballot", "change", "changed", "commit", "counted", "deferred",
        "eager", "end", "gone", "held", "incs", "keepers", "left", "lives", "log", "name", "numbers", "over", "pieces",
        "ready", "repeats", "reports", "returned", "sendable", "settled", "size", "start", "stored", "total", "updates",
        "voters", "waiting", "waiting_from",
    )  # fmt: skip

    def __init__(self, name: str, voters: Sequence[str] = ()) -> None:
        self.name = name
        self.voters = list(voters)
        self.change = 0
        self.changed: list[str] = []
        self.settled = 0
        self.returned: dict[str, tuple[int, int]] = {}
        self.counted: dict[str, int] = {}
        self.ready = False
        self.end = 0
        self.commit = 0
        self.base = 0  # entries up to here are forgotten
        self.base_ballot: Ballot = ZERO
        self.log: dict[int, Entry] = {}
        self.total = 0  # bytes of all its events so far
        self.size: dict[int, int] = {0: 0}  # index -> `total` up to and including it, as far back as the log goes
        self.keepers: dict[str, Progress] = {}
        self.gone: set[str] = set()  # voters that have dropped their logs for good
        self.stored = False
        self.eager = self.sendable = 0
        self.held = 0
        self.left: dict[str, int] = {}
        self.away: set[str] = set()  # voters that were here and whose link broke, or that are not yet back
        self.waiting: dict[int, Pending] = {}  # index -> request part to answer, in index order
        self.waiting_from = 1
        self.start = 0
        self.repeats: list[Pending] = []  # parts that are in the adopted log already
        self.numbers: Numbers = {}
        self.over: dict[str, int] = {}
        self.incs: dict[str, int] = {}
        self.lives: dict[str, int] = {}
        self.reports: dict[str, tuple[str, LogReport]] = {}
        self.deferred: list[Part] = []
        self.asked = ""
        self.asked_for = 0
        self.pieces: Fetched | None = None
        self.updates: dict[str, int] = {}  # peer -> how many updaters it was given: the next one is another

    def ballot_at(self, index: int) -> Ballot:
        entry = self.log.get(index)
        if entry is not None:
            return entry.ballot
        return self.base_ballot if index == self.base else ZERO

    def first_voters(self) -> list[str]:
        """The voters with which a stream begins whose whole log is here: without the changes of them that are in it."""
        first = list(self.voters)
        for index in range(self.end, 0, -1):
            entry = self.log[index]
            event = decode_event(entry.event) if not entry.origin and index != self.change else None
            if type(event) is Member:
                change(first, Member(event.broker, event.inc, not event.present))
        return first

    def put(self, entry: Entry, noted: bool = False) -> None:
        """The next entry of the log; `noted`: the tables of numbers know it already."""
        self.end += 1
        self.log[self.end] = entry
        self.total += len(entry.event)
        self.size[self.end] = self.total
        if noted:
            return
        if entry.origin:
            note_number(self.numbers, entry)
        else:
            event = decode_event(entry.event)
            drop_numbers(self.numbers, self.over, event)
            note_life(self.lives, event)

    def forget(self, upto: int) -> None:
        self.base_ballot = self.ballot_at(upto)
        for index in range(self.base, upto):
            self.log.pop(index + 1, None)
            self.size.pop(index, None)
        self.base = upto

    def parts_held(self, origin: str, inc: int, number: int) -> int:
        """How many of that request's parts are in the log already: a request may have been cut in two."""
        seen = self.numbers.get(origin)
        if seen is None or (inc, number) > seen[:2]:
            return 0
        return seen[2] if (inc, number) == seen[:2] else ALL_PARTS

    def refuses(self, origin: str, inc: int) -> bool:
        """Whether nothing that incarnation asks for is taken here: it is over, and what is here of it not known."""
        return bool(self.over) and is_over(self.over, origin, inc)

    # ---- the rule of commitment

    def voting(self) -> list[Progress]:
        return [keeper for keeper in self.keepers.values() if keeper.voting]

    def majority_index(self) -> int:
        """The index up to which a majority holds the log, of this term (S4); 0 for none. The voters before a change
        commit no further than the change (K4)."""
        held = {voter: keeper.match for voter, keeper in self.keepers.items() if keeper.voting}
        index = held_by_majority(self.voters, held)
        if index < self.start:
            return 0
        return min(index, self.change) if self.change else index

    def shown(self, members: Iterable[str]) -> int:
        """The index up to which every member has applied the stream: members that are starting count too, those whose
        link broke or that are blank do not."""
        upto, keepers = self.commit, self.keepers
        for member in members:
            if member not in self.away:
                upto = min(upto, keepers[member].applied if member in keepers else 0)
        return upto

    def stands_without(self, member: str, alive: Container[str] | None = None) -> bool:
        """Whether the other voters that are counted now (those of them that are `alive`) are a majority."""
        if self.change:
            return False  # two sets of voters count until it is committed
        others = (voter for voter, keeper in self.keepers.items() if keeper.voting and voter != member)
        sure = (voter for voter in others if alive is None or voter in alive)
        return sum(voter in self.voters for voter in sure) >= majority(self.voters)

    def can_return(self, voter: str) -> bool:
        """Whether the voters that are counted now are enough to give this one its vote back."""
        voting = {v for v, keeper in self.keepers.items() if keeper.voting and v != voter}
        return all(
            len(voting.intersection(voters)) >= recovery_quorum(voters)
            for voters in (self.voters, self.changed)
            if voters
        )

    # ---- its keepers

    def part(self, voter: str) -> None:
        """A voter is not counted on any more, until it reports again."""
        keeper = self.keepers.pop(voter, None)
        if keeper is not None and self.stored:  # one without a vote comes back through an update
            self.left[voter] = keeper.match if keeper.voting else -1
        self.away.add(voter)

    def report(self) -> StreamStatus:
        return StreamStatus(
            end=self.end,
            commit=self.commit,
            ready=self.ready,
            lag={voter: self.end - keeper.match for voter, keeper in self.keepers.items()},
            blank=[voter for voter, keeper in self.keepers.items() if not keeper.voting],
            missing=[voter for voter in self.voters if voter not in self.keepers],
            voters=list(self.voters),
            changing=list(self.changed),
        )
