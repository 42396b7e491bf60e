"""The supervisor in office, as one member knows it: the fence that keeps orders of an earlier one out.

Supervisors are numbered. A candidate asks the brokers for a number above all they know; a broker that has heard the
supervisor in office a moment ago refuses. When a majority has taken the candidate, brokers have its `Supervise` ordered
in the cluster stream, which is where the number is kept, and tell the sequencers and their replicas. A member never
takes an order of a lower number than it knows, so late orders of a supervisor that was cut off have no effect.
"""

from __future__ import annotations

from typing import NamedTuple

from ..status.machines import OfficeStatus
from ..timing import DEFAULT_TIMING, Timing


class Commission(NamedTuple):
    """A supervisor by its number.

    Attributes:
        number: rises with each supervisor; 0 for none.
        id: a unique word: two candidates may choose the same number.
        name: of its actor.
    """

    number: int = 0
    id: str = ""
    name: str = ""


NOBODY = Commission()


class Office:
    """The supervisor in office, as one member knows it.

    Attributes:
        holder: the supervisor with the highest number heard of.
        settled: the number that the cluster stream gives, 0 while that is not known here.
        heard_ms: when the holder last asked for confirmation.
        timing: the cluster's, as soon as this member has its configuration.
    """

    __slots__ = ("heard_ms", "holder", "settled", "timing")

    def __init__(self, timing: Timing = DEFAULT_TIMING) -> None:
        self.timing = timing
        self.holder = NOBODY
        self.settled = 0
        self.heard_ms = 0

    def admits(self, giver: Commission) -> bool:
        """Whether an order of this supervisor has effect here. A number above the highest one known is learned."""
        if giver.number > self.holder.number:
            self.holder = giver
        return giver[:2] == self.holder[:2]

    def stands(self, candidate: Commission, now_ms: int) -> bool:
        """A candidate asks to be taken for the supervisor; returns whether it is now."""
        holder = self.holder
        if candidate.number > holder.number:
            present = holder.number and now_ms - self.heard_ms <= self.timing.supervisor_heard_ms
            if not present or candidate.id == holder.id:
                self.holder, self.heard_ms = candidate, now_ms
        return candidate[:2] == self.holder[:2]

    def confirms(self, asker: Commission, now_ms: int) -> bool:
        """A supervisor that a majority has taken asks for confirmation; returns whether it is in office."""
        if not self.admits(asker):
            return False
        self.holder, self.heard_ms = asker, now_ms
        return True

    def ordered(self, one: Commission, now_ms: int) -> bool:
        """The cluster stream names the supervisor; returns whether that is news."""
        self.settled = max(self.settled, one.number)
        return self.learns(one, now_ms, one.number)

    def learns(self, one: Commission, now_ms: int, settled: int = 0) -> bool:
        """Another member names a supervisor; returns whether that is news. Of two with one number, the stream's counts
        (`settled`)."""
        if one.number < self.holder.number or (one.number == self.holder.number and one.number > settled):
            return False
        if one[:2] == self.holder[:2]:
            return False
        self.holder, self.heard_ms = one, now_ms
        return True

    def silent_ms(self, now_ms: int) -> int:
        """For how long the holder has been silent; 0 while there never was one."""
        return now_ms - self.heard_ms if self.holder.number and self.heard_ms else 0

    def out_of_reach(self, now_ms: int, rank: int, others: list[tuple[int, int]], brokers: int) -> bool:
        """Whether the supervisor is to be replaced, since a majority of the brokers has not heard of it for long.

        Args:
            rank: number of brokers that look before this one.
            others: other brokers' answers: the highest number they know, and for how long that one has been silent.
            brokers: number of brokers.
        """
        limit_ms = self.timing.supervisor_silent_ms
        if self.silent_ms(now_ms) < limit_ms + self.timing.supervisor_rank_ms * rank:
            return False
        agree = sum(number <= self.holder.number and silent_ms >= limit_ms for number, silent_ms in others)
        return 1 + agree > brokers // 2

    def report(self) -> OfficeStatus:
        return OfficeStatus(name=self.holder.name, number=self.holder.number)
