"""The streams without a majority that one broker has been told of, and by which sequencer.

A leader may wait for the voters of a queue that is deleted: one that had not heard of the deletion has told it of its
log, and lost that log when it was brought up to date. Who knows better says so, else the leader would wait for ever.
"""

from __future__ import annotations

from typing import NamedTuple

from ..log.outbox import FollowerOutbox
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import CLUSTER
from ..wire.log_frames import LogDropped
from ..wire.majority_frames import Waiting, Waits
from .cluster_state import ClusterState

_RANK = {"standby": 0, "preparing": 1, "leading": 2}


class LastWord(NamedTuple):
    """What counts now of what sequencers have said.

    Attributes:
        streams: those that are named; `more` others wait as well.
        by: the sequencer that says so, "" for none; in `role`, `heard_ms` ago.
    """

    streams: tuple[Waiting, ...] = ()
    more: int = 0
    by: str = ""
    role: str = ""
    heard_ms: int = 0


class WaitsHeard:
    """What one broker has been told of streams that wait.

    The leader's word counts as long as it speaks; without one, the last that anybody said.
    """

    __slots__ = ("_by", "_cluster", "_frame", "_heard_ms", "_outbox", "_timing")

    def __init__(self, outbox: FollowerOutbox, cluster: ClusterState, timing: Timing = DEFAULT_TIMING) -> None:
        self._outbox = outbox
        self._cluster = cluster
        self._timing = timing
        self._by = ""
        self._frame: Waits | None = None
        self._heard_ms = 0

    def hear(self, peer: str, frame: Waits, now_ms: int) -> None:
        known = self._frame
        recent = known is not None and now_ms - self._heard_ms < self._timing.waits_recent_ms
        if known is not None and recent and peer != self._by:
            if (_RANK.get(frame.role, 0), frame.ballot) < (_RANK.get(known.role, 0), known.ballot):
                return
        self._by, self._frame, self._heard_ms = peer, frame, now_ms
        if frame.role == "leading":
            for waiting in frame.streams:
                if self._deleted(waiting):
                    self._outbox.send(peer, LogDropped(waiting.stream, self._cluster.broker))

    def _deleted(self, waiting: Waiting) -> bool:
        """Whether this broker is waited for with a queue whose declaration it has applied, and whose deletion."""
        cluster, stream = self._cluster, waiting.stream
        if stream == CLUSTER or cluster.keeper.blank or cluster.broker not in waiting.voters:
            return False
        declared_at = int(stream.rpartition("#")[2])
        return declared_at <= cluster.keeper.commit and all(stream != kept.id for kept in cluster.wiring.all_kept())

    def waits(self, stream: str, now_ms: int) -> bool:
        """Whether that stream has no majority, as far as is known; of those that were not named one is as good as
        another."""
        frame = self._frame
        if frame is None or now_ms - self._heard_ms > self._timing.waits_kept_ms:
            return False
        return frame.more > 0 or any(waiting.stream == stream for waiting in frame.streams)

    def report(self, now_ms: int) -> LastWord:
        frame = self._frame
        if frame is None or now_ms - self._heard_ms > self._timing.waits_kept_ms:
            return LastWord()
        return LastWord(tuple(frame.streams), frame.more, self._by, frame.role, now_ms - self._heard_ms)
