"""The frames of order: requests, logs, promises, heartbeats, and bringing a keeper up to date. See `frames.py`."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from typing import Any

from .events import Ballot, Entry
from .frame import Frame

Numbers = dict[str, tuple[int, int, int]]
"""Origin -> incarnation and number of its last request in a stream, and how many parts of that are in it (S5)."""


# ---- order: 32 to 47 (`sequencer.md` section 2)


class Request(Frame):
    """Order these events. `number` is the origin's next number; a repeat is answered again, not done again.

    Attributes:
        parts: (stream, encoded event) pairs; each gets its own place in its stream, all in this order.
    """

    origin: str
    inc: int
    number: int
    parts: list[tuple[str, bytes]]


class Results(Frame):
    """These requests of your incarnation `inc` are committed (for the cluster stream: and applied by every member)."""

    inc: int
    numbers: list[int]


class LogReport(Frame):
    """A keeper of `stream` reports for duty; while a sequencer prepares, this is its promise too (K1, S1).

    Attributes:
        have, ballot, seq: index, ballot and seq of the last entry it holds.
        promised: the ballot it follows; nothing below it will be accepted.
        commit, base: what it knows to be committed, and up to where it has forgotten the entries.
        inc: incarnation of the process.
        blank: it has lost its log and does not vote (K4).
        numbers: as of `commit` (S5).
        incs: voter -> incarnation that has joined or rejoined last, as of `commit`: nothing older may speak for it.
        rising: the same, by what is behind `commit`.
        voters: whose logs count; as of `commit`, or, if that is not `have`, before the last change.
        change: index of the last change of the voters, if it is behind `commit`, else 0.
        changed: the voters after it.
        joins: that log holds the event by which this very incarnation joins: blank or not, it has forgotten nothing.
    """

    stream: str
    voter: str
    have: int
    ballot: Ballot
    promised: Ballot = (0, 0)
    seq: int = 0
    commit: int = 0
    base: int = 0
    inc: int = 0
    blank: bool = False
    numbers: Numbers = {}
    incs: dict[str, int] = {}
    uncommitted_incs: dict[str, int] = {}
    voters: list[str] = []
    change: int = 0
    changed: list[str] = []
    joins: bool = False


class LogDropped(Frame):
    stream: str
    voter: str


class Append(Frame):
    """Entries after `previous`; without entries it only carries the commit index (the heartbeat is `Heartbeat`).

    Attributes:
        commit: every index up to here is committed.
        trim: every voter holds the log up to here: older entries may be forgotten.
        distinguished_learner: peer name of the one keeper that acts on commits, if there is just one. Other keepers
            acknowledge to it at once, and to the sequencer a little later: so it learns of a commit one hop earlier.
        quorum_needed: how many of their acknowledgements, with the distinguished learner's own, are a majority.
        voters: whose logs count when the stream begins, if `previous` is 0: a blank keeper does not know.
    """

    ballot: Ballot
    stream: str
    previous: int
    previous_ballot: Ballot
    commit: int
    trim: int
    entries: list[Entry]
    distinguished_learner: str = ""
    quorum_needed: int = 0
    voters: list[str] = []


class Ack(Frame):
    """The voter holds the stream's log up to `match` and has applied it, so knows it committed, up to `applied`.

    Attributes:
        eager: it acts on commits (it has consumers, or waits for events of its own), so they must reach it at once.
            Another hears of them with the next entries, or a little later.
    """

    ballot: Ballot
    stream: str
    voter: str
    match: int
    applied: int
    eager: bool = True


class Gap(Frame):
    """The entry before an `Append` is missing here; the log is good up to `have`."""

    ballot: Ballot
    stream: str
    voter: str
    have: int


class Nack(Frame):
    """A higher ballot was promised."""

    promised: Ballot


class Prepare(Frame):
    ballot: Ballot


class Promise(Frame):
    """A broker's word that it and its replicas follow `ballot`: their logs come as `LogReport`.

    Attributes:
        hosting: ids of the queues it keeps. Of any other queue it has an empty log, and cannot have voted.
        blank: it has lost its log: its word counts for nothing (K4).
    """

    ballot: Ballot
    broker: str
    inc: int
    blank: bool
    hosting: list[str]


class Fetch(Frame):
    """Send entries `first` to `last` of `stream`: the new sequencer adopts them (S2).

    Attributes:
        most_bytes: of no more than so many bytes, but at least one; 0: of all. The rest is asked for then.
    """

    ballot: Ballot
    stream: str
    first: int
    last: int
    most_bytes: int = 0


class Fetched(Frame):
    """Entries from `first` on; fewer than were asked for, if they have too many bytes. `previous_ballot` is that of the
    entry before `first`."""

    ballot: Ballot
    stream: str
    first: int
    previous_ballot: Ballot
    entries: list[Entry]


class Heartbeat(Frame):
    """The sequencer of `ballot` leads and lives. `sure`: the last beat that a majority of the brokers has answered,
    which renews the lease of whoever got that one (B4).

    Attributes:
        older: brokers that speak a minor version before 2, as far as they have answered; None: told by a sequencer that
            does so itself.
        duty: the Ownership that is on duty (`lock/duty.py`); "": the first, by a sequencer that knows of no other.
        turn: how often that has changed under this ballot.
    """

    ballot: Ballot
    number: int
    sure: int
    older: list[str] | None = None
    duty: str = ""
    turn: int = 0


class HeartbeatReply(Frame):
    """A broker's answer to a `Heartbeat`, or an Ownership's. `inc`: its incarnation; one that is out may not have been
    told.
    `minor`: version of the protocol that it speaks (`version.py`), from 2 on."""

    ballot: Ballot
    number: int
    broker: str
    inc: int = 0
    minor: int = 0


class Orphaned(Frame):
    """A replica's last word: its broker is gone, by a link that never leaves their machine. Whether the broker lives is
    the sequencer's to judge: it has a link of its own."""

    broker: str


