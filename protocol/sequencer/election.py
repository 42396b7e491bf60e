"""How a standby becomes the sequencer: it is asked to by a majority, prepares, and adopts (`sequencer.md` S1 to S3).

    standby -- a majority of the brokers suspects the leader --> preparing -- cluster stream adopted --> leading

Every stream is adopted on its own, once a recovery quorum of its voters has promised: whoever keeps the stream says so
with `LogReport`; a broker that does not keep it (`Promise.hosting`) has an empty log and cannot have voted; one that
has lost its log counts for nothing (K4). The log adopted is the one whose last entry has the highest ballot, and of
those the longest (S2).
"""

from __future__ import annotations

from enum import StrEnum

from ..errors import LocalError
from ..limits import DEFAULT, Limits
from ..log.earlier import is_old
from ..log.quorum import majority, recovery_quorum
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import CLUSTER, ZERO, Ballot, Member, Rejoin, decode_event
from ..wire.log_frames import Fetch, Fetched, LogReport, Promise, Suspect
from .stream import Stream


class Role(StrEnum):
    """The roles of a sequencer."""

    STANDBY = "standby"
    """It waits until a majority of the brokers suspects the leader. Requests are not taken."""

    PREPARING = "preparing"
    """It has asked for promises under a ballot of its own, and adopts the cluster stream when it has a recovery quorum.
    A higher ballot of another sequencer makes it stand by again."""

    LEADING = "leading"
    """It has adopted the cluster stream (or the cluster began with it) and orders events. It stays so until it ends: a
    higher ballot of another sequencer deposes it for good (S7)."""


STANDBY, PREPARING, LEADING = Role
MOVES: dict[Role, set[Role]] = {
    STANDBY: {STANDBY, PREPARING},
    PREPARING: {STANDBY, LEADING},
    LEADING: set(),
}
"""The legal moves of one sequencer."""

MARGIN = 256
"""Entries adopted before those that are needed, for a keeper that is a little behind."""


