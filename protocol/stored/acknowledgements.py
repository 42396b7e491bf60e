"""One durable queue's acknowledgements: when entries are on disk, not when they have come (K2')."""

from __future__ import annotations

from ..log.durability import Promises
from ..log.keeper import Keeper
from ..replica.acknowledgements import Acknowledgements
from ..replica.outbox import QueueOutbox
from ..timing import Timing
from ..wire.events import Entry
from ..wire.log_frames import Append


class StoredAcknowledgements(Acknowledgements):
    """Args:
    promises: of the process: the learner, too, is told nothing under a promise that is not on disk.
    """

    __slots__ = ("_distinguished", "_promises")

    def __init__(self, keeper: Keeper, outbox: QueueOutbox, timing: Timing, promises: Promises) -> None:
        super().__init__(keeper, outbox, timing)
        self._promises = promises
        self._distinguished = ""  # the learner, by the last entries

    def append(self, leader: str, frame: Append) -> list[Entry]:
        """Take entries of the leader, which this process follows; returns what may be applied now."""
        keeper = self._keeper
        learner = self._distinguished = "" if keeper.blank else frame.distinguished_learner
        keeper.quorum_needed = frame.quorum_needed if learner == self._name else None
        committed, refusal = keeper.append(frame)
        if refusal is not None:
            self._outbox.send(leader, refusal)
        elif frame.entries and keeper.durability is not None and keeper.durability.flushed >= keeper.end:
            self.wrote()  # it has them all
        return committed

    def wrote(self) -> None:
        """More is on disk: tell the learner at once and the sequencer soon, or that one at once."""
        keeper, outbox, learner = self._keeper, self._outbox, self._distinguished
        self.needed = True
        distinguished = learner == self._name
        told = learner in outbox.fellows and self._promises.kept(keeper.promised)
        if keeper.commit >= keeper.end or not (distinguished or told):
            self.due_ms = 0
        else:
            self.due_ms = self.due_ms or outbox.now_ms + self._acknowledge_ms
            if distinguished:
                outbox.set_timer(self._id, self.due_ms)
            else:
                self.learner = learner
        outbox.dirty[self._id] = None
