"""The events that this process has submitted to one queue's stream and not yet seen applied, oldest first.

The log keeps the order of one origin, so when an own event applies it is the oldest here.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ..queue.dispatch import Dispatcher
from ..wire.events import AnyEvent
from .outbox import QueueOutbox


class OwnEvent(NamedTuple):
    """Attributes:
    number: of the request it is in.
    part: which of the request's events in this stream it is, from 1.
    tag: what its submitter needs when it applies; None for nothing.
    """

    number: int
    part: int
    tag: object


class OwnEvents(deque[OwnEvent]):
    """The own events of one queue."""

    __slots__ = ("_id", "_outbox")

    def __init__(self, id: str, outbox: QueueOutbox) -> None:
        super().__init__()
        self._id = id
        self._outbox = outbox

    def submit(self, event: AnyEvent, tag: object, patient: bool = False) -> None:
        """Ask for `event` to be ordered; `patient`: nobody is kept waiting by it."""
        number = self._outbox.submit(self._id, event, patient)
        part = self[-1].part + 1 if self and self[-1].number == number else 1
        self.append(OwnEvent(number, part, tag))

    def overtaken(self, seen: tuple[int, int, int] | None, inc: int) -> list[object]:
        """Remove the events that an update has brought with it, and return their tags: how they ended is not known.

        Args:
            seen: the last request of this process that is in the log, as in `log_frames.Numbers`.
            inc: the incarnation of this process.
        """
        gone: list[object] = []
        while seen is not None and seen[0] == inc and self and self[0][:2] <= seen[1:]:
            gone.append(self.popleft().tag)
        return gone


def acquired(dispatcher: Dispatcher, wanted: list[int], effective: bool) -> None:
    """What this replica wanted to acquire is acquired, or was void."""
    firsts, lasts = wanted[1::3], wanted[2::3]
    dispatcher.taken.take_each(firsts, lasts)
    if not effective:
        dispatcher.returned([*zip(firsts, lasts, strict=True)])
