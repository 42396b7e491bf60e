"""How full a queue is, as its limits and its flow control count.

A rejected message on its way to the alternate exchange has left the queue as far as that is concerned.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable

from .settings import MESSAGE_BYTES
from .state import QueueState


def count_in(state: QueueState) -> int:
    """How many messages are in it: available, delayed or held."""
    return len(state.blobs) - state.dead_lettering.count


def size_of(state: QueueState) -> int:
    """How many bytes they count for together."""
    size = state.bytes + count_in(state) * MESSAGE_BYTES
    if rejected := state.dead_lettering:
        size -= sum(len(state.blobs[p]) for first, last in rejected for p in range(first, last + 1))
    return size


def weight(blob: bytes) -> int:
    """What one message counts for."""
    return len(blob) + MESSAGE_BYTES


def in_order(state: QueueState) -> Iterable[tuple[int, int]]:
    """All messages that are available, delayed or held, as ranges, the oldest first."""
    return heapq.merge(state.available, *state.acquired.values(), state.delayed.ranges)


def held(state: QueueState, position: int) -> bool:
    """Whether a consumer holds that message, of those in the queue."""
    return position not in state.available and position not in state.delayed