class Suspect(Frame):
    """To a standby: the sequencer of `ballot` has been silent for too long, says `broker`. `members`: who votes, to its
    knowledge."""

    ballot: Ballot
    broker: str
    members: list[str] = []


class Leave(Frame):
    """`broker` is to leave the cluster: take it out of the voters of every stream, of the queues in `hosting` first.

    Attributes:
        inc: its incarnation, which asks for itself; 0: another broker asks, and it counts only if it is evicted.
        hosting: all queues there are by the cluster stream up to entry `index`: one declared behind that may have it
            among its voters.
    """

    broker: str
    inc: int
    hosting: list[str]
    index: int


class Left(Frame):
    """Answer to `Leave`: `broker` is no voter of the cluster stream, and will not become one as the process it is."""

    broker: str


class Evicted(Frame):
    """This incarnation is out, or too far behind: end the process and come back as a new one, blank."""

    reason: str


# ---- who supervises: 53


class Supervised(Frame):
    """A broker tells its replicas and the sequencers who supervises the cluster, and these tell Ownership."""

    number: int
    id: str
    name: str


# ---- bringing a keeper up to date: 80 to 87 (`design.md` section 8)


class Update(Frame):
    """From the sequencer: bring the blank keeper of `stream` at the peer `updatee` up to date."""

    stream: str
    updatee: str


class UpdateStart(Frame):
    """The sync point: all but the messages. What is committed behind `index` comes from the sequencer.

    Attributes:
        ballot, seq: of entry `index`.
        numbers, incs, voters: as in `LogReport`.
        state: `QueueState.outline`, or the wiring's snapshot.
        log: the last entries up to `index`, oldest first; `log_ballot` and `log_seq` are of the one before them. Other
            voters may not have got as far, and whoever is adopted from must be able to give them what they lack.
    """

    stream: str
    updater: str
    updatee: str
    index: int
    ballot: Ballot
    seq: int
    numbers: Numbers
    incs: dict[str, int]
    state: Any
    voters: list[str] = []
    log: list[Entry] = []
    log_ballot: Ballot = (0, 0)
    log_seq: int = 0


class UpdateFront(Frame):
    """Messages of the sync point that are still there, from the back to the front.

    Attributes:
        chunk: counts from 1.
        last: the end (`update_done`). What was not sent has been dequeued by event `index` or before.
    """

    stream: str
    chunk: int
    ranges: list[int]
    blobs: list[bytes]
    last: bool
    index: int


class UpdateTaken(Frame):
    """The updatee has `chunk`: more may come."""

    stream: str
    chunk: int
