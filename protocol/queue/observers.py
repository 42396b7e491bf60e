"""Observers of a queue are told what happens to it at one replica, and can change nothing of it (after Qpid's
`QueueObserver`). Statistics, alerts and the capture of events are observers; any number may watch one queue."""

from __future__ import annotations

from typing import Protocol

from ..wire.events import AnyEvent, Entry
from ..wire.queue_frames import Deliver
from .applied import Applied


class QueueObserver(Protocol):
    """Of one queue. A kind of observer overrides what it wants to be told.

    It is told at the moment itself, in the middle of a step: it may read the queue's state and its dispatcher, and must
    not change them. An exception of an observer is a defect of the process, like one of any rule.
    """

    def applied(self, index: int, entry: Entry, event: AnyEvent | None, done: Applied) -> None:
        """The entry at `index` of the queue's stream is applied to the state, and nothing has followed from it yet.
        `event` is None if its kind is newer than this program. Of a durable queue whose log is read back, what is
        applied anew is told anew: all behind its last checkpoint."""

    def delivered(self, frame: Deliver) -> None:
        """Messages leave for a consumer at this broker."""

    def consumer_came(self, sub: int) -> None:
        """The broker has a consumer here, which it calls `sub`."""

    def consumer_went(self, sub: int) -> None:
        """That consumer is cancelled; the messages it holds may go back later."""

    def interest(self, shown: bool) -> None:
        """An Ownership is told that this broker wants the consume lock, or no longer does. Not told while none is
        linked; that the broker wants the lock is told again with each Ownership that comes."""

    def handing_over(self, broker: str) -> None:
        """This broker has given up the consume lock to `broker`, "" for none. It passes when that `Own` is applied."""

    def gone(self) -> None:
        """The queue is deleted here: nothing more is told of it."""
