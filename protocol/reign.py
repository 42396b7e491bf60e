"""How a standby becomes the sequencer: it is asked to by a majority, prepares, and adopts (`sequencer.md` S1 to S3).

    standby -- a majority of the brokers suspects the leader --> preparing -- cluster stream adopted --> leading

Every stream is adopted on its own, once a recovery quorum of its voters has promised: whoever keeps the stream says so
with `Subscribe`; a broker that does not keep it (`Promised.hosting`) has an empty log and cannot have voted; one that
has lost its log counts for nothing (K4). What is adopted is the log whose last entry has the highest ballot, and of
those the longest (S2).
"""

from __future__ import annotations

from .events import CLUSTER, ZERO, Ballot
from .frames import Fetch, Fetched, Promised, Subscribe, Suspect
from .streams import StreamView, recovery_quorum

STANDBY, PREPARING, LEADING = "standby", "preparing", "leading"
SUSPICION_MS = 1000
"""A suspicion counts for so long: brokers repeat it every beat."""
PREPARE_MS = 500
"""How often those that have not answered are asked again."""
GRACE_MS = 100
"""How long a recovery quorum waits for the others that are linked, so that they need no update afterwards."""
MARGIN = 256
"""Entries adopted before those that are needed, for a keeper that is a little behind."""


class Reign:
    """The way to the throne of one sequencer.

    Args:
        members: the brokers.

    Attributes:
        role: STANDBY, PREPARING or LEADING.
        highest: the highest ballot heard of.
        markers: broker -> its promise.
    """

    def __init__(self, members: list[str], role: str) -> None:
        self.members = members
        self.role = role
        self.highest: Ballot = ZERO
        self.markers: dict[str, Promised] = {}
        self.asked_ms = 0
        self._suspicions: dict[str, int] = {}  # broker -> when
        self._quorum_ms: dict[str, int] = {}  # stream -> since when there is one

    # ---- being asked

    def suspected(self, frame: Suspect, now_ms: int) -> bool:
        """A broker suspects the leader; whether that makes it enough to take over."""
        self.highest = max(self.highest, frame.ballot)
        members = frame.members or self.members
        self._suspicions[frame.broker] = now_ms
        count = sum(now_ms - at <= SUSPICION_MS for broker, at in self._suspicions.items() if broker in members)
        return self.role == STANDBY and count > len(members) // 2

    def give_up(self, higher: Ballot) -> None:
        """Somebody else has a higher ballot: wait to be asked again."""
        self.highest = max(self.highest, higher)
        self.role = STANDBY
        self.markers.clear()
        self._suspicions.clear()
        self._quorum_ms.clear()

    # ---- adopting

    def floor(self, stream: StreamView) -> dict[str, int]:
        """Voter -> the incarnation that rejoined last, by anybody's log."""
        floor = dict(stream.incs)
        for _, frame in stream.voices.values():
            for voter, inc in frame.incs.items():
                floor[voter] = max(inc, floor.get(voter, 0))
        return floor

    def logs(self, stream: StreamView) -> dict[str, Subscribe]:
        """Voter -> its promise, of those that keep a log that counts."""
        floor = self.floor(stream)
        return {
            voter: voice
            for voter, (_, voice) in stream.voices.items()
            if not voice.blank and voice.inc >= floor.get(voter, 0)
        }

    def empty(self, stream: StreamView, cluster: dict[str, int]) -> set[str]:
        """Voters that have no log of it, and so cannot have voted. `cluster`: the floor of the cluster stream."""
        if stream.name == CLUSTER:
            return set()
        return {
            voter
            for voter, marker in self.markers.items()
            if voter not in stream.voices
            and not marker.blank
            and marker.inc >= cluster.get(voter, 0)
            and stream.name not in marker.hosting
        }

    def source(
        self, stream: StreamView, cluster: dict[str, int], members: list[str], linked: set[str], now_ms: int
    ) -> tuple[str, Subscribe | None, int] | None:
        """What to adopt for a stream, if a recovery quorum has promised: of its voters by the best log, and, if that
        log changes them, of those after the change too.

        Args:
            cluster: the floor of the cluster stream.
            members: the voters of a stream of which nobody has a log.
            linked: peers there is a link to.

        Returns:
            (peer that holds the log, its promise, first entry to fetch); ("", None, 1) for an empty log; None: wait.
        """
        logs = self.logs(stream)
        known = {*logs, *self.empty(stream, cluster)}
        best_voter = max(logs, key=lambda v: (logs[v].ballot, logs[v].have), default="")
        best = logs.get(best_voter)
        if best is None:
            quorums = [members]
        else:
            quorums = [best.voters or members] + ([best.changed] if best.changed else [])
        joining = self._joining(stream, best)
        if any(sum(v in known or v in joining for v in voters) < recovery_quorum(voters) for voters in quorums):
            self._quorum_ms.pop(stream.name, None)
            return None
        since = self._quorum_ms.setdefault(stream.name, now_ms)
        silent = [v for v in quorums[0] if v in linked and v not in stream.voices and v not in self.markers]
        if silent and now_ms - since < GRACE_MS:
            return None
        if best is None:
            return "", None, 1
        needed = min([best.commit, *(log.have if log.ballot == best.ballot else log.commit for log in logs.values())])
        return stream.voices[best_voter][0], best, max(best.base, needed - MARGIN) + 1

    def _joining(self, stream: StreamView, best: Subscribe | None) -> set[str]:
        """Who is let in by a change under way and is still the one it names: blank, but it never was a voter before, so
        there is nothing it could have forgotten."""
        if best is None:
            return set()
        new = set(best.changed) - set(best.voters)
        return {v for v in new if v in stream.voices and stream.voices[v][1].inc == best.incs.get(v)}

    @staticmethod
    def fetch(ballot: Ballot, stream: StreamView, best: Subscribe, first: int) -> Fetch:
        return Fetch(ballot, stream.name, first, best.have)


def adopt(stream: StreamView, best: Subscribe | None, fetched: Fetched | None) -> None:
    """Make a keeper's log the stream's (S2). Without `best` the log is empty."""
    if best is None:
        return
    stream.base = stream.end = fetched.first - 1 if fetched is not None else best.have
    stream.base_ballot = fetched.previous_ballot if fetched is not None else best.ballot
    stream.log.clear()
    stream.size = {stream.base: 0}
    stream.numbers = dict(best.numbers)
    for entry in fetched.entries if fetched is not None else []:
        stream.put(entry, noted=stream.end < best.commit)
    stream.commit = best.commit
    stream.incs = dict(best.incs)
    stream.voters = list(best.voters) or stream.voters
    if best.changed:  # it is under way again: our first entry commits it, or not
        stream.changed = list(best.changed)
        stream.change = stream.end
