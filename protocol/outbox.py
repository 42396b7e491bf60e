"""One step's effects, gathered in order, and the one timer that is set: what a machine's parts share with its door."""

from __future__ import annotations

from collections.abc import Sequence

from .machine import Effect, Multicast, Send, SetTimer
from .wire.frame import Frame


class Outbox:
    """Gathers what the parts of one machine ask for.

    Attributes:
        now_ms: the time of the last tick.
        effects: what has been asked for since the last step, in order.
    """

    __slots__ = ("_timer_ms", "effects", "now_ms")

    def __init__(self) -> None:
        self.now_ms = 0
        self.effects: list[Effect] = []
        self._timer_ms = 0

    def send(self, peer: str, frame: Frame) -> None:
        self.effects.append(Send(peer, frame))

    def multicast(self, peers: Sequence[str], frame: Frame) -> None:
        self.effects.append(Multicast(list(peers), frame))

    def wake(self, at_ms: int) -> None:
        """Tick at that time, unless a tick comes sooner anyway."""
        if not self._timer_ms or at_ms < self._timer_ms:
            self._timer_ms = at_ms
            self.effects.append(SetTimer(at_ms))

    def due(self, now_ms: int) -> bool:
        """A tick has come: whether it is the one that was asked for, which has to be asked for anew then."""
        self.now_ms = now_ms
        if not self._timer_ms or now_ms < self._timer_ms:
            return False
        self._timer_ms = 0
        return True

    def take(self) -> list[Effect]:
        """What has gathered; no list is handed out twice."""
        effects = self.effects
        if not effects:
            return []
        self.effects = []
        return effects
