"""A broker's right to serve: renewed by beats that a majority has answered (`sequencer.md` B4).

The lease runs from the moment this broker *heard* such a beat, so no two clocks are compared. It narrows the window in
which a cut-off broker still serves; what keeps the cluster's state right is the incarnation fence (Q3).
"""

from __future__ import annotations

from ..timing import DEFAULT_TIMING, Timing

KEPT = 64
"""At most this many heartbeats are remembered until they are known to be answered."""


class Lease:
    """Attributes: until_ms: served up to then; 0 before the first beat."""

    __slots__ = ("_heard_ms", "_lease_ms", "until_ms")

    def __init__(self, timing: Timing = DEFAULT_TIMING) -> None:
        self._lease_ms = timing.lease_ms
        self.until_ms = 0
        self._heard_ms: dict[int, int] = {}

    def heard(self, number: int, sure: int, now_ms: int) -> None:
        """Heartbeat `number` is here; of those before, `sure` is the last that a majority has answered."""
        self._heard_ms[number] = now_ms
        if len(self._heard_ms) > KEPT:
            del self._heard_ms[next(iter(self._heard_ms))]
        # The very first beat begins the lease: a broker that is cut off before it is renewed must not serve for ever.
        at_ms = self._heard_ms.get(sure) if self.until_ms else now_ms
        if at_ms is not None:
            self.until_ms = max(self.until_ms, at_ms + self._lease_ms)

    def renew(self) -> None:
        """Another sequencer leads: its beats have numbers of their own."""
        self._heard_ms.clear()

    def expired(self, now_ms: int) -> bool:
        return 0 < self.until_ms < now_ms

    def runs(self, now_ms: int) -> bool:
        """It has begun, and is not over: a majority was there a moment ago."""
        return self.until_ms > 0 and now_ms <= self.until_ms

    def over_ms(self, now_ms: int) -> int:
        """For how long the lease has been over: no majority has been heard of for `Timing.lease_ms` more."""
        return now_ms - self.until_ms if self.expired(now_ms) else 0
