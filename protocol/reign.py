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
from .streams import StreamView

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
        recovery: how many voters' logs must be known, so that every commit quorum has one of them.

    Attributes:
        role: STANDBY, PREPARING or LEADING.
        highest: the highest ballot heard of.
        markers: broker -> its promise.
    """

    def __init__(self, members: list[str], recovery: int, role: str) -> None:
        self.members = members
        self.recovery = recovery
        self.role = role
        self.highest: Ballot = ZERO
        self.markers: dict[str, Promised] = {}
        self.asked_ms = 0
        self._majority = len(members) // 2 + 1
        self._suspicions: dict[str, int] = {}  # broker -> when
        self._quorum_ms: dict[str, int] = {}  # stream -> since when there is one

    # ---- being asked

    def suspected(self, frame: Suspect, now_ms: int) -> bool:
        """A broker suspects the leader; whether that makes it enough to take over."""
        self.highest = max(self.highest, frame.ballot)
        self._suspicions[frame.broker] = now_ms
        count = sum(now_ms - at <= SUSPICION_MS for at in self._suspicions.values())
        return self.role == STANDBY and count >= self._majority

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

    def voters(self, stream: StreamView, cluster: dict[str, int]) -> tuple[dict[str, Subscribe], int]:
        """Whose logs count.

        Args:
            cluster: the floor of the cluster stream.

        Returns:
            (voter -> its promise, for those that keep a log; how many have an empty one).
        """
        floor = self.floor(stream)
        logs: dict[str, Subscribe] = {}
        empty = 0
        for voter in self.members:
            _, voice = stream.voices.get(voter, ("", None))
            marker = self.markers.get(voter)
            if voice is not None:
                if not voice.blank and voice.inc >= floor.get(voter, 0):
                    logs[voter] = voice
            elif (
                marker is not None
                and stream.name != CLUSTER
                and not marker.blank
                and marker.inc >= cluster.get(voter, 0)
                and stream.name not in marker.hosting
            ):
                empty += 1
        return logs, empty

    def source(
        self, stream: StreamView, cluster: dict[str, int], linked: set[str], now_ms: int
    ) -> tuple[str, Subscribe | None, int] | None:
        """What to adopt for a stream, if a recovery quorum has promised.

        Returns:
            (peer that holds the log, its promise, first entry to fetch); ("", None, 1) for an empty log; None: wait.
        """
        logs, empty = self.voters(stream, cluster)
        if len(logs) + empty < self.recovery:
            self._quorum_ms.pop(stream.name, None)
            return None
        since = self._quorum_ms.setdefault(stream.name, now_ms)
        silent = [m for m in self.members if m in linked and m not in stream.voices and m not in self.markers]
        if silent and now_ms - since < GRACE_MS:
            return None
        if not logs:
            return "", None, 1
        voter = max(logs, key=lambda v: (logs[v].ballot, logs[v].have))
        best = logs[voter]
        needed = min([best.commit, *(log.have if log.ballot == best.ballot else log.commit for log in logs.values())])
        return stream.voices[voter][0], best, max(best.base, needed - MARGIN) + 1

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
