"""A broker's consumers of queues that give to one consumer at a time: the first in line, in the order of arrival.

Each consumer is ordered in the cluster stream when it comes and when it has gone (`wiring/uses.py`), so all brokers
know the same line. A replica knows only the one that gets messages: the others are attached, as far as their clients
know, and what they grant is kept until it is their turn. One that was first leaves the line when what it held is back,
or with its broker, or for its client's next broker. So the next one waits for what anybody holds: the one before it may
have been waiting itself, for what others held before it came.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from ..errors import IN_USE
from ..log.outbox import FollowerOutbox
from ..queue.credit import UNLIMITED
from ..queue.resumption import ANYBODY
from ..wire.client_frames import Attached, FlowDrained
from ..wire.events import CLUSTER, InUse, encode_event
from .cluster_state import ClusterState
from .pending_receiver import PendingReceiver, Tell
from .requests import Requests
from .session import ReceiverLink


class _InLine:
    """One consumer. Attributes: there, it is in line; active, its replica knows it; wanted, its coming is ordered."""

    __slots__ = ("active", "pending", "there", "wanted")

    def __init__(self, pending: PendingReceiver) -> None:
        self.pending = pending
        self.there = self.active = self.wanted = False


class SingleActive:
    """Args:
    condemned: whether a queue may be about to go.
    """

    def __init__(
        self, outbox: FollowerOutbox, cluster: ClusterState, requests: Requests, condemned: Callable[[str], bool]
    ) -> None:
        self._outbox = outbox
        self._cluster = cluster
        self._requests = requests
        self._condemned = condemned
        self._places: dict[str, dict[int, _InLine]] = {}  # queue id -> sub -> the consumer here
        self._going: dict[tuple[str, int], Tell | None] = {}  # whose end is ordered, and not applied yet

    def begin(self, pending: PendingReceiver) -> None:
        link = pending.link
        link.waits = link.waits or []
        place = self._places.setdefault(link.queue, {})[link.sub] = _InLine(pending)
        if not self._condemned(link.queue):
            self._come(link, place)

    def _come(self, link: ReceiverLink, place: _InLine) -> None:
        place.wanted = True
        self._order(link, place, True)

    def _order(self, link: ReceiverLink, place: _InLine, on: bool) -> None:
        event = InUse(link.queue, self._cluster.broker, self._cluster.inc, on, *place.pending.claim, link.sub)
        self._requests.request([(CLUSTER, encode_event(event))], lambda: None)

    def active(self, link: ReceiverLink) -> bool:
        """Whether it gets messages, so that its end is to wait until what it holds is back."""
        place = self._places.get(link.queue, {}).get(link.sub)
        return place is not None and place.active

    def granted(self, link: ReceiverLink) -> None:
        """A consumer that is in line for its turn has asked for more. Where it drains, there is nothing for it now."""
        place, waits = self._places.get(link.queue, {}).get(link.sub), link.waits
        if place is None or not place.there or not waits:
            return
        if any(credit.drain for credit in waits):
            waits.clear()
            link.drained()
            self._outbox.send(place.pending.session.peer, FlowDrained(link.handle))
        while len(waits) > 1:  # it may wait for long
            more, last = waits.pop(), waits.pop()
            bytes_ = UNLIMITED if more.bytes == UNLIMITED else more.bytes + max(last.bytes, 0)
            waits.append(replace(more, messages=last.messages + more.messages, bytes=bytes_))

    def end(self, link: ReceiverLink, tell: Tell | None) -> bool:
        """A consumer has gone. Returns whether it was one of these; then `tell` is called when that counts
        everywhere."""
        places = self._places.get(link.queue, {})
        place = places.pop(link.sub, None)
        if place is None:
            return False
        if not places:
            del self._places[link.queue]
        if place.wanted:
            self._going[link.queue, link.sub] = tell
            self._order(link, place, False)
        elif tell is not None:
            tell()
        return True

    def applied(self, event: InUse, code: str) -> PendingReceiver | None:
        """An event of this broker has applied, or was refused with that code. Returns the receiver that must end,
        since a newer connection of its client has its place."""
        if not event.on:
            tell = self._going.pop((event.queue, event.place), None)
            if tell is not None:
                tell()
            return None
        place = self._places.get(event.queue, {}).get(event.place)
        if place is None or place.there:
            return None
        if code == IN_USE:
            return place.pending
        if code:
            place.wanted = False
            self.resumed()
            return None
        place.there = True
        link = place.pending.link
        if not link.closing:
            attached = Attached(link.handle, queue=link.queue, wired=self._cluster.wired)
            self._outbox.send(place.pending.session.peer, attached)
        return None

    def advance(self) -> None:
        """The cluster stream has gone on: who is first in line now?"""
        here, uses = self._cluster.broker, self._cluster.wiring.uses
        for id, places in self._places.items():
            first = uses.first(id)
            if first is not None and (first.broker, first.inc) == (here, self._cluster.inc):
                place = places.get(first.place)
                if place is not None and place.there and not place.active:
                    self._activate(place)
            for place in places.values():
                if place.there and not place.active:
                    self.granted(place.pending.link)

    def _activate(self, place: _InLine) -> None:
        place.active = True
        _, link, consume, _ = place.pending
        waits, link.waits = link.waits, None
        if link.closing:
            return  # its `Cancel` is on its way
        # Also where it comes from elsewhere itself: it knows what it held, and not what others did.
        self._outbox.send(link.replica, replace(consume, before=[*consume.before, ANYBODY]))
        for credit in waits or ():
            self._outbox.send(link.replica, credit)

    def taken_over(self, event: InUse) -> list[int]:
        """A place in line has gone to another broker. Returns the sub of the consumer here that had it, if it did."""
        places = self._places.get(event.queue, {})
        return [sub for sub, place in places.items() if _older(place.pending.claim, event)]

    def resumed(self) -> None:
        """A queue may not be about to go any more: ask again for the consumers that wait."""
        for id, places in self._places.items():
            for place in places.values():
                if not place.wanted and not self._condemned(id):
                    self._come(place.pending.link, place)

    def recount(self) -> None:
        """A broker may not know of consumers that were ordered before: each is ordered again."""
        for places in self._places.values():
            for place in places.values():
                if place.wanted:
                    self._order(place.pending.link, place, True)

    def undeclared(self, id: str) -> list[PendingReceiver]:
        """The queue is gone; returns the receivers that still waited for it, and must end."""
        for going in [going for going in self._going if going[0] == id]:
            if (tell := self._going.pop(going)) is not None:
                tell()
        places = self._places.pop(id, {})
        return [place.pending for place in places.values() if not place.there]


def _older(claim: tuple[str, int], event: InUse) -> bool:
    return claim[0] == event.claim and claim[1] < event.life
