"""Expiry of one queue: which messages have expired and can go, so that the clock's say can become an event."""

from __future__ import annotations

import heapq

from ..queue.dispatch import Dispatcher
from ..queue.state import QueueState
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import Expire
from .dues import Dues, rank
from .outbox import QueueOutbox
from .own_events import OwnEvents


class Expiries:
    """Attributes: heap of (when it expires in ms, position)."""

    __slots__ = ("_dispatcher", "_dues", "_outbox", "_own", "_state", "_timing", "heap")

    def __init__(
        self,
        state: QueueState,
        dispatcher: Dispatcher,
        own: OwnEvents,
        outbox: QueueOutbox,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._timing = timing
        self._state = state
        self._dispatcher = dispatcher
        self._own = own
        self._outbox = outbox
        self.heap: list[tuple[int, int]] = []
        self._dues = Dues(state, own, outbox, timing)

    def restart(self) -> None:
        """The state has come by an update."""
        self.heap = sorted((at_ms, position) for position, at_ms in self._state.expiry.items())

    def note(self, positions: list[tuple[int, int]]) -> None:
        """Messages have come, of which some expire."""
        expiry = self._state.expiry
        for first, last in positions:
            for position in range(first, last + 1):
                if position in expiry:
                    heapq.heappush(self.heap, (expiry[position], position))

    def sweep(self) -> None:
        """Have what is due ordered to expire, or to be delayed no more, and look again when more can be."""
        outbox = self._outbox
        if self._state.delayed.heap:
            self._dues.sweep()
        due, again_ms = self.due(outbox.broker, outbox.now_ms)
        if due:
            self._own.submit(Expire(outbox.now_ms, due), None)
        if again_ms:
            outbox.set_timer(self._state.id, again_ms)

    def due(self, broker: str, now_ms: int) -> tuple[list[int], int]:
        """The messages that this broker is to let expire now: as owner, or in its turn where there is none.

        Returns:
            (ranges of positions, marked as expiring; when to look again in ms, 0 for not before something changes).
        """
        state, dispatcher, heap = self._state, self._dispatcher, self.heap
        if state.owner and state.owner != broker:
            while heap and heap[0][1] not in state.expiry:
                heapq.heappop(heap)
            return [], 0
        wait_ms = 0 if state.owner else rank(broker) * self._timing.expiry_rank_ms
        due: list[int] = []
        delayed: list[int] = []
        waiting: list[tuple[int, int]] = []
        while heap and (heap[0][1] not in state.expiry or heap[0][0] + wait_ms <= now_ms):
            expires_ms, position = heapq.heappop(heap)
            if position not in state.expiry:
                continue
            if position in state.delayed:
                delayed.append(position)
                waiting.append((expires_ms + self._timing.expiry_held_ms, position))  # it may be due meanwhile
            elif position in state.available and position not in dispatcher.taken:
                due.append(position)
            else:
                waiting.append((expires_ms + self._timing.expiry_held_ms, position))
        for item in waiting:
            heapq.heappush(heap, item)
        for position in due:
            dispatcher.expiring.add(position, position)
        ranges = [edge for position in sorted(due + delayed) for edge in (position, position)]
        return ranges, heap[0][0] + wait_ms if heap else 0
