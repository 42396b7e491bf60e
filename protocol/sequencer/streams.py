"""What a sequencer knows of each stream, each keeper and each submitter. Nothing of it is durable: a new sequencer
learns it from the keepers (`sequencer.md` section 1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..log.keeper import note_number
from ..wire.events import ZERO, Ballot, Entry
from ..wire.log_frames import Fetched, LogReport, Numbers

ALL_PARTS = 1 << 30


class Origin:
    """A submitter: the last number taken of its newest incarnation, and where its answers go."""

    __slots__ = ("inc", "last", "peer", "unanswered")

    def __init__(self, peer: str, inc: int) -> None:
        self.peer = peer
        self.inc = inc
        self.last = 0
        self.unanswered: set[int] = set()


class Pending:
    """A request of which some parts are not committed yet."""

    __slots__ = ("left", "number", "origin")

    def __init__(self, origin: Origin, number: int) -> None:
        self.origin = origin
        self.number = number
        self.left = 0


class Part(NamedTuple):
    """A part of a request on its way into a stream: of those `origin` asks for there, it is number `place`, from 1."""

    pending: Pending
    origin: str
    place: int
    event: bytes


class Progress:
    """What is known of one keeper of a stream.

    Attributes:
        next, match, applied: the entry to send next; what it holds; what it has applied.
        voting: False while it is blank: it is sent entries but does not count (K4).
        catch_up_to: what was committed when it first acknowledged anything: it may vote when it holds that; -1: it
            has not.
        updating: it lacks what came before the log: `updater` brings it up to date; another one from `remind_ms` on.
        rejoin: index of the entry that will give it its vote back, 0 for none.
    """

    __slots__ = (
        "applied",
        "catch_up_to",
        "eager",
        "inc",
        "match",
        "next",
        "peer",
        "rejoin",
        "remind_ms",
        "sent_commit",
        "updater",
        "updating",
        "voting",
    )

    def __init__(self, peer: str, inc: int, have: int, voting: bool) -> None:
        self.peer = peer
        self.inc = inc
        self.next = have + 1
        self.match = have
        self.applied = 0
        self.eager = True
        self.sent_commit = -1
        self.voting = voting
        self.updating = False
        self.updater = ""
        self.remind_ms = 0
        self.rejoin = 0
        self.catch_up_to = -1


class Stream:
    """One stream.

    Attributes:
        ready: its log has been adopted (or it began in this term).
        reports: voter -> (peer, what it said of its log), as long as the stream is not ready, or it is too far
            behind and cannot be spared.
        asked: whom its log is being fetched from, "" for nobody. asked_for: up to which entry. pieces: what has come.
        voters: whose logs count, as committed; empty as long as nobody has said.
        change, changed: index of a change of the voters that is not committed (0: none is under way), and the voters
            behind it.
        settled: index of the last change that was committed in this term.
        returned: voter -> (incarnation, index of the entry by which it joins or rejoins, 0 for long ago).
        counted: voter -> the incarnation whose promise counted when the log was adopted.
        deferred: parts of requests that wait until it is ready, in order.
        start: index of this term's `Start`: once that is committed, so is all that was adopted.
    """

    __slots__ = (
        "asked", "asked_for", "away", "base", "base_ballot", "change", "changed", "commit", "counted", "deferred",
        "end", "gone", "incs", "keepers", "log", "name", "numbers", "pieces", "ready", "repeats", "reports",
        "returned", "settled", "size", "start", "total", "updates", "voters", "waiting", "waiting_from",
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
        self.away: set[str] = set()  # voters that were here and whose link broke, or that are not yet back
        self.waiting: dict[int, Pending] = {}  # index -> request part to answer, in index order
        self.waiting_from = 1
        self.start = 0
        self.repeats: list[Pending] = []  # parts that are in the adopted log already
        self.numbers: Numbers = {}
        self.incs: dict[str, int] = {}
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

    def put(self, entry: Entry, noted: bool = False) -> None:
        """The next entry of the log; `noted`: the table of numbers knows it already."""
        self.end += 1
        self.log[self.end] = entry
        self.total += len(entry.event)
        self.size[self.end] = self.total
        if entry.origin and not noted:
            note_number(self.numbers, entry)

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

    def report(self) -> dict[str, object]:
        return {
            "end": self.end,
            "commit": self.commit,
            "ready": self.ready,
            "lag": {voter: self.end - keeper.match for voter, keeper in self.keepers.items()},
            "blank": [voter for voter, keeper in self.keepers.items() if not keeper.voting],
            "missing": [voter for voter in self.voters if voter not in self.keepers],
            "voters": self.voters,
            "changing": self.changed,
        }

    def voting(self) -> list[Progress]:
        return [keeper for keeper in self.keepers.values() if keeper.voting]
