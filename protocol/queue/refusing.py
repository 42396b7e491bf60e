"""A queue that refuses messages at its limit, instead of letting others go: what does not fit does not come in.

It is decided message by message as the stream is applied, so it is the same on every replica, and does not depend on
how messages were gathered on their way. A message that is larger than the limit by size is refused by every queue that
has one, rings too. A refused message has come and gone at once, and taken a position: which message is where does not
depend on the kind of a queue. Its sender is told (`replica/verdicts.py`).

At a limit that a queue has got since it was declared only that is refused which comes from brokers that knew of it, and
wait for what becomes of it (`Enqueue.judged`): what the others had sent by then is complete when it is in the stream.
And nothing is refused before all brokers know: who sends again at another one what was refused must hear the same.

A queue that destroys itself at its limit refuses the message that would exceed it, loses all that is in it at that
place of its stream, and refuses all that come behind, until its brokers have deleted it (`broker/self_destruction.py`).
"""

from __future__ import annotations

from ..wire.events import Enqueue
from .applied import Applied
from .level import count_in, held, in_order, size_of, weight
from .settings import RING_STRICT, ROLLING, SELF_DESTRUCT, QueueSettings
from .state import QueueState
from .state_policy import Guard


class Limit(Guard):
    """Args: settings, with `max_count`, `max_size` or both."""

    def __init__(self, state: QueueState, settings: QueueSettings) -> None:
        self._state = state
        self._overflow = settings.overflow
        self._destroys = settings.overflow == SELF_DESTRUCT
        self._max_count = settings.max_count
        self._max_size = settings.max_size
        self._since = state.configured.index > 0
        self._before = state.configured.refused

    @property
    def destroyed(self) -> bool:
        """Whether the queue has destroyed itself: nothing comes in any more."""
        return self._destroys and self._state.refused > self._before

    def admits(self, event: Enqueue) -> bool:
        if self._since and (not event.judged or self._state.configured.anybody_unaware(self._state.fence.absent)):
            return True
        blobs, count, size = event.blobs, self._max_count, self._max_size
        if self.destroyed:
            return False
        if self._overflow in ROLLING:  # what is in it makes room
            return not size or all(weight(blob) <= size for blob in blobs)
        if count and count_in(self._state) + len(blobs) > count:
            return False
        return not size or size_of(self._state) + sum(map(weight, blobs)) <= size

    def refuses(self, message: Enqueue) -> bool:
        state, blob = self._state, message.blobs[0]
        if message.client and message.numbers[0] <= state.numbers.last(message.client):
            return False
        size = self._max_size
        if (size and weight(blob) > size) or self.destroyed:
            return True
        if self._overflow in ROLLING:
            return False
        over_count = self._max_count and count_in(state) + 1 - self._max_count
        over_size = size and size_of(state) + weight(blob) - size
        if over_count <= 0 and over_size <= 0:
            return False
        return self._overflow != RING_STRICT or self._held(over_count, over_size)

    def _held(self, over_count: int, over_size: int) -> bool:
        """Whether a consumer holds one of the oldest messages, which have to go before another can come."""
        state = self._state
        for first, last in in_order(state):
            for position in range(first, last + 1):
                if over_count <= 0 and over_size <= 0:
                    return False
                if held(state, position):
                    return True
                over_count -= 1
                over_size -= weight(state.blobs[position])
        return over_count > 0 or over_size > 0

    def refused(self, message: Enqueue) -> Applied:
        state, position = self._state, self._state.next_position
        state.next_position += 1
        state.enqueued += 1
        state.discarded += 1
        state.refused += 1
        if message.client:
            number = message.numbers[0]
            state.numbers.note(message.client, number)
            state.refusals.note(message.client, number)
        dropped = [(position, position, False)]
        if self._destroys and state.refused == self._before + 1:
            gone = list(in_order(state))
            dropped += ((first, last, held(state, first)) for first, last in gone)
            state.tallies.purged += state.discard(gone)
        return Applied(positions=[(position, position)], dropped=dropped)