class Election:
    """The way of one sequencer from standing by to leading.

    Args:
        members: the voters of the cluster stream.

    Attributes:
        role: STANDBY, PREPARING or LEADING.
        deposed: a higher ballot that was seen: this sequencer has stopped for good (S7).
        highest: the highest ballot heard of.
        promises: broker -> its promise.
    """

    def __init__(
        self, members: list[str], role: Role, timing: Timing = DEFAULT_TIMING, limits: Limits = DEFAULT
    ) -> None:
        self._suspicion_ms = timing.suspicion_ms
        self._grace_ms = timing.recovery_grace_ms
        self._fetch_bytes = limits.fetch_bytes
        self.members = members
        self.role = role
        self.deposed: Ballot | None = None
        self.highest: Ballot = ZERO
        self.promises: dict[str, Promise] = {}
        self.asked_ms = 0
        self._suspicions: dict[str, int] = {}  # broker -> when
        self._quorum_ms: dict[str, int] = {}  # stream -> since when there is one

    # ---- being asked

    def suspected(self, frame: Suspect, now_ms: int) -> bool:
        """A broker suspects the leader; whether that makes it enough to take over."""
        self.highest = max(self.highest, frame.ballot)
        members = frame.members or self.members
        self._suspicions[frame.broker] = now_ms
        count = sum(now_ms - at <= self._suspicion_ms for broker, at in self._suspicions.items() if broker in members)
        return self.role == STANDBY and count > len(members) // 2

    def become(self, role: Role) -> None:
        """Move on.

        Raises:
            LocalError: `MOVES` has no such move.
        """
        if role not in MOVES[self.role]:
            raise LocalError(f"a sequencer that is {self.role} does not become {role}: see MOVES")
        self.role = role

    def prepare(self, uid: int) -> Ballot:
        """Prepare to lead; returns the ballot to ask for promises under."""
        self.promises.clear()  # a promise is of one ballot
        self.become(PREPARING)
        return self.highest[0] + 1, uid

    def give_up(self, higher: Ballot) -> None:
        """Another sequencer has a higher ballot: wait to be asked again."""
        self.highest = max(self.highest, higher)
        self.become(STANDBY)
        self.promises.clear()
        self._suspicions.clear()
        self._quorum_ms.clear()

    # ---- adopting

    def floor(self, stream: Stream) -> dict[str, int]:
        """Voter -> the incarnation of its log that joined or rejoined last, by any log; above that of a log which is an
        old copy (`durable.md` S10)."""
        floor, lives = dict(stream.incs), dict(stream.lives)
        for _, frame in stream.reports.values():
            for table in (frame.incs, frame.uncommitted_incs):
                for voter, inc in table.items():
                    floor[voter] = max(inc, floor.get(voter, 0))
            for voter, life in frame.lives.items():
                lives[voter] = max(life, lives.get(voter, 0))
        promises = self.promises if stream.name == CLUSTER else {}
        said = [(voter, frame) for voter, (_, frame) in stream.reports.items()]
        for voter, frame in (*said, *promises.items()):
            if is_old(frame, lives):
                floor[voter] = max(frame.log_inc + 1, floor.get(voter, 0))
        return floor

    def logs(self, stream: Stream) -> dict[str, LogReport]:
        """Voter -> its promise, of those that keep a log that counts: a blank one does if any voter knows as committed
        that it is back, or if its own log says that this very incarnation joins."""
        floor, sure = self.floor(stream), committed_incs(stream)
        return {
            voter: report
            for voter, (_, report) in stream.reports.items()
            if report.log_inc >= floor.get(voter, 0)
            and (
                not report.blank or report.joins or (report.have and report.whole and report.log_inc == sure.get(voter))
            )
        }

    def empty(self, stream: Stream, cluster: dict[str, int]) -> set[str]:
        """Voters that have no log of it, and so cannot have voted. `cluster`: the floor of the cluster stream."""
        if stream.name == CLUSTER:
            return set()
        return {
            voter
            for voter, promise in self.promises.items()
            if voter not in stream.reports
            and not promise.blank
            and promise.log_inc >= cluster.get(voter, 0)
            and stream.name not in promise.hosting
        }

    def source(
        self, stream: Stream, cluster: dict[str, int], members: list[str], linked: set[str], now_ms: int
    ) -> tuple[str, LogReport | None, int] | None:
        """The log to adopt for a stream, if a recovery quorum has promised: of its voters by the best log, and, if that
        log changes them, of those after the change too.

        Args:
            cluster: the floor of the cluster stream.
            members: the voters of a stream of which no voter has a log.
            linked: peers there is a link to.

        Returns:
            (peer that holds the log, its promise, first entry to fetch); ("", None, 1) for an empty log; None: wait.
        """
        logs = self.logs(stream)
        best_voter, quorums, known = self.standing(stream, cluster, members)
        best = logs.get(best_voter)
        if any(sum(v in known for v in voters) < needed for voters, needed in quorums):
            self._quorum_ms.pop(stream.name, None)
            return None
        since = self._quorum_ms.setdefault(stream.name, now_ms)
        asked = [v for voters, _ in quorums for v in voters]
        silent = [v for v in asked if v in linked and v not in stream.reports and v not in self.promises]
        if silent and now_ms - since < self._grace_ms:
            return None
        stream.counted = known
        if best is None:
            return "", None, 1
        needed = min([best.commit, *(log.have if log.ballot == best.ballot else log.commit for log in logs.values())])
        if best.stored and not stream.reports.keys() >= set(asked):
            needed = 0  # one is away that comes back with its log: all that there is, for it (`retention.py`)
        return stream.reports[best_voter][0], best, max(best.base, needed - MARGIN) + 1

    def standing(
        self, stream: Stream, cluster: dict[str, int], members: list[str]
    ) -> tuple[str, list[tuple[list[str], int]], dict[str, int]]:
        """Of a stream that is not adopted: the voter with the best log ("" for none); sets of voters, and of how many
        of each the logs must be known; whose are, and their incarnations. Arguments as in `source`."""
        logs = self.logs(stream)
        empty = self.empty(stream, cluster)
        # Of equals the one that goes back furthest: a voter that is not here yet may be far behind.
        best_voter = max(logs, key=lambda v: (logs[v].ballot, logs[v].have, -logs[v].base), default="")
        best = logs.get(best_voter)
        if best is None:
            # No log says who its voters are, so a majority of the members must speak: some may have joined since.
            quorums = [(members, majority(members))]
        else:
            quorums = [(voters, recovery_quorum(voters)) for voters in _last_voters(stream, best, members)]
        known = {voter: logs[voter].log_inc for voter in logs} | {
            voter: self.promises[voter].log_inc for voter in empty
        }
        return best_voter, quorums, known | _entering(stream, best)

    def fetch(self, ballot: Ballot, stream: Stream, last: int, first: int) -> Fetch:
        return Fetch(ballot, stream.name, first, last, self._fetch_bytes)


