"""The frames of total order: requests, logs, promises, heartbeats, and updates of blank keepers."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from typing import Any

from .events import Ballot, Entry
from .frame import Frame

Numbers = dict[str, tuple[int, int, int]]
"""Origin -> incarnation and number of its last request in a stream, and how many parts of it are there (S5)."""


# ---- order: 32 to 47 (`sequencer.md` section 2)


class Request(Frame):
    """Order these events. `number` is the origin's next number; a repeat is answered again, not done again.

    Attributes:
        parts: (stream, encoded event) pairs; each gets its own place in its stream, all in this order.
        patient: nobody waits for it, so it may leave with what comes next (`sequencer/patient_entries.py`).
    """

    origin: str
    inc: int
    number: int
    parts: list[tuple[str, bytes]]
    patient: bool = False


class Results(Frame):
    """These requests of the origin's incarnation `inc` are committed (in the cluster stream: and applied by every
    member)."""

    inc: int
    numbers: list[int]


class LogReport(Frame):
    """The state of a keeper's log; while a sequencer prepares, this is the keeper's promise too (K1, S1).

    Attributes:
        have, ballot, seq: index, ballot and seq of the last entry the keeper holds.
        promised: the ballot it follows; it accepts nothing below.
        commit, base: its commit index, and the index up to which it has forgotten the entries.
        log_inc: incarnation of the log: the life in which it was born or rejoined last, whatever process keeps it now.
        blank: the keeper has lost its log and does not vote (K4).
        numbers: as of `commit` (S5).
        incs: voter -> incarnation of the log that has joined or rejoined last, as of `commit`: no older one counts.
        uncommitted_incs: the same for the entries behind `commit`.
        voters: the voters as of `commit`, or, if the log has a change of them behind it, before the last one.
        change: index of the last change of the voters, if it is behind `commit`, else 0.
        changed: the voters after that change.
        joins: by the entries behind `commit` this very log joins: blank or not, it has forgotten nothing.
        minor: minor version of the protocol that the voter speaks, from 3 on: an updater writes for its reader.
        over: broker -> the newest incarnation of it whose numbers are dropped, as of `commit` (`log/numbers.py`).
        life: incarnation under which the process keeps the log; 0 before 3: then it is `log_inc`.
        opened: the life that kept this log before; 0: it was born in this one (`durable.md` 4).
        lives: voter -> the life that joined, rejoined or returned last, by all entries that the keeper holds.
        stored: the log is on disk: it comes back with the next life.
        whole: False: an update has brought what is up to `have`, and it is not on disk: it is sent what is behind, and
            counts as holding nothing until it acknowledges.
        earlier: the lives that have kept this log before, `opened` the last of them; empty before 8 (`log/earlier.py`).
    """

    stream: str
    voter: str
    have: int
    ballot: Ballot
    promised: Ballot = (0, 0)
    seq: int = 0
    commit: int = 0
    base: int = 0
    log_inc: int = 0
    blank: bool = False
    numbers: Numbers = {}
    incs: dict[str, int] = {}
    uncommitted_incs: dict[str, int] = {}
    voters: list[str] = []
    change: int = 0
    changed: list[str] = []
    joins: bool = False
    minor: int = 0
    over: dict[str, int] = {}
    life: int = 0
    opened: int = 0
    lives: dict[str, int] = {}
    stored: bool = False
    whole: bool = True
    earlier: list[int] = []


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
        voters: the voters with which the stream begins, if `previous` is 0: a blank keeper does not know them.
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
        eager: the voter acts on commits (it has consumers, or waits for events of its own), so they must reach it at
            once. Another voter learns of them with the next entries, or about `Timing.lazy_ms` later.
    """

    ballot: Ballot
    stream: str
    voter: str
    match: int
    applied: int
    eager: bool = True


class Gap(Frame):
    """The voter lacks the entry before an `Append`: the sequencer goes on behind `have`."""

    ballot: Ballot
    stream: str
    voter: str
    have: int


class Nack(Frame):
    """The process has promised a higher ballot."""

    promised: Ballot


class Prepare(Frame):
    ballot: Ballot


class Promise(Frame):
    """A broker's promise that it and its replicas follow `ballot`: their logs come as `LogReport`.

    Attributes:
        hosting: ids of the queues it keeps. Of any other queue it has an empty log, and cannot have voted.
        blank: the broker has lost its log: its promise does not count (K4).
        log_inc, life, opened, earlier: of its log of the cluster stream, as in `LogReport`.
    """

    ballot: Ballot
    broker: str
    log_inc: int
    blank: bool
    hosting: list[str]
    life: int = 0
    opened: int = 0
    earlier: list[int] = []


class Fetch(Frame):
    """Send entries `first` to `last` of `stream`: the new sequencer adopts them (S2).

    Attributes:
        most_bytes: send at most this many bytes, but at least one entry; 0: send all. The sequencer asks for the rest.
    """

    ballot: Ballot
    stream: str
    first: int
    last: int
    most_bytes: int = 0


class Fetched(Frame):
    """Entries from `first` on; fewer than were asked for, if all have more than `most_bytes`. `previous_ballot` is that
    of the entry before `first`."""

    ballot: Ballot
    stream: str
    first: int
    previous_ballot: Ballot
    entries: list[Entry]


