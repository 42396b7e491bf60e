"""One queue's consumers at this broker: what they ask, what they are given, and what they settle.

A delivery leaves before its `Acquire` is ordered, so all that depends on the acquire, settlements and cancels among it,
is ordered behind it in the same stream.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..lock.holder import LockHolder
from ..queue.applied import Applied
from ..queue.dispatch import Delivered, Dispatcher, DrainMark
from ..queue.observers import QueueObserver
from ..queue.ranks import rank
from ..queue.selector import selector
from ..queue.state import QueueState
from ..queue.undeliverable import leave_out
from ..ranges import RangeSet, pairs, runs
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import Accept, Expire, Release
from ..wire.queue_frames import Cancel, Cancelled, Consume, Credit, Drained, Settle, Settled
from .outbox import QueueOutbox
from .own_events import OwnEvents
from .settlements import PATIENT, Settlements, Settling, common


class QueueConsumers:
    """Args:
    inc: incarnation under which this broker keeps the queue.
    patient: nobody waits for an accept of this queue, but producers that it holds back.
    """

    __slots__ = (
        "_dispatcher", "_id", "_inc", "_lock", "_observers", "_outbox", "_own", "_patient", "_shown", "_state",
        "settlements",
    )  # fmt: skip

    def __init__(
        self,
        state: QueueState,
        inc: int,
        dispatcher: Dispatcher,
        lock: LockHolder,
        own: OwnEvents,
        outbox: QueueOutbox,
        timing: Timing = DEFAULT_TIMING,
        observers: Sequence[QueueObserver] = (),
        patient: bool = True,
    ) -> None:
        self._id, self._state, self._outbox = state.id, state, outbox
        self.settlements = Settlements(timing)
        self.rearranged(patient)
        self._inc = inc
        self._dispatcher = dispatcher
        self._shown = dispatcher.shown
        self._lock = lock
        self._own = own
        self._observers = observers

    def rearranged(self, patient: bool) -> None:
        """The queue goes by these rules. `patient`: as above."""
        self._patient = PATIENT if patient else frozenset[type]()

    # ---- what they ask

    def consume(self, frame: Consume) -> None:
        looks, rescue = frame.mode != "consume", frame.mode == "rescue"
        wanted = selector(frame.selector) if frame.selector else None
        subscription = self._dispatcher.subscribe(frame.sub, looks, frame.accept, rescue, wanted, frame.own)
        rank(self._dispatcher, subscription, frame.priority)
        if frame.undeliverable:
            leave_out(self._dispatcher, frame.sub, list(pairs(frame.undeliverable)))
        self._dispatcher.resume(frame.sub, frame.before, self._outbox.now_ms)
        self._outbox.dirty[self._id] = None
        for observer in self._observers:
            observer.consumer_came(frame.sub)

    def credit(self, frame: Credit) -> None:
        subscription = self._dispatcher.subscriptions.get(frame.sub)
        if subscription is not None:
            subscription.credit.grant(frame.messages, frame.bytes)
            if frame.drain:
                subscription.drain(frame.sure)
                self._dispatcher.draining = True
            self._outbox.dirty[self._id] = None

    def cancel(self, frame: Cancel) -> None:
        outbox = self._outbox
        subscription = self._dispatcher.subscriptions.pop(frame.sub, None)
        if subscription is None and not self._awaits(frame.sub):
            outbox.send(outbox.broker, Cancelled(frame.queue, frame.sub))
            return
        outbox.dirty[self._id] = None
        holding: dict[int, RangeSet] = {}
        if subscription is not None:
            holding = subscription.held
            for observer in self._observers:
                observer.consumer_went(frame.sub)
        held = [n for a, parts in holding.items() for first, last in parts for n in (a, first, last)]
        if not (held or self._own or self.settlements.anything()):
            outbox.send(outbox.broker, Cancelled(frame.queue, frame.sub))
            return
        # The acquires and all settlements from before the cancel must be ordered before it.
        self.gather()
        self._dispatcher.leaving[frame.sub] = holding
        self._own.submit(Release(outbox.broker, self._inc, held, frame.requeue, outbox.now_ms), frame)

    def _awaits(self, sub: int) -> bool:
        """Whether something that this one has settled has no answer yet. One whose turn has not come is not known here,
        and may settle what it never held."""
        under_way = (tag for _, _, tag in self._own if isinstance(tag, Settling))
        return any(one[0] == sub for gathered in (*self.settlements.gathered(), *under_way) for one in gathered.tags)

    def cancelled(self, frame: Cancel) -> None:
        """The messages that a cancelled subscription held are back."""
        self._dispatcher.leaving.pop(frame.sub, None)
        self._outbox.send(self._outbox.broker, Cancelled(self._id, frame.sub))

    # ---- what they settle

    def settle(self, frame: Settle) -> None:
        subscription = self._dispatcher.subscriptions.get(frame.sub)
        back = self.settlements.settle(frame, subscription.held if subscription is not None else {})
        if back:
            self._dispatcher.releasing(frame.sub)
            if frame.modification is not None and frame.modification.undeliverable_here:
                leave_out(self._dispatcher, frame.sub, [(first, last) for _, first, last in runs(back)])
        self._outbox.dirty[self._id] = None

    def settled(self, settling: Settling, done: Applied) -> None:
        outbox = self._outbox
        for sub, number, lost, held in settling.tags:
            if done.lost:
                lost = lost + common(held, done.lost)
            outbox.send(outbox.broker, Settled(self._id, sub, number, lost))
        if settling.releasing:
            self._dispatcher.released(settling.releasing)

    def gather(self) -> None:
        """Order what has gathered."""
        outbox = self._outbox
        for event, settling in self.settlements.events(outbox.broker, self._inc, self._lock.grant, outbox.now_ms):
            if event is not None:
                kind = type(event)
                hurried = kind is Accept and self._state.flow_stopped  # it may be what lets producers go on
                self._own.submit(event, settling, kind in self._patient and not hurried)
            elif settling is not None:
                for sub, number, lost, _ in settling.tags:
                    outbox.send(outbox.broker, Settled(self._id, sub, number, lost))

    def overtaken(self, tag: object) -> None:
        """An update has brought the event with this tag, so how it ended is not known: nothing waits for it now."""
        if isinstance(tag, Cancel):
            self._outbox.send(self._outbox.broker, Cancelled(self._id, tag.sub))
        elif isinstance(tag, DrainMark):
            tag.applied(self._dispatcher.subscriptions)
        elif isinstance(tag, Settling):
            self._dispatcher.released(tag.releasing)

    # ---- what they are given

    def deliver(self, delivered: list[Delivered]) -> None:
        """Send what a dispatch run has made, and note its acquires."""
        outbox, settlements, observers = self._outbox, self.settlements, self._observers
        for delivery in delivered:
            acquisition = delivery.acquisition
            if acquisition:
                acquires = settlements.acquires if delivery.subscription.accept else settlements.acquires_accepted
                for first, last in delivery.ranges:
                    acquires += (acquisition, first, last)
                self._lock.used()
            frame = delivery.frame(self._shown)
            outbox.send(outbox.broker, frame)
            if observers:
                for observer in observers:
                    observer.delivered(frame)

    def drained(self) -> None:
        """Tell subscriptions that drain and have got all there is, once that is sure."""
        outbox = self._outbox
        drained, unsure = self._dispatcher.drained(self._lock.held)
        if drained:
            waits = self._waits()
            for subscription in drained:
                outbox.send(outbox.broker, Drained(self._id, subscription.id, waits))
        if unsure and (mark := DrainMark.of(unsure)) is not None:
            self.look(mark)

    def _waits(self) -> int:
        """How many messages are available, without those that were given out here and are not ordered as acquired."""
        available = self._state.available
        given = sum(b - a + 1 for part in self._dispatcher.taken for a, b in available.within(*part))
        return available.count - given

    def look(self, tag: object) -> None:
        """Ask in order, by an event that changes nothing, so that the answer holds all that was complete before. It is
        applied once a majority holds it, so a question to a deposed sequencer waits for the next one's answer."""
        self.gather()
        self._own.submit(Expire(self._outbox.now_ms, []), tag)
