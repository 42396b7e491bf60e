"""Logs of queues that their broker had left when it died (`sequencer.md` K4, `durable.md` 4).

A broker that leaves is taken out of its queues one by one. If it dies before it is out of all, and comes back with its
disk, it stays a member: its disk has logs of queues in which it votes no more; of a queue that was declared while it
left, it begins one as a voter would; and it is taken out of others a little later. Such a log counts for nothing, and a
blank one would be let in; so it is told to come back without it, as soon as enough others know that it has left.
"""

from __future__ import annotations

from ..outbox import Outbox
from ..wire.log_frames import Evicted, LogReport
from .membership import Membership
from .order import Order
from .stream import Stream


def outlived(frame: LogReport) -> bool:
    """Whether an earlier life has kept this log, or nobody has told it anything, and this life has not come back with
    it as a voter: a broker that leaves now has, in each queue that it is out of."""
    return not (frame.opened or frame.have) or 0 < frame.opened < frame.life > frame.lives.get(frame.voter, 0)


class LeftLogs:
    """The logs of that kind that have been reported, until their keepers are told or gone.

    Attributes:
        _found: (stream, peer) that has one -> voter.
        _late: (stream, voter) that was taken out after it had come back; also when it is told, as that may be lost
            with a link, and then it reports once more.
    """

    def __init__(self, order: Order, outbox: Outbox, membership: Membership) -> None:
        self._order = order
        self._outbox = outbox
        self._membership = membership
        self._found: dict[tuple[str, str], str] = {}
        self._late: set[tuple[str, str]] = set()

    def found(self, peer: str, frame: LogReport) -> None:
        """A keeper that is no voter of a queue's stream has a log of it."""
        if outlived(frame) or (frame.stream, frame.voter) in self._late:
            self._found[frame.stream, peer] = frame.voter
            self.look()

    def left(self, stream: Stream, voter: str, peer: str) -> None:
        """A voter has been taken out of a queue's stream, of which this peer has the log."""
        if voter not in self._membership.leaving:
            self._late.add((stream.name, voter))
            self._found[stream.name, peer] = voter
            self.look()

    def look(self) -> None:
        """Tell those who can be told now: at each beat."""
        for (name, peer), voter in list(self._found.items()):
            stream = self._order.streams.get(name)
            if stream is None or self._membership.votes(stream, voter):
                del self._found[name, peer]
                self._late.discard((name, voter))
            elif self._membership.is_out_of(stream, voter):
                del self._found[name, peer]
                reason = f"{voter} had left {name} in an earlier life: come back blank"
                self._outbox.send(peer, Evicted(reason, True, name))
                self._order.part_with(peer)

    def lost(self, peer: str) -> None:
        """The link to a keeper's process broke."""
        self._found = {key: voter for key, voter in self._found.items() if key[1] != peer}
