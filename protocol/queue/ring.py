"""A ring: a queue that holds so much and no more, whose oldest message goes when another comes (RabbitMQ: drop-head).

What goes may be held by a consumer: its accept is then *lost*. Where it goes to the alternate exchange instead, what
consumers hold stays theirs: the oldest goes of what waits. So it does where messages come back of which a move had
made room.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from ..wire.events import Enqueue, Event, Moved
from .applied import Applied
from .batches import MAXLEN
from .level import count_in, held, in_order, size_of, weight
from .settings import DEAD_LETTER, QueueSettings
from .state import QueueState

Oldest = Callable[[], Iterable[tuple[int, int]]]


class Ring:
    """Part of the state of a queue that is a ring.

    Args:
        settings: with `max_count`, `max_size` or both.
        oldest: gives all messages that are available, delayed or held, as ranges, in the order in which they are to go.
        plain: no message goes but by this, and the oldest; else it matters which message came before which.
    """

    __slots__ = ("_in_order", "_max_count", "_max_size", "_state", "_to_alternate", "one_by_one")

    events: tuple[type[Event], ...] = (Enqueue,)

    def __init__(
        self, state: QueueState, settings: QueueSettings, oldest: Oldest | None = None, plain: bool = True
    ) -> None:
        self._state = state
        self.one_by_one = not plain
        self._in_order = oldest or partial(in_order, state)
        self._max_count = settings.max_count
        self._max_size = settings.max_size
        self._to_alternate = settings.overflow == DEAD_LETTER

    def applied(self, event: Any, done: Applied, /) -> None:
        """Messages have come: the oldest go until the rest is within the limit. It may hold more since a policy has
        brought a smaller limit, and then nothing goes for what has come before."""
        if done.positions or type(event) is not Enqueue:
            self.shrink(done, self._to_alternate)

    def shrink(self, done: Applied, waiting: bool) -> None:
        """The oldest go until the rest is within the limit. `waiting`: of those that nobody holds."""
        state = self._state
        count = count_in(state)
        size = size_of(state) if self._max_size else 0
        over_count = count - self._max_count if self._max_count else 0
        over_size = size - self._max_size if self._max_size else 0
        if over_count > 0 or over_size > 0:
            oldest = self._oldest(self._waiting() if waiting else self._in_order(), over_count, over_size)
            if self._to_alternate:
                done.aside += state.set_aside(oldest, MAXLEN).aside
                return
            done.dropped += ((first, last, held(state, first)) for first, last in oldest)
            state.tallies.ring += state.discard(oldest)

    def _oldest(self, ranges: Iterable[tuple[int, int]], over_count: int, over_size: int) -> list[tuple[int, int]]:
        """The first messages of these: so many, with so many bytes."""
        state, found = self._state, list[tuple[int, int]]()
        for first, last in ranges:
            position = first
            if over_size <= 0:
                position = min(last + 1, first + over_count)
                over_count -= position - first
            else:
                while position <= last and (over_count > 0 or over_size > 0):
                    over_count -= 1
                    over_size -= weight(state.blobs[position])
                    position += 1
            found.append((first, position - 1))
            if over_count <= 0 and over_size <= 0:
                break
        return found

    def _waiting(self) -> Iterable[tuple[int, int]]:
        waiting = self._state.available, self._state.delayed.ranges
        return (part for ranges in self._in_order() for of in waiting for part in of.within(*ranges))

    def restored(self) -> None:
        """It keeps nothing of its own."""


class RingAgain:
    """What a move has had on its way, and no queue has taken, is back in a ring that others have filled meanwhile."""

    events: tuple[type[Event], ...] = (Moved,)
    one_by_one = False

    def __init__(self, ring: Ring) -> None:
        self._ring = ring

    def applied(self, event: Any, done: Applied, /) -> None:
        """What consumers hold stays theirs, as when it was to go."""
        self._ring.shrink(done, True)

    def restored(self) -> None:
        """It keeps nothing of its own."""
