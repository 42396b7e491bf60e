"""Who supervises the cluster: what a member knows of it, and whose orders it takes.

Supervisors are numbered. A candidate asks the brokers for a number above all they know; a broker that has heard the
one in office a moment ago refuses. When a majority has taken it, brokers have its `Supervise` ordered in the cluster
stream, which is where the number is kept, and tell the sequencers and their replicas. A member never takes an order of
a lower number than it knows, so what a supervisor said before it was cut off has no effect after another has come.
"""

from __future__ import annotations

from typing import Any, NamedTuple

HEARD_MS = 3000
"""A supervisor that has asked for confirmation so lately is there: no other takes its place."""

SILENT_MS = 7000
"""A supervisor that has asked for nothing for so long is out of reach."""
RANK_MS = 3000
"""So much later looks each next broker."""


class Commission(NamedTuple):
    """A supervisor by its number.

    Attributes:
        number: rises with each supervisor; 0 for none.
        id: a word of its own: two candidates may choose the same number.
        name: of its actor.
    """

    number: int = 0
    id: str = ""
    name: str = ""


NOBODY = Commission()


class Office:
    """What one member knows.

    Attributes:
        holder: the supervisor with the highest number heard of.
        settled: the number that the cluster stream gives, 0 while that is not known here.
        heard_ms: when the holder asked last whether it still is the one.
    """

    __slots__ = ("heard_ms", "holder", "settled")

    def __init__(self) -> None:
        self.holder = NOBODY
        self.settled = 0
        self.heard_ms = 0

    def admits(self, giver: Commission) -> bool:
        """Whether an order of this supervisor has effect here. A number above all that were heard of is learned."""
        if giver.number > self.holder.number:
            self.holder = giver
        return giver[:2] == self.holder[:2]

    def stands(self, candidate: Commission, now_ms: int) -> bool:
        """A candidate asks to be taken for the supervisor; whether it is now."""
        holder = self.holder
        if candidate.number > holder.number:
            present = holder.number and now_ms - self.heard_ms <= HEARD_MS
            if not present or candidate.id == holder.id:
                self.holder, self.heard_ms = candidate, now_ms
        return candidate[:2] == self.holder[:2]

    def confirms(self, asker: Commission, now_ms: int) -> bool:
        """A supervisor that a majority has taken asks whether it is the one."""
        if not self.admits(asker):
            return False
        self.holder, self.heard_ms = asker, now_ms
        return True

    def ordered(self, one: Commission, now_ms: int) -> bool:
        """The cluster stream says who it is; whether that is news."""
        self.settled = max(self.settled, one.number)
        return self.learns(one, now_ms, one.number)

    def learns(self, one: Commission, now_ms: int, settled: int = 0) -> bool:
        """Another member knows of this one; whether that is news. Of two with one number the stream's counts."""
        if one.number < self.holder.number or (one.number == self.holder.number and one.number > settled):
            return False
        if one[:2] == self.holder[:2]:
            return False
        self.holder, self.heard_ms = one, now_ms
        return True

    def silent_ms(self, now_ms: int) -> int:
        """For how long nothing was heard of the holder; 0 while there never was one."""
        return now_ms - self.heard_ms if self.holder.number and self.heard_ms else 0

    def out_of_reach(self, now_ms: int, rank: int, others: list[tuple[int, int]], brokers: int) -> bool:
        """Whether the supervisor is to be replaced, since a majority of the brokers has not heard of it for long.

        Args:
            rank: how many brokers look before this one.
            others: what other brokers answer: the highest number they know, and for how long they heard nothing of it.
            brokers: how many there are.
        """
        if self.silent_ms(now_ms) < SILENT_MS + RANK_MS * rank:
            return False
        agree = sum(number <= self.holder.number and silent_ms >= SILENT_MS for number, silent_ms in others)
        return 1 + agree > brokers // 2

    def report(self) -> dict[str, Any]:
        number, _, name = self.holder
        return {"supervisor": {"name": name, "number": number}}
