"""Which minor versions the cluster's members speak, as its leader's heartbeats say, and what waits until one has."""

from __future__ import annotations

from collections.abc import Callable

from ..wire.log_frames import Heartbeat
from ..wire.version import KNOWS_DISSOLVED


class Versions:
    """What one broker has heard of the versions of all.

    Attributes:
        known: a leader has said it, if only by not saying it.
        least: the least minor version that a member speaks; 0 if the leader's program is too old to say so.
        older: names of the members whose minor version is below 2.
    """

    def __init__(self) -> None:
        self.known = False
        self.least = 0
        self.older: list[str] = []
        self._waiting: list[Callable[[], None]] = []

    def heard(self, leader: str, beat: Heartbeat) -> None:
        """Note what the leader says. A term's first beat comes before any member has answered."""
        if beat.older is None:
            self.older = [leader]
        elif beat.older or beat.number > 1:
            self.older = beat.older
        self.least = beat.least
        self.known = True
        waiting, self._waiting = self._waiting, []
        for ask in waiting:
            ask()

    @property
    def sets_aside(self) -> bool:
        """Whether all members keep a deleted queue until its messages have gone to its alternate."""
        return self.least >= KNOWS_DISSOLVED

    def once_known(self, ask: Callable[[], None]) -> None:
        """Call `ask` now, or when a leader has said what the members speak; nothing that the cluster has to order can
        be done before, either."""
        if self.known:
            ask()
        else:
            self._waiting.append(ask)
