"""Logs of queues that their broker had left when it died (`sequencer.md` K4, `durable.md` 4).

A broker that leaves is taken out of its queues one by one. If it dies before it is out of all, and comes back with its
disk, it stays a member: its disk has logs of queues in which it votes no more. Such a log counts for nothing, and a
blank one would be let in; so it is told to come back without it, as soon as enough others know that it has left.
"""

from __future__ import annotations

from ..outbox import Outbox
from ..wire.log_frames import Evicted, LogReport
from .membership import Membership
from .order import Order


def outlived(frame: LogReport) -> bool:
    """Whether an earlier life has kept this log, and this life has not come back with it as a voter: a broker that
    leaves now has, in each queue that it is out of."""
    return 0 < frame.opened < frame.life and frame.lives.get(frame.voter, 0) < frame.life


class LeftLogs:
    """The logs of that kind that have been reported, until their keepers are told or gone."""

    def __init__(self, order: Order, outbox: Outbox, membership: Membership) -> None:
        self._order = order
        self._outbox = outbox
        self._membership = membership
        self._found: dict[tuple[str, str], LogReport] = {}  # (stream, peer) -> its last report

    def found(self, peer: str, frame: LogReport) -> None:
        """A keeper that is no voter of a queue's stream has a log of it."""
        if outlived(frame):
            self._found[frame.stream, peer] = frame
            self.look()

    def look(self) -> None:
        """Tell those who can be told now: at each beat."""
        for (name, peer), frame in list(self._found.items()):
            stream = self._order.streams.get(name)
            if stream is None or self._membership.votes(stream, frame.voter):
                del self._found[name, peer]
            elif self._membership.is_out_of(stream, frame.voter):
                del self._found[name, peer]
                reason = f"{frame.voter} had left {name} in an earlier life: come back blank"
                self._outbox.send(peer, Evicted(reason, True, name))
                self._order.part_with(peer)

    def lost(self, peer: str) -> None:
        """The link to a keeper's process broke."""
        self._found = {key: frame for key, frame in self._found.items() if key[1] != peer}
