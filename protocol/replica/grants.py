"""One queue's consume lock at this broker: what a change of it in the stream means here, and what Ownership is told.

The lock itself is `lock/holder.py`; who gets it next is Ownership's to say. A grant counts by its number in the queue's
stream, so telling Ownership twice, or too late, harms nobody.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..lock.holder import LockHolder
from ..queue.applied import Applied
from ..queue.observers import QueueObserver
from ..queue.state import QueueState
from ..wire.events import Own, Rejoin
from ..wire.queue_frames import Contended, Interest, OwnerIs, Void
from .outbox import QueueOutbox
from .own_events import OwnEvents
from .ownerships import Ownerships


class Grants:
    """Args:
        inc: incarnation under which this broker keeps the queue.

    Attributes:
        interested: what the Ownerships were last told: a consumer here has credit, or this broker keeps the lock.
    """

    __slots__ = ("_inc", "_lock", "_observers", "_outbox", "_own", "_ownerships", "_state", "interested")

    def __init__(
        self,
        state: QueueState,
        inc: int,
        lock: LockHolder,
        own: OwnEvents,
        ownerships: Ownerships,
        outbox: QueueOutbox,
        observers: Sequence[QueueObserver] = (),
    ) -> None:
        self.interested = False
        self._state = state
        self._inc = inc
        self._lock = lock
        self._own = own
        self._ownerships = ownerships
        self._outbox = outbox
        self._observers = observers

    # ---- telling Ownership

    def introduce(self, peer: str) -> None:
        """A link to an Ownership is open: tell it all it must know of this queue."""
        outbox, state = self._outbox, self._state
        if self.interested:
            outbox.send(peer, Interest(state.id, outbox.broker, True))
            self._observed(True)
        if state.grant:  # of another broker's grant as well: what that broker said of it may have been lost
            outbox.send(peer, self._owner_is())

    def wants(self, wants: bool) -> None:
        self.interested = wants
        if self._ownerships.say(Interest(self._state.id, self._outbox.broker, wants)):
            self._observed(wants)

    def _observed(self, interest: bool) -> None:
        for observer in self._observers:
            observer.interest(interest)

    def hand_over(self, broker: str) -> None:
        """Give the lock up to `broker`, "" for none. Every acquire under it is submitted before (B3)."""
        self._lock.held = False
        self._own.submit(Own(broker, self._lock.grant + 1, self._outbox.broker), None)
        for observer in self._observers:
            observer.handing_over(broker)

    def _owner_is(self) -> OwnerIs:
        return OwnerIs(self._state.id, self._state.owner, self._state.grant)

    # ---- being told

    def contended(self, frame: Contended) -> None:
        if self._ownerships.heeds(frame):
            self._lock.contended(frame.grant, frame.next, frame.slice_ms)
        self._outbox.dirty[self._state.id] = None

    def owned(self, event: Own, done: Applied, mine: bool, serving: bool) -> None:
        """An own event is applied. `mine`: this process has submitted it; `serving`: no older incarnation of this
        broker has any say."""
        state, broker = self._state, self._outbox.broker
        if not done.effective:
            if mine and state.owner == broker:
                self._lock.refused()
            if event.grant == state.grant + 1:
                self._ownerships.say(Void(state.id, event.broker, event.grant))
                if event.broker == broker and serving:
                    self._still_here()
            return
        if event.broker == broker:
            if serving:  # otherwise it may be an older incarnation's grant, which the return of this one will void
                self._lock.granted(event.grant, self._outbox.now_ms)
            self._ownerships.say(OwnerIs(state.id, broker, event.grant))
        else:
            self._lock.passed(event.grant)
            if not event.broker and mine:
                self._ownerships.say(OwnerIs(state.id, "", event.grant))

    def _still_here(self) -> None:
        """A grant to this broker was void since an older incarnation of it is out, and no event says that this one is
        here: it was back before the queue's stream began, or the word of the older one's end came late."""
        broker, state = self._outbox.broker, self._state
        if broker in state.fence.absent and not state.fence.is_out(broker, self._inc):
            self._own.submit(Rejoin(broker, self._inc), None)

    def ended(self) -> None:
        """A broker, or an older incarnation of one, is out, and with it any grant it had."""
        if self._state.grant > self._lock.grant:
            self._lock.passed(self._state.grant)
        self._ownerships.say(self._owner_is())  # a broker that had just given the lock up may have died unheard

    def returned(self) -> None:
        """This incarnation is in: from here on a grant to this broker is its own."""
        self.interested = False  # a void grant may have consumed the last Interest: send it again
        if self._state.owner == self._outbox.broker:  # granted since the older incarnations are out
            self._lock.granted(self._state.grant, self._outbox.now_ms)
            self._ownerships.say(self._owner_is())
