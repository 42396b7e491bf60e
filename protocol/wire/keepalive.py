"""The keepalive of a link: when to send a sign of life, and when to take the other side for dead.

Counted in ticks, three to a heartbeat, not in time: a process that was stopped for a while reads what came meanwhile
before its next tick, and does not take its own pause for the other side's. Either side sends at least once per
heartbeat.
"""

from __future__ import annotations

from enum import Enum

TICKS = 3


class Verdict(Enum):
    """The outcome of a tick: nothing to do, send a `Ping`, or end the connection."""

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
        """Count a tick and say what to do now; LOST is the last verdict."""
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
        # A side that only listens may have nothing to send: a `Ping` makes it answer.
        if self._mute >= TICKS - 1 or self._quiet % TICKS == TICKS - 1:
            self._mute = 0
            return Verdict.PING
        return Verdict.FINE
