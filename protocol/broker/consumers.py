"""A broker's receivers, and its part in who uses a queue: the first consumer, and the end of the last, are ordered
(`wiring/uses.py`).

A receiver is attached when the cluster knows that its broker uses the queue. One that comes while the queue may be
about to go, waits for what comes of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING

from ..errors import INVALID, NOT_ALLOWED, NOT_FOUND, UNAVAILABLE
from ..wire.client_frames import Attached, AttachReceiver, Detached
from ..wire.events import CLUSTER, InUse, encode_event
from ..wire.queue_frames import Cancelled, Consume
from .session import ReceiverLink, Session

if TYPE_CHECKING:
    from .machine import BrokerMachine

RESCUE = "a connection opened for rescue only looks: browse a queue, or connect without rescue"
Tell = Callable[[], None]


class _Use:
    """Of one queue.

    Attributes:
        links: subs of the consumers there are, those that wait among them.
        wanted: what was asked last.
        waiting: sub -> a receiver that is not attached yet.
        asked: what is not applied yet: on or off, and who hears of it then.
    """

    __slots__ = ("asked", "links", "waiting", "wanted")

    def __init__(self) -> None:
        self.links: set[int] = set()
        self.wanted = False
        self.waiting: dict[int, tuple[Session, ReceiverLink, Consume]] = {}
        self.asked: deque[tuple[bool, list[Tell]]] = deque()


class Consumers:
    """Of one broker."""

    def __init__(self, broker: BrokerMachine) -> None:
        self._broker = broker
        self._uses: dict[str, _Use] = {}
        self._numbers = count(1)

    # ---- receivers

    def attach(self, session: Session, frame: AttachReceiver) -> None:
        session.check_handle(frame.handle)
        definition = self._broker.wiring.queue(frame.queue)
        if definition is None:
            text = f"there is no queue {frame.queue!r}: declare it first"
            self._broker.refuse(session, frame.handle, NOT_FOUND, text)
            return
        if frame.mode not in ("consume", "browse"):
            text = f"a receiver's mode is consume or browse, not {frame.mode!r}"
            self._broker.refuse(session, frame.handle, INVALID, text)
            return
        if session.rescue and frame.mode != "browse":
            self._broker.refuse(session, frame.handle, NOT_ALLOWED, RESCUE)
            return
        host = self._broker.placement.of.get(definition.id)
        if host is None:
            text = f"queue {frame.queue!r} has no replica at this broker now: try again or use another broker"
            self._broker.refuse(session, frame.handle, UNAVAILABLE, text)
            return
        sub = next(self._numbers)
        link = session.add_receiver(frame.handle, definition.id, host, sub)
        self._broker.subs[sub] = (session, link)
        mode = "rescue" if session.rescue else frame.mode
        consume = Consume(definition.id, sub, mode, frame.accept, session.before(frame))
        if frame.mode == "consume":
            self.begin(session, link, consume)
        else:
            self._broker.send(host, consume)
            self._broker.send(session.peer, Attached(frame.handle, queue=definition.id))

    def cancelled(self, frame: Cancelled) -> None:
        session, link = self._broker.subs.pop(frame.sub, (None, None))
        if session is not None and link is not None:
            del session.receivers[link.handle]
            self.end(link, lambda: self._detached(session, link))

    def _detached(self, session: Session, link: ReceiverLink) -> None:
        if self._broker.sessions.get(session.peer) is session:
            self._broker.send(session.peer, Detached(link.handle))

    def detach_all(self, id: str, code: str, text: str) -> None:
        for session, link in list(self._broker.subs.values()):
            if link.queue == id:
                self._end_receiver(session, link, code, text)

    def _end_receiver(self, session: Session, link: ReceiverLink, code: str, text: str) -> None:
        del self._broker.subs[link.sub]
        del session.receivers[link.handle]
        session.end(link.handle)
        self.end(link)
        self._broker.send(session.peer, Detached(link.handle, code, text))

    # ---- who uses a queue

    def begin(self, session: Session, link: ReceiverLink, consume: Consume) -> None:
        """A consumer comes: attach it now, or when it counts everywhere."""
        use = self._uses.setdefault(link.queue, _Use())
        use.links.add(link.sub)
        if use.wanted and not use.asked:
            self._attach(session, link, consume)
            return
        link.waits = []
        use.waiting[link.sub] = session, link, consume
        if not use.wanted and not self._condemned(link.queue):
            self._ask(link.queue, use, True, [])

    def end(self, link: ReceiverLink, tell: Tell | None = None) -> None:
        """A receiver has gone; `tell` is called when that counts everywhere."""
        use = self._uses.get(link.queue)
        tells = [tell] if tell is not None else []
        if use is not None and link.sub in use.links:
            use.links.discard(link.sub)
            use.waiting.pop(link.sub, None)
            if not use.links:
                if use.wanted:
                    self._ask(link.queue, use, False, tells)
                    return
                if not use.asked:
                    del self._uses[link.queue]
        for one in tells:
            one()

    def applied(self, event: InUse, refused: bool) -> None:
        """What this broker has asked for is ordered."""
        use = self._uses.get(event.queue)
        if use is None or not use.asked:
            return  # the queue is gone
        _, tells = use.asked.popleft()
        for tell in tells:
            tell()
        if use.asked:
            return
        if use.wanted and refused:
            use.wanted = False
            self._resume(event.queue, use)
        elif use.wanted:
            waiting, use.waiting = use.waiting, {}
            for session, link, consume in waiting.values():
                self._attach(session, link, consume)
        elif not use.links:
            del self._uses[event.queue]

    def resumed(self) -> None:
        """A queue may not be about to go any more."""
        for id, use in list(self._uses.items()):
            if use.links and not use.wanted:
                self._resume(id, use)

    def recount(self) -> None:
        """A broker may not know of what was ordered before."""
        for id, use in self._uses.items():
            if use.wanted:
                self._ask(id, use, True, [])

    def undeclared(self, id: str) -> None:
        """The queue is gone: who waits finds none."""
        use = self._uses.pop(id, None)
        if use is None:
            return
        for tell in [tell for _, tells in use.asked for tell in tells]:
            tell()
        for session, link, _ in use.waiting.values():
            text = f"there is no queue {id.rpartition('#')[0]!r}: declare it first"
            self._end_receiver(session, link, NOT_FOUND, text)

    def _resume(self, id: str, use: _Use) -> None:
        if not self._condemned(id):
            self._ask(id, use, True, [])

    def _condemned(self, id: str) -> bool:
        stands = self._broker.wiring.uses.condemned.get(id)
        return stands is not None and stands.if_unused

    def _ask(self, id: str, use: _Use, on: bool, tells: list[Tell]) -> None:
        use.wanted = on
        use.asked.append((on, tells))
        broker = self._broker
        broker.request([(CLUSTER, encode_event(InUse(id, broker.broker, broker.inc, on)))], lambda: None)

    def _attach(self, session: Session, link: ReceiverLink, consume: Consume) -> None:
        broker = self._broker
        waits, link.waits = link.waits, None
        if link.closing:
            return  # its `Cancel` is on its way
        broker.send(link.replica, consume)
        broker.send(session.peer, Attached(link.handle, queue=link.queue))
        for credit in waits or ():
            broker.send(link.replica, credit)
