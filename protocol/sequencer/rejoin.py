"""How a keeper that has lost its log gets its vote back: an updater is named for it, and its vote counts again (K4).

A keeper is named an updater if the log no longer reaches back to what it lacks, then sent entries without being
counted; an entry in the log itself says when it votes again. That entry is ordered in `membership.py`.
"""

from __future__ import annotations

from ..log.quorum import recovery_quorum
from ..outbox import Outbox
from ..timing import DEFAULT_TIMING, Timing
from ..wire.log_frames import Update
from .order import Order
from .progress import KeeperState, Progress
from .stream import Stream


def patience(keeper: Progress) -> bool:
    """Sort key: those that act on commits first."""
    return not keeper.eager


class Rejoins:
    """The updates that are under way, and the votes that come back."""

    def __init__(self, order: Order, outbox: Outbox, timing: Timing = DEFAULT_TIMING) -> None:
        self._update_retry_ms = timing.update_retry_ms
        self._order = order
        self._outbox = outbox

    def update(self, stream: Stream, keeper: Progress) -> None:
        """Name an updater, each time another: the one before may have died. It must know that it votes, and that all is
        committed which is not in the log any more; if none does, one will be found at the next beat."""
        knowing = [other for other in stream.voting() if other.sent_commit >= max(stream.base, other.rejoin)]
        able = [other.peer for other in sorted(knowing, key=patience, reverse=True)]
        keeper.remind_ms = self._outbox.now_ms + (self._update_retry_ms if able else 0)
        if able:
            before = stream.updates.get(keeper.peer, len(stream.updates))
            keeper.updater = able[before % len(able)]
            stream.updates[keeper.peer] = before + 1
            self._outbox.send(keeper.updater, Update(stream.name, keeper.peer, keeper.minor))

    def progress(self, name: str, peer: str) -> None:
        """A piece of an update to that peer was on its way just now."""
        stream = self._order.streams.get(name)
        for keeper in stream.keepers.values() if stream is not None else ():
            if keeper.peer == peer and keeper.updating:
                keeper.remind_ms = self._outbox.now_ms + self._update_retry_ms

    def remind(self) -> None:
        """Name an updater again where nothing is seen of an update: no voter could give it, its first frame was lost
        with a link, or its updater is gone."""
        for stream in self._order.streams.values():
            for keeper in [one for one in stream.keepers.values() if one.updating]:
                here = any(other.peer == keeper.updater for other in stream.keepers.values())
                if not here or self._outbox.now_ms >= keeper.remind_ms:
                    self.update(stream, keeper)

    def vote(self, stream: Stream, voter: str, keeper: Progress) -> None:
        """Count a keeper's vote (again) once a recovery quorum of the other voters holds its `Rejoin` entry, or that is
        committed. Each majority has one of them, so a sequencer that comes to lead by the promise of an older
        incarnation meets the entry before it commits anything (`recovery.mistaken`)."""
        others = {v for v, k in stream.keepers.items() if k.voting and v != voter and k.match >= keeper.rejoin}
        enough = len(others.intersection(stream.voters)) >= recovery_quorum(stream.voters)
        if enough or keeper.rejoin <= stream.commit:
            keeper.become(KeeperState.VOTING)
            stream.incs[voter] = keeper.log_inc
            stream.away.discard(voter)
