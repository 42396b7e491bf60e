"""Which brokers live, as the leading sequencer sees it: heartbeats, and which to evict (`sequencer.md` 4, B4).

A broken link is a hint, silence is the proof: a broker is out when its link has been gone for `Timing.broken_ms`, or
has gone and a replica of its own has lost it as well, or when it has answered no beat for `Timing.evict_ms`; but only
while a majority does answer. Otherwise it is this sequencer that is cut off, and it can order nothing anyway.
"""

from __future__ import annotations

from ..log.quorum import held_by_majority, majority
from ..timing import DEFAULT_TIMING, Timing


class FailureDetector:
    """The beats of one term.

    Args:
        members: the brokers.
        since_ms: when the term began; None for the cluster's first term, in which a broker is expected from its first
            sign of life on.

    Attributes:
        number: of the last beat.
        sure: the last beat a majority has answered.
        due_ms: when the next beat is due.
    """

    def __init__(self, members: list[str], since_ms: int | None, timing: Timing = DEFAULT_TIMING) -> None:
        self._timing = timing
        self.members = members
        self.begin(since_ms)

    def begin(self, since_ms: int | None) -> None:
        """A term begins: nothing is known of the brokers yet."""
        members = self.members
        self.number = 0
        self.sure = 0
        self.due_ms = 0
        self._late = False  # the last beat
        self._orphaned_ms: dict[str, int] = {}  # when a replica said last that it has lost its broker
        self._answered: dict[str, int] = dict.fromkeys(members, 0)
        self._seen_ms: dict[str, int] = {} if since_ms is None else dict.fromkeys(members, since_ms)
        self._parted_ms: dict[str, int] = {} if since_ms is None else dict.fromkeys(members, since_ms)

    def up(self, broker: str, now_ms: int) -> None:
        self._parted_ms.pop(broker, None)
        self._seen_ms[broker] = now_ms

    def down(self, broker: str, now_ms: int) -> None:
        self._parted_ms[broker] = now_ms
        # Whether it is back is looked at then.
        self.due_ms = min(self.due_ms, now_ms + (0 if self._orphaned(broker, now_ms) else self._timing.broken_ms + 1))

    def orphaned(self, broker: str, now_ms: int) -> None:
        """A replica of `broker` has lost it: with our own link to it gone too, that is no broken link but a death."""
        self._orphaned_ms[broker] = now_ms
        if broker in self._parted_ms:
            self.due_ms = min(self.due_ms, now_ms)

    def _orphaned(self, broker: str, now_ms: int) -> bool:
        return now_ms - self._orphaned_ms.get(broker, -self._timing.broken_ms - 1) <= self._timing.broken_ms

    def _parted(self, broker: str, now_ms: int) -> bool:
        """Whether there has been no link to it for so long that it will not come back by itself."""
        since_ms = self._parted_ms.get(broker)
        return since_ms is not None and (now_ms - since_ms > self._timing.broken_ms or self._orphaned(broker, now_ms))

    def followed(self, now_ms: int) -> bool:
        """Whether a majority of the brokers has answered a moment ago."""
        suspect_ms = self._timing.suspect_ms
        alive = [b for b, at in self._seen_ms.items() if b not in self._parted_ms and now_ms - at < suspect_ms]
        return sum(member in alive for member in self.members) >= majority(self.members)

    def answered(self, broker: str, number: int, now_ms: int) -> None:
        if number > self._answered.get(broker, 0):
            self._answered[broker] = number
            self.sure = max(self.sure, held_by_majority(self.members, self._answered))
        self._seen_ms[broker] = now_ms

    def answered_since(self, number: int) -> set[str]:
        """Brokers that have answered a beat behind that one: they lived when it was sent."""
        return {broker for broker, last in self._answered.items() if last > number}

    def beat(self, now_ms: int) -> int:
        """Begin the next beat; returns its number."""
        self.number += 1
        self.due_ms = now_ms + self._timing.heartbeat_ms
        return self.number

    def dead(self, now_ms: int, absent: set[str]) -> list[str]:
        """Brokers to evict now, of those that are not `absent` already.

        Nobody, if this beat is late and the one before was not: who has stood still must hear first what has come
        meanwhile.
        """
        stood_still, self._late = not self._late, now_ms - self.due_ms > self._timing.heartbeat_ms // 2
        if self._late and stood_still:
            return []
        if not self.followed(now_ms):
            return []
        return [
            broker
            for broker in self.members
            if broker not in absent
            and broker in self._seen_ms
            and (self._parted(broker, now_ms) or now_ms - self._seen_ms[broker] > self._timing.evict_ms)
        ]
