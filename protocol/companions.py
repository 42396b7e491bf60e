"""Companions: small machines inside a process, each with a peer of its own, such as the capture of events with the tap.

A companion shares the links, the clock and the timer of the machine it accompanies. That machine knows no more of it
than its peer's name, and takes no notice of that peer itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from .machine import Effect, Flush, PeerDown, PeerUp, Received, Tick


class Companion(Protocol):
    """Attributes:
    peer: name of the one peer that it talks with.
    due_ms: when it needs a flush, 0 for no need.
    """

    peer: str
    due_ms: int

    def step(self, input: Tick | Flush | Received | PeerUp | PeerDown) -> list[Effect]:
        """The door: every tick before the machine's, every flush behind it, and what comes from its peer.

        Returns:
            Frames for its peer, which leave behind those of the machine. A tick has no effects.
        """
        ...


class Companions(dict[str, Companion]):
    """The companions of one machine, by their peers; most machines have none."""

    __slots__ = ()

    def __init__(self, companions: Iterable[Companion | None]) -> None:
        super().__init__((companion.peer, companion) for companion in companions if companion is not None)

    def tick(self, tick: Tick) -> None:
        for companion in self.values():
            companion.step(tick)

    def hear(self, input: Received | PeerUp | PeerDown) -> list[Effect]:
        """What comes from a peer that may be a companion's."""
        companion = self.get(input.peer)
        return companion.step(input) if companion is not None else []

    def flush(self, flush: Flush) -> list[Effect]:
        return [effect for companion in self.values() for effect in companion.step(flush)]
