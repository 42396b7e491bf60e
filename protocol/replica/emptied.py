"""Tells the broker when nothing is in a queue any more, where the queue goes with its last consumer only then."""

from __future__ import annotations

from ..queue.applied import Applied
from ..queue.observers import QueueObserver
from ..queue.settings import QueueSettings
from ..queue.state import QueueState
from ..wire.events import AnyEvent, Entry
from ..wire.queue_frames import Emptied
from .outbox import QueueOutbox


def emptied(settings: QueueSettings, state: QueueState, outbox: QueueOutbox) -> tuple[QueueObserver, ...]:
    """Of a queue that goes so."""
    return (EmptiedTeller(state, outbox),) if settings.goes_empty else ()


class EmptiedTeller(QueueObserver):
    """It tells what an update has brought, too: an event of this incarnation always follows that."""

    def __init__(self, state: QueueState, outbox: QueueOutbox) -> None:
        self._state = state
        self._outbox = outbox
        self._empty = False

    def applied(self, index: int, entry: Entry, event: AnyEvent | None, done: Applied) -> None:
        was, self._empty = self._empty, not self._state.blobs
        if self._empty and not was:
            self._outbox.send(self._outbox.broker, Emptied(self._state.id))
