"""Whom a process follows: the promise it has given, and the sequencer that leads now (`sequencer.md` K1, B1).

One promise covers all the keepers of a process, those it makes later among them. A sequencer is followed from the
moment its ballot is heard, and asked (`attached`) once it says by a `Heartbeat` that it leads.
"""

from __future__ import annotations

from ..machine import is_sequencer
from ..sequencer.failure_detector import BROKEN_MS, SUSPECT_MS
from ..wire.events import ZERO, Ballot


class LeaderView:
    """Attributes:
    promised: the highest ballot heard of; never decreases.
    leader: peer name of its sequencer, "" for none.
    attached: it leads, and has been told on this link all that it must know.
    linked: the sequencers there is a link to.
    heard_ms, parted_ms: when the leader last said anything by a beat; since when there is no link to it (0: there is).
    """

    __slots__ = ("attached", "heard_ms", "leader", "linked", "parted_ms", "promised")

    def __init__(self) -> None:
        self.promised: Ballot = ZERO
        self.leader = ""
        self.attached = False
        self.linked: dict[str, None] = {}
        self.heard_ms = 0
        self.parted_ms = 0

    def up(self, peer: str) -> bool:
        """A link is open; whether it is to a sequencer."""
        if not is_sequencer(peer):
            return False
        self.linked[peer] = None
        if peer == self.leader:
            self.attached = False
            self.parted_ms = 0
        return True

    def down(self, peer: str, now_ms: int) -> bool:
        """A link is gone; whether it was to a sequencer."""
        if peer not in self.linked:
            return False
        del self.linked[peer]
        if peer == self.leader:
            self.attached = False
            self.parted_ms = now_ms
        return True

    def gone(self, peer: str, now_ms: int) -> bool:
        """Nobody listens where `peer` was; whether it is the leader, and so to be suspected at once."""
        if peer != self.leader or peer in self.linked:
            return False
        self.parted_ms = now_ms - BROKEN_MS - 1
        return True

    def follow(self, peer: str, ballot: Ballot, now_ms: int) -> bool:
        """`peer` speaks under `ballot`. False: a higher one was promised, refuse it."""
        if ballot < self.promised:
            return False
        if ballot > self.promised or peer != self.leader:
            self.promised = ballot
            self.leader = peer
            self.attached = False
            self.parted_ms = 0
            self.heard_ms = now_ms
        return True

    def suspicious(self, now_ms: int) -> bool:
        """Whether the leader has been silent, or without a link, for too long; or none has been heard of."""
        if not self.heard_ms:
            self.heard_ms = now_ms
        silent = now_ms - self.heard_ms > SUSPECT_MS
        return silent or (self.parted_ms > 0 and now_ms - self.parted_ms > BROKEN_MS)

    def others(self) -> list[str]:
        """The sequencers that could take over."""
        return [peer for peer in self.linked if peer != self.leader]

    def report(self) -> dict[str, object]:
        return {"ballot": list(self.promised), "leader": self.leader, "attached": self.attached}

    def silence(self, now_ms: int) -> dict[str, object]:
        """`leader_silent_ms`: since the last beat of whoever led last, or since one was first waited for; `sequencers`:
        those there is a link to."""
        return {
            "leader_silent_ms": now_ms - self.heard_ms if self.heard_ms else 0,
            "sequencers": sorted(self.linked),
        }
