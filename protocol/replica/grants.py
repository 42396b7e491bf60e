"""A replica and the consume lock: what it does when a grant or the end of a broker is applied, and how it gives up all
its locks when its broker leaves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..machine import Send
from ..queue.state import Applied
from ..wire.events import ZERO, AnyEvent, Ballot, Evict, Member, Own, Rejoin
from ..wire.frame import Frame
from ..wire.queue_frames import Contended, Forget, GivenUp, Interest, OwnerIs, Void
from .hosted_queue import HostedQueue

if TYPE_CHECKING:
    from .machine import ReplicaMachine

EXPELS = (Evict, Rejoin, Member)
"""Events that end what a broker, or its older incarnations, had."""


class Grants:
    """Of one replica.

    Attributes:
        yielding: the broker leaves, and has not been told that all is given up.
        day: ballot and turn by which the Ownership was on duty that was heard last (`lock/duty.py`).
    """

    def __init__(self, machine: ReplicaMachine) -> None:
        self.machine = machine
        self.yielding = False
        self.day: tuple[Ballot, int] = (ZERO, 0)
        self._ownerships: dict[str, None] = {}

    # ---- Ownership

    def up(self, peer: str, unhosted: Iterable[str]) -> None:
        """A link to an Ownership is open: tell it all it must know. `unhosted`: deleted queues."""
        machine = self.machine
        self._ownerships[peer] = None
        machine.effects += (Send(peer, Forget(id)) for id in unhosted)
        for id, hosted in machine.queues.items():
            if hosted.interested:
                machine.send(peer, Interest(id, machine.broker, True))
            if hosted.state.grant:  # whoever it is: what was said of the last grants may have been lost
                machine.send(peer, hosted.owner_is())

    def down(self, peer: str) -> None:
        self._ownerships.pop(peer, None)

    def say(self, frame: Frame) -> None:
        """To every Ownership: whoever stands by knows as much as the one on duty."""
        for peer in self._ownerships:
            self.machine.send(peer, frame)

    def contended(self, hosted: HostedQueue, frame: Contended) -> None:
        """Who is next; not by the word of one that is off duty and has not heard it."""
        day = frame.ballot, frame.turn
        if day[0] != ZERO:
            if day < self.day:
                return
            self.day = day
        hosted.lock.contended(frame.grant, frame.next, frame.slice_ms)

    def expelled(self, hosted: HostedQueue, event: AnyEvent, done: Applied) -> None:
        """A broker is out: what it held is back, and what it began to bury is finished by whoever is left (Q3)."""
        machine, state = self.machine, hosted.state
        if type(event) is Evict and event.broker == machine.broker:
            machine.catch_up.fenced(hosted, event.inc)
        if done.effective:
            hosted.dispatcher.returned(done.positions)
            if state.grant > hosted.lock.grant:
                hosted.lock.passed(state.grant)
            # Who has just given the lock up may have died before it said so.
            self.say(hosted.owner_is())
            for index in done.orphans:
                machine.dead_letters.bury(hosted, index)
        if self._is_us(hosted, event):
            hosted.joined = True
            hosted.interested = False  # what was said of it may have gone with a void grant: it is said again
            if state.owner == machine.broker:  # granted since the older ones are out
                hosted.lock.granted(state.grant, machine.now_ms)
                self.say(hosted.owner_is())

    def _is_us(self, hosted: HostedQueue, event: AnyEvent) -> bool:
        """Whether this incarnation comes back, or joins."""
        us = self.machine.broker, hosted.inc
        if type(event) is Rejoin:
            return (event.voter, event.inc) == us
        return type(event) is Member and event.present and (event.broker, event.inc) == us

    def owned(self, hosted: HostedQueue, event: Own, done: Applied, mine: bool) -> None:
        machine, state = self.machine, hosted.state
        if not done.effective:
            if mine and state.owner == machine.broker:
                hosted.lock.refused()
            if event.grant == state.grant + 1:
                self.say(Void(state.id, event.broker, event.grant))
                if event.broker == machine.broker:
                    self._still_here(hosted)
            return
        if event.broker == machine.broker:
            if hosted.joined:  # otherwise it may be an older incarnation's grant, which our return will void
                hosted.lock.granted(event.grant, machine.now_ms)
            self.say(OwnerIs(state.id, machine.broker, event.grant))
        else:
            hosted.lock.passed(event.grant)
            if not event.broker and mine:
                self.say(OwnerIs(state.id, "", event.grant))

    def _still_here(self, hosted: HostedQueue) -> None:
        """A grant to us was void since an older incarnation of our broker is out, and no event says that this one is
        here: it was back before the queue's stream began, or the word of the older one's end came late."""
        broker, state = self.machine.broker, hosted.state
        if hosted.joined and broker in state.absent and not state.is_evicted(broker, hosted.inc):
            self.machine.submit(hosted, Rejoin(broker, hosted.inc), None)

    # ---- the broker leaves

    def give_up(self) -> None:
        """No consumer is left here, so the locks go by themselves; say when they and all messages have gone."""
        self.yielding = True
        for id in self.machine.queues:
            self.machine.dirty[id] = None

    def look(self) -> None:
        if not any(self._holds(hosted) for hosted in self.machine.queues.values()):
            self.yielding = False
            self.machine.send(self.machine.broker, GivenUp())

    def _holds(self, hosted: HostedQueue) -> bool:
        if not hosted.joined:
            return False  # what an older incarnation held is not ours to give
        broker, state = self.machine.broker, hosted.state
        return bool(hosted.mine) or state.owner == broker or any(key[0] == broker for key in state.acquired)
