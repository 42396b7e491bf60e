"""A broker's receivers: between a client's handle and a subscription at the replica that keeps the queue.

Credit and settlements pass to the replica, deliveries and their answers to the client. A receiver ends when its client
detaches it, when its queue or the replica is gone, or with its connection; what it held goes back to its place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import count

from msgspec.structs import replace

from ..errors import IN_USE, INVALID, NOT_ALLOWED, NOT_FOUND, TIMED_OUT, UNAVAILABLE, PeerError
from ..log.outbox import FollowerOutbox
from ..queue.selector import selector
from ..queue.settings import QueueSettings
from ..wire.client_frames import AttachReceiver, Delivery, Detached, Dispose, Disposed, Flow, FlowDrained
from ..wire.events import AnyEvent, InUse
from ..wire.queue_frames import (
    Cancel,
    Cancelled,
    Consume,
    Credit,
    Deliver,
    Drained,
    HeldTooLong,
    Modification,
    Settle,
    Settled,
)
from ..wire.settings import read
from ..wire.version import KNOWS_EXCLUSIVE, KNOWS_MODIFY, KNOWS_NO_LOCAL, spoken
from ..wiring.definitions import QueueDefinition
from ..wiring.exclusives import others
from ..wiring.wiring import Outcome
from .cluster_state import ClusterState
from .connections import RESCUE, refuse
from .consumers import Consumers
from .delays import undelayable
from .pending_receiver import SHARED, PendingReceiver
from .session import AS_USUAL, AttachedAs, ReceiverLink, Session, not_attached

PRIORITIES = 1 << 31
"""Above all priorities of consumers, as far as -PRIORITIES is below them."""
OLDER, UPGRADE = "a member of the cluster is of an older version", "upgrade all members first"


class Receivers:
    """Args:
        sessions: peer -> its session, of all connections.
        replica_of: queue id -> the replica that keeps it.

    Attributes:
        subs: the broker's number for a subscription -> its session and receiver.
    """

    def __init__(
        self,
        outbox: FollowerOutbox,
        cluster: ClusterState,
        consumers: Consumers,
        sessions: Mapping[str, Session],
        replica_of: Mapping[str, str],
    ) -> None:
        self.subs: dict[int, tuple[Session, ReceiverLink]] = {}
        self._outbox = outbox
        self._cluster = cluster
        self._consumers = consumers
        self._sessions = sessions
        self._replica_of = replica_of
        self._numbers = count(1)
        self._leaving: dict[int, ReceiverLink] = {}  # first in line; the next comes when what they held is back

    # ---- they come

    def attach(self, session: Session, frame: AttachReceiver) -> None:
        session.check_handle(frame.handle)
        definition = self._cluster.wiring.queue(frame.queue)
        if definition is None:
            text = f"there is no queue {frame.queue!r}: declare it first"
            refuse(self._outbox, session, frame.handle, NOT_FOUND, text)
            return
        if definition.client not in ("", session.client) and not session.rescue:
            refuse(self._outbox, session, frame.handle, IN_USE, others(frame.queue))
            return
        if frame.mode not in ("consume", "browse"):
            text = f"a receiver's mode is consume or browse, not {frame.mode!r}"
            refuse(self._outbox, session, frame.handle, INVALID, text)
            return
        if session.rescue and frame.mode != "browse":
            refuse(self._outbox, session, frame.handle, NOT_ALLOWED, RESCUE)
            return
        selects = frame.selector or frame.no_local
        if selects and (error := _unselectable(definition, frame)) is not None:
            refuse(self._outbox, session, frame.handle, error.code, error.text)
            return
        if frame.priority and (frame.mode != "consume" or not -PRIORITIES <= frame.priority < PRIORITIES):
            text = f"a receiver that consumes may have a priority of {-PRIORITIES} to {PRIORITIES - 1}, and no other"
            refuse(self._outbox, session, frame.handle, INVALID, text)
            return
        single_active = read(QueueSettings, definition.arguments).single_active
        if frame.exclusive and (error := self._unclaimable(frame, single_active)) is not None:
            refuse(self._outbox, session, frame.handle, error.code, error.text)
            return
        host = self._replica_of.get(definition.id)
        if host is None:
            text = f"queue {frame.queue!r} has no replica at this broker now: try again or use another broker"
            refuse(self._outbox, session, frame.handle, UNAVAILABLE, text)
            return
        sub = next(self._numbers)
        link = session.add_receiver(frame.handle, definition.id, host, sub)
        if (
            asked := AttachedAs(frame.mode, frame.accept, frame.priority, frame.selector, bool(frame.exclusive))
        ) != AS_USUAL:
            link.asked = asked
        self.subs[sub] = (session, link)
        mode = "rescue" if session.rescue else frame.mode
        consume = Consume(definition.id, sub, mode, frame.accept, session.before(frame), frame.selector, frame.priority)
        if frame.undeliverable and frame.undeliverable_in == definition.id:
            consume = replace(consume, undeliverable=session.undeliverable(frame))
        if frame.no_local:
            consume = replace(consume, own=session.client)
        claim = SHARED
        if single_active or frame.exclusive:
            claim = f"{session.client}/{frame.handle}", frame.exclusive or session.life
        begin = partial(self._begin, PendingReceiver(session, link, consume, claim), single_active)
        if session.rescue or not (frame.exclusive or frame.no_local):
            begin()
        else:
            link.waits = []
            self._cluster.versions.once_known(partial(self._begin_known, session, link, frame, begin))

    def _unclaimable(self, frame: AttachReceiver, single_active: bool) -> PeerError | None:
        """Why a receiver cannot be exclusive."""
        if single_active:
            text = f"queue {frame.queue!r} gives to one consumer at a time, and has others wait for their turn: "
            return PeerError(NOT_ALLOWED, text + "leave exclusive away")
        if frame.mode != "consume" or not 0 < frame.exclusive < 1 << 62:
            text = "an exclusive receiver consumes, and says which connection of its client it is on, from 1"
            return PeerError(INVALID, f"{text}: leave exclusive away, or the mode")
        return None

    def _begin_known(
        self, session: Session, link: ReceiverLink, frame: AttachReceiver, begin: Callable[[], None]
    ) -> None:
        """A receiver of which all members must know may come, if they do and it has not gone again."""
        least = self._cluster.versions.least
        if link.sub not in self.subs:
            return
        if frame.exclusive and least < KNOWS_EXCLUSIVE:
            text = f"have queue {frame.queue!r} alone yet: {OLDER}, and would let others in: {UPGRADE}"
        elif frame.no_local and least < KNOWS_NO_LOCAL:
            text = f"of queue {frame.queue!r} be no_local yet: {OLDER}, and does not keep who sent what: {UPGRADE}"
        else:
            begin()
            return
        self._end(session, link, UNAVAILABLE, f"no receiver can {text}")

    def _begin(self, pending: PendingReceiver, single_active: bool) -> None:
        session, link, consume, claim = pending
        if consume.mode != "consume":
            self._consumers.attach(session, link, consume)
        elif single_active:
            self._consumers.lines.begin(pending)
        elif text := self._consumers.begin(session, link, consume, claim):
            self._end(session, link, IN_USE, text)

    def applied(self, event: AnyEvent, outcome: Outcome) -> None:
        """An event of the cluster stream has applied."""
        if type(event) is InUse:
            self.used(event, outcome)
        self._consumers.lines.advance()

    def used(self, event: InUse, outcome: Outcome) -> None:
        """An `InUse` has applied, of this broker or another."""
        if (event.broker, event.inc) != (self._cluster.broker, self._cluster.inc):
            if event.claim and not outcome.code:
                self.taken_over(event)
            return
        for pending, text in self._consumers.applied(event, outcome.code, outcome.text):
            self._end(pending.session, pending.link, IN_USE, text)

    def taken_over(self, event: InUse) -> None:
        """A claim has gone to another broker, since its client has come back there: its older connection is over."""
        for session, link in [self.subs[sub] for sub in self._consumers.taken_over(event) if sub in self.subs]:
            self._outbox.send(link.replica, Cancel(link.queue, link.sub, True))
            text = f"its client has come back at {event.broker}, and goes on there: use one connection per client id"
            self._end(session, link, IN_USE, text)

    # ---- credit, deliveries, settlements

    def flow(self, session: Session, frame: Flow) -> None:
        link = session.flow(frame)
        if link is not None:
            sure = frame.sure and not session.rescue  # without a majority nobody could ever be sure
            credit = Credit(link.queue, link.sub, frame.messages, frame.bytes, frame.drain, sure)
            if link.waits is None:
                self._outbox.send(link.replica, credit)
            else:
                link.waits.append(credit)
                self._consumers.lines.granted(link)

    def deliver(self, peer: str, frame: Deliver) -> None:
        found = self.subs.get(frame.sub)
        if found is None:
            return  # it went away meanwhile; its cancel returns the messages
        session, link = found
        session.delivered(link, frame.ranges)
        given = frame.acquisition, frame.ranges, frame.blobs, frame.redelivered, frame.times
        self._outbox.send(session.peer, Delivery(link.handle, *given))

    def dispose(self, session: Session, frame: Dispose) -> None:
        link = session.dispose(frame)
        if link is not None:
            said = frame.modification
            if said is not None and (refusal := self._unmodifiable(link, said)) is not None:
                self._outbox.send(link.replica, Cancel(link.queue, link.sub, True))
                self._end(session, link, refusal.code, refusal.text)
                return
            self._outbox.send(link.replica, Settle(link.queue, link.sub, frame.number, frame.kind, frame.runs, said))

    def _unmodifiable(self, link: ReceiverLink, said: Modification) -> PeerError | None:
        """Why what a receiver holds cannot be modified so: the receiver ends with that, and all of it goes back."""
        cluster = self._cluster
        if said.delay_ms and (refusal := undelayable(cluster)) is not None:
            return refusal
        if cluster.versions.least < KNOWS_MODIFY:
            return PeerError(
                NOT_ALLOWED,
                f"a member of the cluster speaks protocol {spoken(cluster.versions.least)} and knows no modify: "
                "release instead, or bring all members up to date",
            )
        definition = cluster.wiring.by_id(link.queue) if said.undeliverable_here else None
        if definition is not None and (key := read(QueueSettings, definition.arguments).group_key):
            return PeerError(
                NOT_ALLOWED,
                f"queue {definition.name!r} has message groups (by {key!r}), which a consumer gets whole and in order: "
                "reject the message, or end the receiver, instead of undeliverable_here",
            )
        return None

    def settled(self, peer: str, frame: Settled) -> None:
        found = self.subs.get(frame.sub)
        if found is not None:
            self._outbox.send(found[0].peer, Disposed(found[1].handle, frame.number, frame.lost))

    def drained(self, peer: str, frame: Drained) -> None:
        found = self.subs.get(frame.sub)
        if found is not None:
            found[1].drained()
            self._outbox.send(found[0].peer, FlowDrained(found[1].handle, frame.available))

    # ---- they go

    def timed_out(self, peer: str, frame: HeldTooLong) -> None:
        """A consumer has held a message for longer than its queue lets it."""
        session, link = self.subs.get(frame.sub, (None, None))
        definition = self._cluster.wiring.by_id(frame.queue)
        if session is None or link is None or link.closing or definition is None:
            return
        self._outbox.send(link.replica, Cancel(link.queue, link.sub, True))
        seconds = read(QueueSettings, definition.arguments).consumer_timeout_ms / 1000
        text = (
            f"a message of queue {definition.name!r} was not settled within {seconds:g} s (consumer_timeout_s), and "
            "all that this receiver held is back in the queue: open another one, and settle sooner or declare the "
            "queue with more"
        )
        self._end(session, link, TIMED_OUT, text)

    def detach(self, session: Session, handle: int) -> None:
        """The client detaches a receiver.

        Raises:
            PeerError: fatal, there is none of that handle.
        """
        link = session.receivers.get(handle)
        if link is None:
            if session.crossed(handle):
                return
            raise not_attached(handle)
        # The answer is Cancelled: the client hears `Detached` when what it held is back in its place, once.
        if not link.closing:
            link.closing = True
            self._outbox.send(link.replica, Cancel(link.queue, link.sub, True))

    def cancelled(self, peer: str, frame: Cancelled) -> None:
        if (left := self._leaving.pop(frame.sub, None)) is not None:
            self._consumers.end(left)
        session, link = self.subs.pop(frame.sub, (None, None))
        if session is not None and link is not None:
            del session.receivers[link.handle]
            self._consumers.end(link, lambda: self._detached(session, link))

    def _detached(self, session: Session, link: ReceiverLink) -> None:
        if self._sessions.get(session.peer) is session:
            self._outbox.send(session.peer, Detached(link.handle))

    def undeclared(self, id: str, code: str, text: str) -> None:
        """A queue is gone: its receivers end."""
        for session, link, *_ in self._consumers.undeclared(id):
            self._end(session, link, NOT_FOUND, f"there is no queue {id.rpartition('#')[0]!r}: declare it first")
        self.detach_all(id, code, text)

    def detach_all(self, id: str, code: str, text: str) -> None:
        """Nothing comes from a queue any more: its receivers end."""
        for session, link in list(self.subs.values()):
            if link.queue == id:
                self._end(session, link, code, text)
        for link in [link for link in self._leaving.values() if link.queue == id]:
            del self._leaving[link.sub]
            self._consumers.end(link)

    def _end(self, session: Session, link: ReceiverLink, code: str, text: str) -> None:
        del self.subs[link.sub]
        del session.receivers[link.handle]
        session.end(link.handle)
        self._consumers.end(link)
        self._outbox.send(session.peer, Detached(link.handle, code, text))

    def ended(self, session: Session) -> None:
        """The connection is over: what its consumers held goes back to its place."""
        for link in session.receivers.values():
            del self.subs[link.sub]
            self._outbox.send(link.replica, Cancel(link.queue, link.sub, True))
            if self._consumers.lines.active(link):
                self._leaving[link.sub] = link
            else:
                self._consumers.end(link)
        session.receivers.clear()


def _unselectable(definition: QueueDefinition, frame: AttachReceiver) -> PeerError | None:
    """Why a receiver cannot have its selector, or no_local."""
    try:
        if frame.selector:
            selector(frame.selector)
    except PeerError as error:
        return error
    if frame.mode == "consume" and (key := read(QueueSettings, definition.arguments).group_key):
        text = (
            f"queue {frame.queue!r} has message groups (by {key!r}), which a consumer gets whole and in order: leave "
            f"{'the selector' if frame.selector else 'no_local'} away, or browse"
        )
        return PeerError(NOT_ALLOWED, text)
    return None
