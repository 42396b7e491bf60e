"""Observers of a replica: each gives every queue that the replica comes to host an observer of its own."""

from __future__ import annotations

from typing import Protocol

from ..companions import Companion
from ..queue.alerts import Alert
from ..queue.dispatch import Dispatcher
from ..queue.observers import QueueObserver
from ..queue.state import QueueState


class ReplicaObserver(Protocol):
    """Of one replica; the same observer serves no second one."""

    @property
    def companion(self) -> Companion | None:
        """The machine by which it talks to a peer of its own, None for none."""
        return None

    def hosted(self, state: QueueState, dispatcher: Dispatcher) -> QueueObserver:
        """A queue has come, with nothing applied. Returns what is told of it from here on."""
        ...

    def alerted(self, queue: str, alert: Alert) -> None:
        """An alert of a queue, by its id, that this replica tells for all."""
