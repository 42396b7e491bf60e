"""Which Ownership is on duty: two are there, one passes consume locks on, the other stands by with the same knowledge.

Replicas tell both who is interested and who holds what. The sequencer that leads names the one on duty in each of its
beats, and both answer. One that is silent for as long as a leader may be, or without a link for a quarter of a second,
is off duty when the other answers. Whoever comes on duty decides anew for every queue.

    Heartbeat(ballot, duty, turn) -> both;  HeartbeatReply -> the leader
    no reply from the one on duty for too long -> turn + 1, the other is named

No safety rests on it: a grant counts when its `own` event applies, and of two for the same grant number the queue's
stream has one first. What would do harm is advice of an older day, so advice to an owner (`Contended`) carries ballot
and turn, and a replica takes none that is older than it has heard.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..machine import OWNERSHIP, is_broker, is_ownership
from ..status.machines import DutyStatus
from ..timing import DEFAULT_TIMING, Timing


def hears_beats(peer: str) -> bool:
    return is_broker(peer) or is_ownership(peer)


class Duty:
    """What the sequencer that leads knows of them.

    Args:
        told: called with who was on duty, who is now, and for how long the first was silent, in milliseconds.

    Attributes:
        name: who is on duty.
        turn: how often that changed in this term.
    """

    def __init__(self, timing: Timing = DEFAULT_TIMING, told: Sequence[Callable[[str, str, int], None]] = ()) -> None:
        self._timing = timing
        self._told = told
        self.name = OWNERSHIP
        self.turn = 0
        self._began_ms = 0
        self._grace_ms = timing.first_duty_ms
        self._heard_ms: dict[str, int] = {}  # when it answered a beat of this term last
        self._parted_ms: dict[str, int] = {}

    def begin(self, now_ms: int) -> None:
        """A term begins that is not the cluster's first: of those who are here the first to answer is taken soon."""
        self.turn = 0
        self._began_ms = now_ms
        self._grace_ms = self._timing.broken_ms
        self._heard_ms.clear()

    def up(self, peer: str) -> None:
        self._parted_ms.pop(peer, None)

    def down(self, peer: str, now_ms: int) -> None:
        if is_ownership(peer):
            self._parted_ms[peer] = now_ms

    def answered(self, peer: str, now_ms: int) -> bool:
        """Somebody answers a beat; whether it is an Ownership."""
        if not is_ownership(peer):
            return False
        self._began_ms = self._began_ms or now_ms
        self._heard_ms[peer] = now_ms
        return True

    def look(self, now_ms: int) -> None:
        """Name the other if that must be, and it is there."""
        if not self._silent(self.name, now_ms):
            return
        for other in sorted(self._heard_ms):
            if other != self.name and not self._silent(other, now_ms):
                before, silent_ms = self.name, self.silent_ms(now_ms)
                self.name = other
                self.turn += 1
                for tell in self._told:
                    tell(before, other, silent_ms)
                return

    def silent_ms(self, now_ms: int) -> int:
        """For how long the one on duty has not answered."""
        return now_ms - self._heard_ms.get(self.name, self._began_ms or now_ms)

    def _silent(self, peer: str, now_ms: int) -> bool:
        if peer in self._parted_ms and now_ms - self._parted_ms[peer] > self._timing.broken_ms:
            return True
        heard_ms = self._heard_ms.get(peer)
        if heard_ms is None:
            return now_ms - self._began_ms >= self._grace_ms
        return now_ms - heard_ms > self._timing.suspect_ms

    def report(self, now_ms: int) -> DutyStatus:
        return DutyStatus(name=self.name, turn=self.turn, silent_ms=self.silent_ms(now_ms))
