"""Producer flow control: a queue that is nearly full holds its producers back, by having their completions wait.

It stops when it has more messages or more bytes than a threshold, and lets producers go on when it has less than both
others (`seeds/producer-flow-control.txt`). What a sender may have under way, its capacity, bounds what comes meanwhile.
"""

from __future__ import annotations

from typing import Any

from ..wire.events import (
    Accept,
    Acquire,
    DeadLetterDone,
    Dissolve,
    Due,
    Enqueue,
    Event,
    Evict,
    Expire,
    Member,
    Modify,
    Move,
    Moved,
    Purge,
    Reject,
    Rejoin,
    Release,
    Return,
)
from .applied import Applied
from .level import count_in, size_of
from .settings import QueueSettings
from .state import QueueState


class ProducerFlow:
    """Part of the state of a queue with such thresholds."""

    __slots__ = ("_by_count", "_by_size", "_state")

    events: tuple[type[Event], ...] = (
        Enqueue, Acquire, Accept, Release, Reject, DeadLetterDone, Expire, Purge, Evict, Rejoin, Return, Member, Modify,
        Dissolve, Due, Move, Moved,
    )  # fmt: skip
    one_by_one = False

    def __init__(self, state: QueueState, settings: QueueSettings) -> None:
        self._state = state
        self._by_count, self._by_size = settings.thresholds

    def applied(self, event: Any, done: Applied, /) -> None:
        state = self._state
        if state.batches.dissolved:  # what still comes into a deleted queue goes on at once
            state.flow_stopped = False
            return
        levels: list[tuple[int, int, int]] = []
        if self._by_count[0]:
            levels.append((count_in(state), *self._by_count))
        if self._by_size[0]:
            levels.append((size_of(state), *self._by_size))
        if not state.flow_stopped:
            if any(level > stop for level, stop, _ in levels):
                state.flow_stopped = True
                state.flow_stopped_count += 1
        elif all(level < resume for level, _, resume in levels):
            state.flow_stopped = False

    def restored(self) -> None:
        """It keeps nothing of its own."""
