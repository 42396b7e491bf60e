"""One queue's keeper and those who wait for its acknowledgements: the distinguished learner, told at once, and the
sequencer, told at once or up to `Timing.acknowledge_ms` later where the learner's acknowledgement makes this one
superfluous."""

from __future__ import annotations

from ..log.keeper import Keeper
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import Entry
from ..wire.log_frames import Append
from .outbox import QueueOutbox


class Acknowledgements:
    """Attributes:
    needed: the sequencer is to be told.
    due_ms: when it must be told at the latest; 0 for now.
    eager: what it was last told: whether this broker has consumers of the queue, or waits for an event of its own.
    learner: the distinguished learner that must be told first, at once: peer name of another replica, "" for none.
    """

    __slots__ = ("_acknowledge_ms", "_id", "_keeper", "_name", "_outbox", "due_ms", "eager", "learner", "needed")

    def __init__(self, keeper: Keeper, outbox: QueueOutbox, timing: Timing = DEFAULT_TIMING) -> None:
        self._acknowledge_ms = timing.acknowledge_ms
        self.needed = False
        self.due_ms = 0
        self.eager = False
        self.learner = ""
        self._id = keeper.stream
        self._keeper = keeper
        self._name = outbox.name
        self._outbox = outbox

    def append(self, leader: str, frame: Append) -> list[Entry]:
        """Take entries of the leader, which this process follows; returns what is newly committed."""
        keeper, outbox = self._keeper, self._outbox
        learner = "" if keeper.blank else frame.distinguished_learner
        distinguished = learner == self._name
        keeper.quorum_needed = frame.quorum_needed if distinguished else None
        committed, refusal = keeper.append(frame)
        if refusal is not None:
            outbox.send(leader, refusal)
            return committed
        if frame.entries:
            self.needed = True
            if keeper.commit >= keeper.end or not (distinguished or learner in outbox.fellows):
                self.due_ms = 0
                outbox.dirty[self._id] = None
            else:  # the distinguished learner acknowledges when it knows the commit, all others to it first
                self.due_ms = self.due_ms or outbox.now_ms + self._acknowledge_ms
                if distinguished:
                    outbox.set_timer(self._id, self.due_ms)
                else:
                    self.learner = learner
                    outbox.dirty[self._id] = None
        return committed

    def acknowledge(self, applied: int, eager: bool) -> None:
        """Tell the sequencer how far this replica is: now, or when it must be told. One that becomes eager says so
        at once."""
        outbox = self._outbox
        if self.due_ms > outbox.now_ms and eager <= self.eager:
            outbox.set_timer(self._id, self.due_ms)
            return
        self.needed = False
        self.due_ms = 0
        self.eager = eager
        outbox.lead(self._keeper.ack(applied, eager))
