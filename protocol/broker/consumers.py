"""A broker's part in who uses a queue: its first consumer of the queue, and the end of its last, are ordered in the
cluster stream (`wiring/uses.py`).

A consumer is attached when the cluster knows that its broker uses the queue. A consumer that comes while the queue may
be about to go waits until that is decided. One that is to have the queue alone comes only where there is none yet, here
by this file's count and elsewhere by the order of the cluster stream; then none comes beside it.
"""

from __future__ import annotations

from collections import deque

from ..errors import IN_USE
from ..log.outbox import FollowerOutbox
from ..wire.client_frames import Attached
from ..wire.events import CLUSTER, InUse, encode_event
from ..wire.queue_frames import Consume
from ..wiring.uses import alone, shared
from .cluster_state import ClusterState
from .pending_receiver import SHARED, PendingReceiver, Tell
from .requests import Requests
from .session import ReceiverLink, Session
from .single_active import SingleActive


class _Use:
    """This broker's use of one queue.

    Attributes:
        links: subs of the consumers there are, waiting ones among them.
        wanted: what this broker asked for last: that it uses the queue, or not.
        waiting: sub -> a receiver that is not attached yet.
        behind: sub -> one that cannot be beside those that wait, and may yet be instead of them.
        claim: who has, or is to have, the queue alone, as in `InUse`: its name, "" for nobody, and its life.
        asked: the `InUse` events that are not applied yet: on or off, and the calls to make when each is.
    """

    __slots__ = ("asked", "behind", "claim", "links", "waiting", "wanted")

    def __init__(self) -> None:
        self.links: set[int] = set()
        self.wanted = False
        self.waiting: dict[int, PendingReceiver] = {}
        self.behind: dict[int, PendingReceiver] = {}
        self.claim = SHARED
        self.asked: deque[tuple[bool, list[Tell]]] = deque()


class Consumers:
    """Which queues the consumers of one broker use, and which consumers wait to be attached."""

    def __init__(self, outbox: FollowerOutbox, cluster: ClusterState, requests: Requests) -> None:
        self._outbox = outbox
        self._cluster = cluster
        self._requests = requests
        self._uses: dict[str, _Use] = {}
        self.lines = SingleActive(outbox, cluster, requests, self._condemned)

    def begin(self, session: Session, link: ReceiverLink, consume: Consume, claim: tuple[str, int] = SHARED) -> str:
        """A consumer comes: attach it now, or when its use of the queue counts everywhere. Returns why it must not come
        beside those that are here, "" if it may."""
        id = link.queue
        use = self._uses.setdefault(id, _Use())
        if use.links and (use.claim != SHARED or claim != SHARED):
            if use.wanted and not use.asked:
                here = self._cluster.broker
                return shared(id, [here]) if use.claim == SHARED else alone(id, here)
            link.waits = link.waits or []
            use.behind[link.sub] = PendingReceiver(session, link, consume, claim)
            return ""
        use.claim = claim
        use.links.add(link.sub)
        if use.wanted and not use.asked:
            self.attach(session, link, consume)
            return ""
        link.waits = link.waits or []
        use.waiting[link.sub] = PendingReceiver(session, link, consume, claim)
        if not use.wanted and not self._condemned(id):
            self._ask(id, use, True, [])
        return ""

    def end(self, link: ReceiverLink, tell: Tell | None = None) -> None:
        """A receiver has gone; `tell` is called when that counts everywhere."""
        if self.lines.end(link, tell):
            return
        use = self._uses.get(link.queue)
        tells = [tell] if tell is not None else []
        if use is not None:
            use.behind.pop(link.sub, None)
        if use is not None and link.sub in use.links:
            use.links.discard(link.sub)
            use.waiting.pop(link.sub, None)
            if not use.links:
                if use.wanted:
                    self._ask(link.queue, use, False, tells)
                    tells = []
                elif not use.asked:
                    del self._uses[link.queue]
                self._go_on(use)
        for one in tells:
            one()

    def applied(self, event: InUse, code: str, text: str) -> list[tuple[PendingReceiver, str]]:
        """An `InUse` of this broker has applied, or was refused with that code and text. Returns the receivers that
        must end, since a consumer is in their way, and why."""
        if event.place:
            older = self.lines.applied(event, code)
            return [(older, text)] if older is not None else []
        use = self._uses.get(event.queue)
        if use is None or not use.asked:
            return []  # the queue is gone
        _, tells = use.asked.popleft()
        for tell in tells:
            tell()
        if use.asked:
            return []
        if use.wanted and code:
            use.wanted = False
            if code != IN_USE:
                self._resume(event.queue, use)
                return []
            refused = [(pending, text) for pending in use.waiting.values()]
            del self._uses[event.queue]
            return refused + self._go_on(use)
        elif use.wanted:
            waiting, use.waiting = use.waiting, {}
            for pending in waiting.values():
                self.attach(pending.session, pending.link, pending.consume)
            return self._go_on(use)
        elif not use.links:
            del self._uses[event.queue]
        return []

    def _go_on(self, use: _Use) -> list[tuple[PendingReceiver, str]]:
        """Those that were behind come now. Returns which must end, and why."""
        behind, use.behind = use.behind, {}
        said = [(pending, self.begin(*pending)) for pending in behind.values()]
        return [(pending, text) for pending, text in said if text]

    def taken_over(self, event: InUse) -> list[int]:
        """A claim, or a place in line, has gone to another broker. Returns the sub of the consumer that had it here."""
        if event.place:
            return self.lines.taken_over(event)
        use = self._uses.get(event.queue)
        mine = use is not None and use.claim[0] == event.claim and use.claim[1] < event.life
        return list(use.links) if use is not None and mine else []

    def resumed(self) -> None:
        """A queue may not be about to go any more: ask again for the consumers that wait."""
        self.lines.resumed()
        for id, use in list(self._uses.items()):
            if use.links and not use.wanted:
                self._resume(id, use)

    def recount(self) -> None:
        """A broker may not know of uses that were ordered before: each is ordered again."""
        self.lines.recount()
        for id, use in self._uses.items():
            if use.wanted:
                self._ask(id, use, True, [])

    def undeclared(self, id: str) -> list[PendingReceiver]:
        """The queue is gone; returns the receivers that still waited for it, and must end."""
        in_line = self.lines.undeclared(id)
        use = self._uses.pop(id, None)
        if use is None:
            return in_line
        for tell in [tell for _, tells in use.asked for tell in tells]:
            tell()
        return [*in_line, *use.waiting.values(), *use.behind.values()]

    def _resume(self, id: str, use: _Use) -> None:
        if not self._condemned(id):
            self._ask(id, use, True, [])

    def _condemned(self, id: str) -> bool:
        stands = self._cluster.wiring.uses.condemned.get(id)
        return stands is not None and stands.if_unused

    def _ask(self, id: str, use: _Use, on: bool, tells: list[Tell]) -> None:
        use.wanted = on
        use.asked.append((on, tells))
        event = InUse(id, self._cluster.broker, self._cluster.inc, on, *(use.claim if on else SHARED))
        self._requests.request([(CLUSTER, encode_event(event))], lambda: None)

    def attach(self, session: Session, link: ReceiverLink, consume: Consume) -> None:
        """A receiver may begin, with the credit that it has granted meanwhile."""
        waits, link.waits = link.waits, None
        if link.closing:
            return  # its `Cancel` is on its way
        send = self._outbox.send
        send(link.replica, consume)
        send(session.peer, Attached(link.handle, queue=link.queue, wired=self._cluster.wired))
        for credit in waits or ():
            send(link.replica, credit)
