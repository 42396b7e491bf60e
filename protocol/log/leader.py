"""The leader as a process sees it: the ballot it has promised, and the sequencer that leads (`sequencer.md` K1, B1).

One promise covers all keepers of a process, later ones too. A process follows a sequencer from the first frame under
its ballot, and sends it requests (`attached`) once a `Heartbeat` says that it leads.
"""

from __future__ import annotations

from ..machine import is_sequencer
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import ZERO, Ballot


class LeaderView:
    """Attributes:
    promised: the highest ballot heard of; never decreases.
    leader: peer name of that ballot's sequencer, "" for none.
    attached: the sequencer leads, and has the log reports of this process on this link.
    linked: the sequencers that this process has a link to.
    heard_ms: time of the leader's last heartbeat; before the first, since when it is followed or waited for.
    parted_ms: since when the link to the leader is broken, 0 while it is open.
    """

    __slots__ = ("_timing", "attached", "heard_ms", "leader", "linked", "parted_ms", "promised")

    def __init__(self, timing: Timing = DEFAULT_TIMING) -> None:
        self._timing = timing
        self.promised: Ballot = ZERO
        self.leader = ""
        self.attached = False
        self.linked: dict[str, None] = {}
        self.heard_ms = 0
        self.parted_ms = 0

    def up(self, peer: str) -> bool:
        """A link is open; returns whether it is to a sequencer."""
        if not is_sequencer(peer):
            return False
        self.linked[peer] = None
        if peer == self.leader:
            self.attached = False
            self.parted_ms = 0
        return True

    def down(self, peer: str, now_ms: int) -> bool:
        """A link is gone; returns whether it was to a sequencer."""
        if peer not in self.linked:
            return False
        del self.linked[peer]
        if peer == self.leader:
            self.attached = False
            self.parted_ms = now_ms
        return True

    def gone(self, peer: str, now_ms: int) -> bool:
        """The address of `peer` refuses connections; returns whether it is the leader, to be suspected at once."""
        if peer != self.leader or peer in self.linked:
            return False
        self.parted_ms = now_ms - self._timing.broken_ms - 1
        return True

    def follow(self, peer: str, ballot: Ballot, now_ms: int) -> bool:
        """A frame of `peer` carries `ballot`. False: a higher ballot is promised, refuse the frame."""
        if ballot < self.promised:
            return False
        if ballot > self.promised or peer != self.leader:
            self.promised = ballot
            self.leader = peer
            self.attached = False
            self.parted_ms = 0
            self.heard_ms = now_ms
        return True

    def suspect(self) -> None:
        """Whatever led an earlier life of this process may be gone: it is suspected until it is heard."""
        self.parted_ms = 1

    def suspicious(self, now_ms: int) -> bool:
        """Whether the leader has been silent, or without a link, for too long, or no leader has come for as long."""
        if not self.heard_ms:
            self.heard_ms = now_ms
        silent = now_ms - self.heard_ms > self._timing.suspect_ms
        return silent or (self.parted_ms > 0 and now_ms - self.parted_ms > self._timing.broken_ms)

    def others(self) -> list[str]:
        """The linked sequencers that could take over from the leader."""
        return [peer for peer in self.linked if peer != self.leader]

    def silent_ms(self, now_ms: int) -> int:
        """Since the last leader's last heartbeat, or since a leader was first waited for."""
        return now_ms - self.heard_ms if self.heard_ms else 0
