"""When to say that one is alive, and when to believe that the other side is not.

Counted in ticks, three to a heartbeat, not in time: whoever was stopped for a while finds what came meanwhile before
its next tick, and does not take its own pause for the other side's. Either side speaks at least once per heartbeat.
"""

from __future__ import annotations

from enum import Enum

TICKS = 3
PEER_BEAT_MS = 1000
PEER_PATIENCE_MS = 4000
"""On every link between members, so that none is dead for long without its ends knowing. Longer than a broker is waited
for (`pulse.EVICT_MS`): of who merely stands still, silence in the order of things says so first."""


class Verdict(Enum):
    """What a tick asks for: nothing, a `Ping`, or the end of the connection."""

    FINE = 0
    PING = 1
    LOST = 2


class Keepalive:
    """One side of one connection.

    Args:
        interval_ms: the heartbeat.
        patience_ms: how long the other side may be silent; 0 for two heartbeats, and never less.

    Attributes:
        heard: set it when anything comes. said: set it when anything is sent.
        tick_s: seconds from one `tick` to the next.
    """

    __slots__ = ("_limit", "_mute", "_quiet", "heard", "said", "tick_s")

    def __init__(self, interval_ms: int, patience_ms: int = 0) -> None:
        self.heard = False
        self.said = False
        self.tick_s = interval_ms / 1000 / TICKS
        # The first of the silent ticks may come a whole tick after the last sign of life.
        self._limit = max(patience_ms, 2 * interval_ms) * TICKS // interval_ms - 1
        self._quiet = 0
        self._mute = 0

    def tick(self) -> Verdict:
        """What to do now; after LOST nothing more is to be done."""
        if self.heard:
            self.heard = False
            self._quiet = 0
        else:
            self._quiet += 1
            if self._quiet >= self._limit:
                return Verdict.LOST
        if self.said:
            self.said = False
            self._mute = 0
        else:
            self._mute += 1
        # A side that only listens may forget to speak: a question reminds it.
        if self._mute >= TICKS - 1 or self._quiet % TICKS == TICKS - 1:
            self._mute = 0
            return Verdict.PING
        return Verdict.FINE
