"""The two Ownerships as one replica sees them: both are told all, the one on duty is heeded (`lock/duty.py`)."""

from __future__ import annotations

from ..wire.events import ZERO, Ballot
from ..wire.frame import Frame
from ..wire.queue_frames import Contended
from .outbox import QueueOutbox


class Ownerships:
    """The links of one replica to Ownerships."""

    __slots__ = ("_day", "_linked", "_outbox")

    def __init__(self, outbox: QueueOutbox) -> None:
        self._outbox = outbox
        self._linked: dict[str, None] = {}
        self._day: tuple[Ballot, int] = (ZERO, 0)  # ballot and turn of the one on duty that was heard last

    def up(self, peer: str) -> None:
        self._linked[peer] = None

    def down(self, peer: str) -> None:
        self._linked.pop(peer, None)

    def say(self, frame: Frame) -> bool:
        """To both: the one that stands by knows as much as the one on duty. Returns whether any is linked."""
        for peer in self._linked:
            self._outbox.send(peer, frame)
        return bool(self._linked)

    def heeds(self, frame: Contended) -> bool:
        """Whether its sender may name the next owner: not if it is off duty by now and has not heard so."""
        day = frame.ballot, frame.turn
        if day[0] != ZERO:
            if day < self._day:
                return False
            self._day = day
        return True
