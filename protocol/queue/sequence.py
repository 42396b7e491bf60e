"""A queue that stamps its messages: each comes to its consumers with its number in the queue, in a header.

The number is the message's position, so it is the same on every replica, needs no counter of its own, and is not used
twice; a message that the queue refuses at its limit has one too. The stamp is made when a message goes to a consumer
or a browser: what is kept, looked at by selectors, and dead-lettered is the message as it was sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from ..wire.message import with_property
from .delivery_counts import DeliveryCounts
from .enqueue_times import EnqueueTimes
from .settings import QueueSettings
from .state import QueueState


class Shown(Protocol):
    """What consumers are shown of a queue: its state, or `Stamped`."""

    @property
    def id(self) -> str: ...
    @property
    def blobs(self) -> Mapping[int, bytes]: ...
    @property
    def bytes(self) -> int: ...
    @property
    def deliveries(self) -> DeliveryCounts: ...
    @property
    def times(self) -> EnqueueTimes: ...


def shown(state: QueueState, settings: QueueSettings) -> Shown:
    """Of a queue with these settings."""
    return Stamped(state, settings.sequence_key) if settings.sequence_key else state


class StampedBlobs(Mapping[int, bytes]):
    """Args: name: of the header that has the number."""

    __slots__ = ("_name", "_state")

    def __init__(self, state: QueueState, name: str) -> None:
        self._state = state
        self._name = name

    def __getitem__(self, position: int) -> bytes:
        return with_property(self._state.blobs[position], self._name, position)

    def __iter__(self) -> Iterator[int]:
        return iter(self._state.blobs)

    def __len__(self) -> int:
        return len(self._state.blobs)


class Stamped:
    """A queue's state, its messages stamped. Attributes: bytes: of the messages without their stamps."""

    __slots__ = ("_state", "blobs", "id")

    def __init__(self, state: QueueState, name: str) -> None:
        self._state = state
        self.id = state.id
        self.blobs = StampedBlobs(state, name)

    @property
    def bytes(self) -> int:
        return self._state.bytes

    @property
    def deliveries(self) -> DeliveryCounts:
        return self._state.deliveries

    @property
    def times(self) -> EnqueueTimes:
        return self._state.times