class Heartbeat(Frame):
    """The sequencer of `ballot` leads and lives. `sure`: the last heartbeat that a majority of the brokers answered,
    which renews the lease of each broker that got that one (B4).

    Attributes:
        older: brokers that are known to speak a minor version before 2; None: the sequencer itself does.
        duty: the Ownership that is on duty (`lock/duty.py`); "": the first, by a sequencer that knows of no other.
        turn: how often the duty has changed under this ballot.
        least: the least minor version that a broker or the sequencer speaks, as far as they have answered.
    """

    ballot: Ballot
    number: int
    sure: int
    older: list[str] | None = None
    duty: str = ""
    turn: int = 0
    least: int = 0


class HeartbeatReply(Frame):
    """A broker's or an Ownership's answer. `inc`: of its process. `minor`: of the protocol it speaks, from 2 on."""

    ballot: Ballot
    number: int
    broker: str
    inc: int = 0
    minor: int = 0


class Orphaned(Frame):
    """A replica's last frame: its link to its broker is gone, and that link never leaves their machine. The sequencer
    judges whether the broker lives: it has a link of its own."""

    broker: str


class Suspect(Frame):
    """To a standby: the sequencer of `ballot` has been silent for too long, says `broker`. `members`: the voters of the
    cluster stream, to its knowledge."""

    ballot: Ballot
    broker: str
    members: list[str] = []


class Leave(Frame):
    """`broker` is to leave the cluster: take it out of the voters of every stream, of the queues in `hosting` first.

    Attributes:
        inc: its incarnation, which asks for itself; 0: another broker asks, which counts only if `broker` is evicted.
        hosting: all queues there are by the cluster stream up to entry `index`: a queue declared behind that may have
            `broker` among its voters.
    """

    broker: str
    inc: int
    hosting: list[str]
    index: int


class Left(Frame):
    """Answer to `Leave`: `broker` is no voter of the cluster stream, and its present process will not become one."""

    broker: str


class Evicted(Frame):
    """The receiver's incarnation is out, or too far behind: end the process and come back as a new one, without a log,
    or with the one that it has on disk.

    Attributes:
        forget: that log does not count any more: come back blank.
        stream: which log that is.
    """

    reason: str
    forget: bool = False
    stream: str = ""


# ---- who supervises: 53


class Supervised(Frame):
    """The supervisor in office: a broker tells its replicas and the sequencers, and a sequencer tells Ownership."""

    number: int
    id: str
    name: str


# ---- bringing a keeper up to date: 80 to 87 (`design.md` section 8)


class Update(Frame):
    """From the sequencer: bring the blank keeper of `stream` at the peer `updatee` up to date. `minor`: the version of
    the protocol that it speaks, as in its `LogReport`."""

    stream: str
    updatee: str
    minor: int = 0


class UpdateStart(Frame):
    """The sync point: all but the messages. The entries behind `index` come from the sequencer.

    Attributes:
        ballot, seq: of entry `index`.
        numbers, incs, voters, over: as in `LogReport`. lives: as there, as of `index`.
        state: a `QueueSnapshot`, or the wiring's snapshot.
        number: of the update, among those that its updater has given of the stream; 0: by a program before minor 3.
        log: the last entries up to `index`, oldest first; `log_ballot` and `log_seq` are of the one before them. Other
            voters may not have got as far, and a voter whose log is adopted must have the entries that they lack.
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
    over: dict[str, int] = {}
    lives: dict[str, int] = {}
    number: int = 0


class UpdatePiece(Frame):
    """A piece of an `UpdateStart` that is large: all of them, put together, are its payload (`log/pieces.py`).

    Attributes:
        number: of the update, as in `UpdateStart`.
        chunk: counts from 1; the `UpdateFront`s of the update count on from the last piece.
        size, checksum: of the whole: bytes, and CRC-32.
    """

    stream: str
    updater: str
    updatee: str
    number: int
    chunk: int
    size: int
    checksum: int
    data: bytes


class UpdateHave(Frame):
    """The updatee's answer to an `UpdateStart`: it has these messages already, from an earlier log of its own or an
    update that was cut off. An updater before minor 3 does not know it, and sends all.

    Attributes:
        index, number: of the sync point, and of the update, as in `UpdateStart`.
        ranges: positions, ``[first, last, ...]``.
    """

    stream: str
    index: int
    ranges: list[int]
    number: int = 0


class UpdateFront(Frame):
    """Messages of the sync point that are still there, from the back to the front.

    Attributes:
        chunk: counts from 1, or from the last `UpdatePiece` on.
        last: the end (`update_done`). Messages that were not sent have been dequeued by event `index` or before.
    """

    stream: str
    chunk: int
    ranges: list[int]
    blobs: list[bytes]
    last: bool
    index: int


class UpdateTaken(Frame):
    """The updatee has `chunk`: the updater may send more; -1: it need not, another is listened to. The sequencer hears
    it of an `UpdatePiece` as well: as long as pieces come it names no other updater.

    Attributes:
        number: of the update, as in `UpdateStart`.
    """

    stream: str
    chunk: int
    number: int = 0
