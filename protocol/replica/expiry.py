"""Expiry of one queue: which messages have expired and can go, so that the clock's say can become an event.

They go wherever they are in the queue, in slices: where a million are due at once, what consumers and senders want goes
on between them.
"""

from __future__ import annotations

from ..limits import DEFAULT, Limits
from ..queue.applied import Applied
from ..queue.dispatch import Dispatcher
from ..queue.observers import QueueObserver
from ..queue.state import QueueState
from ..ranges import compress, pairs
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import AnyEvent, Enqueue, Entry, Expire
from .dues import Dues, rank
from .outbox import QueueOutbox
from .own_events import OwnEvents
from .timetable import Timetable

LOOKS = 10
"""So many times as many as may expire at once are looked at for them: others have gone before their time."""
FORGET = 1_000
"""Times of messages that are gone are forgotten when there are as many more of them as there are others."""


class Expiries:
    """Args:
        ttl_ms: how long the queue lets its messages live, negative: it leaves that to their senders.

    Attributes:
        times: when which position expires.
        ttl: notes what comes to a queue that lets its messages live so long; None: it does not.
    """

    __slots__ = (
        "_at_once", "_dispatcher", "_dues", "_looks", "_most", "_next_ms", "_others_ms", "_outbox", "_own", "_state",
        "_timing", "times", "ttl",
    )  # fmt: skip

    def __init__(
        self,
        state: QueueState,
        dispatcher: Dispatcher,
        own: OwnEvents,
        outbox: QueueOutbox,
        timing: Timing = DEFAULT_TIMING,
        limits: Limits = DEFAULT,
        ttl_ms: int = -1,
    ) -> None:
        self._timing, self._most = timing, limits.expire_messages
        self._looks = LOOKS * limits.expire_messages
        self._next_ms = 0  # of the next slice
        self._others_ms = 0  # when another broker has last had some expire
        self.lives(ttl_ms)
        self._state = state
        self._dispatcher = dispatcher
        self._own = own
        self._outbox = outbox
        self.times = Timetable()
        self._dues = Dues(state, own, outbox, timing)

    def lives(self, ttl_ms: int) -> None:
        """From now on the queue lets messages that come live so long: as `ttl_ms` above."""
        self._at_once = ttl_ms == 0
        self.ttl = QueueTtl(self) if ttl_ms >= 0 else None

    def restart(self) -> None:
        """The state has come by an update."""
        self.times = Timetable(sorted((at_ms, position) for position, at_ms in self._state.expiry.items()))

    def note(self, positions: list[tuple[int, int]]) -> None:
        """Messages have come, of which some expire."""
        expiry, add = self._state.expiry, self.times.add
        # What is to expire at once does so behind the consumers that wait for it.
        least_ms = self._outbox.now_ms + 1 if self._at_once else 0
        for first, last in positions:
            for position in range(first, last + 1):
                if position in expiry:
                    add(max(expiry[position], least_ms), position)

    def applied(self, event: Expire, mine: bool) -> None:
        """Some have expired, by this broker's say or another's; others not, since somebody had them by then."""
        for first, last in pairs(event.ranges):
            self._dispatcher.expiring.remove(first, last)
            if mine:
                self._look_again(first, last)
        if event.ranges and not mine:  # without any it only asks how far the stream is
            self._others_ms = self._outbox.now_ms

    def _look_again(self, first: int, last: int) -> None:
        """Of those that this broker had expire, and that are still there, no time is noted any more."""
        expiry, again_ms = self._state.expiry, self._outbox.now_ms + self._timing.expiry_held_ms
        for position in range(first, last + 1):
            if position in expiry:
                self.times.add(again_ms, position)

    def sweep(self) -> None:
        """Have what is due ordered to expire, or to be delayed no more, and look again when more can be."""
        outbox = self._outbox
        if self._state.delayed.heap:
            self._dues.sweep()
        if self._next_ms > outbox.now_ms:
            outbox.set_timer(self._state.id, self._next_ms)
            return
        due, again_ms = self.due(outbox.broker, outbox.now_ms)
        if due:
            self._own.submit(Expire(outbox.now_ms, due), None)
        if again_ms:
            if again_ms <= outbox.now_ms:
                again_ms = self._next_ms = outbox.now_ms + self._timing.expiry_slice_ms
            outbox.set_timer(self._state.id, again_ms)

    def due(self, broker: str, now_ms: int) -> tuple[list[int], int]:
        """The messages that this broker is to let expire now, a slice of them: as owner, or in its turn where there is
        none and no other is at it.

        Returns:
            (ranges of positions, marked as expiring, which are not found again before that is applied; when to look
            again in ms, 0 for not before something changes).
        """
        state = self._state
        looks = self.times.drop_gone(state.expiry, self._looks)
        if len(self.times) > 2 * len(state.expiry) + FORGET:
            self.times = self.times.kept(state.expiry)
        if state.owner and state.owner != broker:
            return [], 0
        wait_ms = 0 if state.owner else rank(broker) * self._timing.expiry_rank_ms
        if wait_ms and self._others_ms and self._others_ms + wait_ms > now_ms:
            return [], self._others_ms + wait_ms
        due, delayed = self._take(now_ms - wait_ms, now_ms + self._timing.expiry_held_ms, looks)
        expiring = self._dispatcher.expiring
        for first, last in pairs(compress(sorted(due))):
            expiring.add(first, last)
        return compress(sorted(due + delayed)), self.times.first_ms + wait_ms if self.times else 0

    def _take(self, until_ms: int, again_ms: int, looks: int) -> tuple[list[int], list[int]]:
        """A slice of what has expired by then: what can go now, and what is delayed. What somebody has is looked at
        again at that time: it may have come back."""
        state, times = self._state, self.times
        expiry, available, delays = state.expiry, state.available, state.delayed
        taken = self._dispatcher.taken
        expiring = self._dispatcher.expiring  # what is being moved, too, and may come back
        due: list[int] = []
        delayed: list[int] = []
        waiting: list[int] = []
        while times and times.first_ms <= until_ms and len(due) + len(delayed) + len(waiting) < self._most and looks:
            looks -= 1
            position = times.pop()
            if position not in expiry:
                continue
            if delays and position in delays:
                delayed.append(position)
            elif (
                position in available
                and not (taken.count and position in taken)
                and not (expiring.count and position in expiring)
            ):
                due.append(position)
            else:
                waiting.append(position)
        for position in waiting:
            times.add(again_ms, position)
        times.drop_gone(expiry, looks)  # so that the first one's time is one to look at
        return due, delayed


class QueueTtl(QueueObserver):
    """Notes messages whose senders have said nothing of their expiry; the others are noted as they come."""

    def __init__(self, expiries: Expiries) -> None:
        self._expiries = expiries

    def applied(self, index: int, entry: Entry, event: AnyEvent | None, done: Applied) -> None:
        if type(event) is Enqueue and not event.expiry and done.effective:
            self._expiries.note(done.positions)