def _holds(report: LogReport) -> bool:
    """Whether a blank log has anything, on disk if it is durable."""
    return report.have > 0 and report.whole


def committed(stream: Stream) -> int:
    """Up to where the stream is committed, by any voter's word."""
    return max((report.commit for _, report in stream.reports.values()), default=0)


def committed_incs(stream: Stream) -> dict[str, int]:
    """Voter -> the incarnation of its log that joined or rejoined last, by what any voter knows as committed."""
    incs: dict[str, int] = {}
    for _, report in stream.reports.values():
        for voter, inc in report.incs.items():
            incs[voter] = max(inc, incs.get(voter, 0))
    return incs


def _last_voters(stream: Stream, best: LogReport, members: list[str]) -> list[list[str]]:
    """Whose logs count by the best log: after its last change of the voters, and, unless that is known to be committed,
    before it too."""
    before = best.voters or members
    if not best.change:
        return [before]
    return [best.changed] if committed(stream) >= best.change else [before, best.changed]


def _entering(stream: Stream, best: LogReport | None) -> dict[str, int]:
    """The voters that join by the best log's last change, in the incarnation that joins. Such a voter has lost nothing:
    it has never acknowledged what it does not hold, though its own log does not yet say that it votes."""
    entering = set(best.changed).difference(best.voters) if best is not None else set()
    return {
        voter: report.log_inc
        for voter, (_, report) in stream.reports.items()
        if best is not None and voter in entering and report.log_inc == best.uncommitted_incs.get(voter)
    }


def adopt(stream: Stream, best: LogReport | None, fetched: Fetched | None) -> None:
    """Make a keeper's log the stream's (S2). Without `best` the log is empty."""
    if best is None:
        return
    stream.base = stream.end = fetched.first - 1 if fetched is not None else best.have
    stream.base_ballot = fetched.previous_ballot if fetched is not None else best.ballot
    stream.log.clear()
    stream.size = {stream.base: 0}
    stream.numbers = dict(best.numbers)
    for _, report in stream.reports.values():
        for table, theirs in ((stream.over, report.over), (stream.lives, report.lives)):
            for broker, inc in theirs.items():
                table[broker] = max(inc, table.get(broker, 0))
    for entry in fetched.entries if fetched is not None else []:
        stream.put(entry, noted=stream.end < best.commit)
    stream.commit = max(best.commit, committed(stream))
    stream.stored = best.stored
    stream.held = max(min(stream.commit, stream.end), stream.base) if best.stored else stream.base
    sure = committed_incs(stream)
    for table in (best.incs, best.uncommitted_incs, sure):
        for voter, inc in table.items():
            stream.incs[voter] = max(inc, stream.incs.get(voter, 0))
    stream.returned = {voter: (inc, 0) for voter, inc in sure.items()}
    for index in range(stream.commit + 1, stream.end + 1):
        entry = stream.log[index]
        event = decode_event(entry.event) if not entry.origin else None
        if type(event) is Rejoin:
            stream.returned[event.voter] = event.inc, index
        elif type(event) is Member and event.present:
            stream.returned[event.broker] = event.inc, index
    if best.voters:
        stream.voters[:] = best.voters
    if best.change > stream.commit:
        stream.change, stream.changed = best.change, list(best.changed)
    elif best.change:
        stream.voters[:] = best.changed
