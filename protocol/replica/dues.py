"""Which delayed messages of one queue are due, so that the clock's say can become an event."""

from __future__ import annotations

import heapq

from ..queue.state import QueueState
from ..ranges import RangeSet
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import Due
from .outbox import QueueOutbox
from .own_events import OwnEvents

AT_ONCE = 4096
"""So many messages become due by one event; the next one follows when the rest is looked at, at once."""


def rank(broker: str) -> int:
    """A broker's place in the order in which brokers see to queues that nobody owns."""
    return int("".join(c for c in broker if c.isdigit()) or 0)


class Dues:
    """The owner of the consume lock sees to it, or in its turn a broker where there is none."""

    __slots__ = ("_outbox", "_own", "_state", "_timing")

    def __init__(self, state: QueueState, own: OwnEvents, outbox: QueueOutbox, timing: Timing = DEFAULT_TIMING) -> None:
        self._state = state
        self._own = own
        self._outbox = outbox
        self._timing = timing

    def sweep(self) -> None:
        """Have what is due ordered to be available, and look again when more is."""
        outbox = self._outbox
        ranges, again_ms = self.due(outbox.broker, outbox.now_ms)
        if ranges:
            self._own.submit(Due(outbox.now_ms, ranges), None)
        if again_ms:
            outbox.set_timer(self._state.id, again_ms)

    def due(self, broker: str, now_ms: int) -> tuple[list[int], int]:
        """The messages that this broker is to have available now.

        Returns:
            (ranges of positions, which are not found again; when to look again in ms, 0 for not before something
            changes). What has expired by now is not among them: nobody is to get it any more.
        """
        delayed, owner, expiry = self._state.delayed, self._state.owner, self._state.expiry
        heap, due = delayed.heap, delayed.due
        while heap and due.get(heap[0][1]) != heap[0][0]:
            heapq.heappop(heap)
        if owner and owner != broker:
            return [], 0
        wait_ms = 0 if owner else rank(broker) * self._timing.expiry_rank_ms
        found = RangeSet()
        while heap and heap[0][0] + wait_ms <= now_ms and found.count < AT_ONCE:
            due_ms, position = heapq.heappop(heap)
            if due.get(position) == due_ms and expiry.get(position, now_ms + 1) > now_ms:
                found.add(position, position)
        return found.flat(), heap[0][0] + wait_ms if heap else 0
