"""A broker node: client sessions, routing, and the cluster stream.

It routes transfers through the wiring into requests for the sequencer, hands deliveries from its queue replicas to its
clients, and carries settlements back. It is a keeper of the cluster stream, so it knows the wiring as every other
broker does. A client's command is complete when the sequencer says so, never before (`sequencer.md` B2); management
commands are in `commands.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hmac import compare_digest
from typing import Any

from .commands import Commands
from .effects import (
    Close,
    Dismiss,
    Drain,
    Effect,
    Flush,
    Input,
    KeepAlive,
    Members,
    PeerDown,
    PeerGone,
    PeerUp,
    Received,
    SetTimer,
    Supervises,
    Tick,
    WantSpare,
)
from .errors import DELETED, IN_USE, INVALID, LOST, NOT_ALLOWED, NOT_FOUND, UNAUTHORIZED, UNAVAILABLE, PeerError
from .events import (
    CLUSTER,
    AnyEvent,
    Condemn,
    DeleteExchange,
    DeleteQueue,
    Entry,
    Evict,
    InUse,
    Lost,
    Recount,
    decode_event,
    encode_event,
)
from .follower import Follower
from .frames import (
    Append,
    Attached,
    AttachReceiver,
    AttachSender,
    Beat,
    Beating,
    Bury,
    Cancel,
    Cancelled,
    Command,
    Credit,
    Deliver,
    Delivery,
    Detach,
    Detached,
    Dispose,
    Disposed,
    Drained,
    Evicted,
    Fetch,
    Flow,
    FlowDrained,
    Frame,
    Hosted,
    Left,
    MembersChanged,
    Open,
    Opened,
    Prepare,
    Promised,
    QueueReply,
    Request,
    ResetDone,
    Results,
    Settle,
    Settled,
    Suspect,
    Transfer,
    Update,
    UpdateStart,
    Waits,
    Yielded,
)
from .hosts import Hosts
from .investiture import Investiture
from .keeper import Keeper
from .lease import Lease
from .limits import DEFAULT, Limits
from .office import Office
from .pulse import BEAT_MS, BROKEN_MS
from .resets import Resets
from .session import ReceiverLink, Session, not_attached
from .standing import Standing
from .transfers import Transfers, lost_text
from .using import RESCUE, Using
from .version import MINOR
from .waiting import Told
from .wiring import Outcome, QueueDefinition, Wiring

Done = Callable[[], None]
CUT_OFF = "this broker has lost the majority of the cluster and completes nothing: connect to another member"


class BrokerMachine(Follower):
    """One broker.

    Args:
        broker: its id; its voter name, its origin in requests.
        inc: its incarnation, fresh at every start.
        members: broker ids of the cluster.
        token: what clients must present; "" admits everybody.
        limits: bounds of a client connection.
        blank: an earlier incarnation may have kept the wiring: no vote and no clients until it has rejoined (K4).
        replicas_max: so many of its replicas keep queues, while any others are spares; 0: all.
    """

    def __init__(
        self,
        broker: str,
        inc: int,
        members: list[str],
        token: str = "",
        limits: Limits = DEFAULT,
        blank: bool = False,
        replicas_max: int = 0,
    ) -> None:
        super().__init__()
        self.broker = broker
        self.inc = inc
        self.members = list(members)
        self.addresses: dict[str, str] = {}
        self.limits = limits
        self.wiring = Wiring()
        self.wiring_version = 0
        self.sessions: dict[str, Session] = {}
        self._clients: dict[str, Session] = {}
        self.keeper = Keeper(CLUSTER, broker, inc, blank, voters=members)
        self.lease = Lease()
        self.hosts = Hosts(self, replicas_max)
        self.standing = Standing(self, not blank)
        self.office = Office()
        self.investiture = Investiture(self)
        self.transfers = Transfers(self)
        self.using = Using(self)
        self.told = Told()
        self.resets = Resets(self)
        self._token = token.encode()
        self.commands = Commands(self)
        self._number = 0
        self._requests: dict[int, Request] = {}  # until answered (B1)
        self._waiting: dict[int, Done] = {}  # request number -> what its answer completes
        self._outcomes: dict[int, Outcome] = {}  # my wiring requests that have applied here
        self.subs: dict[int, tuple[Session, ReceiverLink]] = {}
        self._timer = 0
        self.needs_ack = False

    # ---- the door

    def step(self, input: Input) -> list[Effect]:
        kind = type(input)
        if kind is Received:
            self._receive(input.peer, input.frame)  # type: ignore[union-attr]
        elif kind is Flush:
            self._flush()
        elif kind is Tick:
            self.now_ms = input.now_ms  # type: ignore[union-attr]
            if self._timer and self.now_ms >= self._timer:
                self._watch()
        elif kind is PeerUp:
            self._peer_up(input.peer)  # type: ignore[union-attr]
        elif kind is PeerDown:
            self._peer_down(input.peer)  # type: ignore[union-attr]
        elif kind is PeerGone and self.following.gone(input.peer, self.now_ms):  # type: ignore[union-attr]
            self._watch()
        elif kind is Drain:
            self.standing.drain()
        elif kind is Dismiss:
            self.standing.dismiss(input.broker)  # type: ignore[union-attr]
        elif kind is Supervises:
            self.investiture.asked(input)  # type: ignore[arg-type]
        elif kind is Members:
            self.moved(dict(input.addresses))  # type: ignore[union-attr]
        effects = self.effects
        if not effects:
            return []
        self.effects = []
        return effects

    def _receive(self, peer: str, frame: Frame) -> None:
        rule = _CLUSTER_RULES.get(type(frame))
        if rule is not None:
            rule(self, peer, frame)
            return
        session = self.sessions.get(peer)
        if session is None:
            return  # closed a moment ago; what was still on its way is void
        try:
            client_rule = _CLIENT_RULES.get(type(frame))
            if client_rule is None or (not session.client and type(frame) is not Open):
                raise PeerError(NOT_ALLOWED, f"a {type(frame).__name__} frame is not allowed now: open comes first")
            client_rule(self, session, frame)
        except PeerError as error:
            self._end(session, error.code, error.text)

    # ---- links

    def _peer_up(self, peer: str) -> None:
        if self.following.up(peer):
            self.investiture.tell([peer])
            if not self._timer:
                self._watch()
        elif peer.startswith(self.broker + "."):
            self.investiture.tell([peer])
            self.hosts.up(peer)
        else:
            self.sessions[peer] = Session(peer, self.limits)

    def _peer_down(self, peer: str) -> None:
        if self.following.down(peer, self.now_ms):
            return
        if (session := self.sessions.get(peer)) is not None:
            self._end(session)
        elif peer in self.hosts.replicas:
            self._lost(peer)

    def _lost(self, replica: str) -> None:
        """A replica has died: what its consumers held goes back, and others keep its queues from now on."""
        self.commands.lost(replica)
        lost = self.hosts.lost(replica)
        text = "the broker's replica of this queue has stopped: attach again, or use another broker"
        for id, _ in lost:
            self.using.detach_all(id, UNAVAILABLE, text)
        if lost:
            self.request([(id, encode_event(Evict(self.broker, inc))) for id, inc in lost], lambda: None)
        for id, _ in lost:
            definition = self.wiring.by_id(id)
            if definition is not None:
                self.hosts.assign(definition, True)
        self.effects.append(WantSpare())

    # ---- the sequencer

    def keepers(self) -> Iterable[Keeper]:
        return [self.keeper]

    def keeper_of(self, stream: str) -> Keeper | None:
        return self.keeper if stream == CLUSTER else None

    def pledge(self) -> None:
        leader = self.following.leader
        self.send(leader, self.keeper.subscribe())
        hosting = [queue.id for queue in self.wiring.queues()]
        self.send(leader, Promised(self.following.promised, self.broker, self.inc, self.keeper.blank, hosting))

    def attached(self) -> None:
        self.lease.renew()
        self.needs_ack = True  # how far it is applied may have been lost with the link
        for request in self._requests.values():
            self.lead(request)
        self.standing.attached()
        self.resets.attached()

    def beat(self, peer: str, frame: Beat) -> None:
        super().beat(peer, frame)
        if peer == self.following.leader and frame.ballot == self.following.promised:
            self.lease.heard(frame.number, frame.sure, self.now_ms)
            self.commands.deleting.heard(peer, frame)
            self.send(peer, Beating(frame.ballot, frame.number, self.broker, self.inc, MINOR))

    def _watch(self) -> None:
        """Every beat: is the leader there, and may we serve?"""
        following, now_ms = self.following, self.now_ms
        again_ms = following.parted_ms + BROKEN_MS + 1  # a broken link is looked at then; no watch is put off for it
        self._timer = again_ms if now_ms < again_ms < now_ms + BEAT_MS else now_ms + BEAT_MS
        self.effects.append(SetTimer(self._timer))
        for peer in following.others() if following.suspicious(now_ms) else ():
            self.send(peer, Suspect(following.promised, self.broker, list(self.members)))
        self.commands.overdue(now_ms)
        if self.lease.expired(now_ms):
            self.close_all(CUT_OFF, rescue=False)

    def _end(self, session: Session, code: str = "", text: str = "") -> None:
        """The connection is over: what its consumers held goes back to its place."""
        if code:
            self.effects.append(Close(session.peer, code, text))
        del self.sessions[session.peer]
        self._clients.pop(session.client, None)
        self.transfers.ended(session)
        for link in session.receivers.values():
            del self.subs[link.sub]
            self.send(link.replica, Cancel(link.queue, link.sub, True))
            self.using.end(link)
        session.receivers.clear()

    def close_all(self, text: str, rescue: bool = True) -> None:
        """`rescue`: those that only look, too."""
        for session in list(self.sessions.values()):
            if rescue or not session.rescue:
                self._end(session, UNAVAILABLE, text)

    def moved(self, addresses: dict[str, str]) -> None:
        """The members are told to every client: it may need them when this broker is gone."""
        if addresses != self.addresses:
            self.addresses = addresses
            for session in self.sessions.values():
                if session.client:
                    self.send(session.peer, MembersChanged(addresses))

    # ---- requests

    def request(self, parts: list[tuple[str, bytes]], done: Done) -> int:
        """Ask the sequencer to order events; `done` is called when they are committed. Returns the number."""
        self._number += 1
        number = self._number
        request = self._requests[number] = Request(self.broker, self.inc, number, parts)
        self._waiting[number] = done
        self.lead(request)
        return number

    @property
    def idle(self) -> bool:
        """Nothing that was asked for waits for an answer."""
        return not self._requests

    def wiring_request(self, event: AnyEvent, done: Callable[[Outcome], None]) -> None:
        """Order a wiring event; `done` gets its outcome once every connected broker shows it."""

        def answered() -> None:
            lagging = Outcome(UNAVAILABLE, "committed, but this broker was cut off before it saw how: ask again")
            done(self._outcomes.pop(number, lagging))

        number = self.request([(CLUSTER, encode_event(event))], answered)

    def _results(self, peer: str, frame: Results) -> None:
        if frame.inc != self.inc:
            return  # to another process that had this name
        for number in frame.numbers:
            self._requests.pop(number, None)
            done = self._waiting.pop(number, None)
            if done is not None:
                done()
        self.transfers.settled()

    # ---- the cluster stream

    def _append(self, peer: str, frame: Append) -> None:
        if not self.follow(peer, frame.ballot):
            return
        self.standing.begin(frame)
        committed, refusal = self.keeper.append(frame)
        if refusal is not None:
            self.send(peer, refusal)
            return
        index = self.keeper.commit - len(committed)
        for entry in committed:
            index += 1
            event = decode_event(entry.event)
            if event is None:
                continue
            self.standing.note(event)
            outcome = self.wiring.apply(event, index)
            self.investiture.ordered()
            if outcome.changed:
                self.wiring_version += 1
                self._rewired(event, outcome, index)
            self._applied(index, entry, event, outcome)
        if frame.entries or committed:
            self.needs_ack = True
        if committed:
            self.standing.ask()

    def _applied(self, index: int, entry: Entry, event: AnyEvent, outcome: Outcome) -> None:
        """Follow up on an applied event of the cluster stream."""
        if type(event) is InUse and (event.broker, event.inc) == (self.broker, self.inc):
            self.using.applied(event, outcome.code != "")
        elif type(event) is Recount:
            self.using.recount()
        elif type(event) is Condemn and not outcome.code:
            self.commands.deleting.condemned()
        elif self.commands.deleting.since_ms:
            self.commands.deleting.resolved()
        if entry.origin == self.broker and entry.inc == self.inc:
            self._outcomes[entry.number] = outcome

    def _rewired(self, event: AnyEvent, outcome: Outcome, index: int) -> None:
        if type(event) is DeleteExchange:
            text = f"exchange {event.name!r} was deleted: declare it and open another sender"
            self._end_senders(event.name, None, NOT_FOUND, text)
        definition = outcome.queue
        if definition is None:
            return
        if type(event) is DeleteQueue:
            self.transfers.deleted(definition.id)
            self._undeclared(definition, DELETED, f"queue {definition.name!r} was deleted")
        elif type(event) is Lost:
            self.transfers.lost.add(definition.id)
            self.commands.undeclared(definition.id, LOST, lost_text(definition.name))
            self._undeclared(definition, LOST, lost_text(definition.name))
        else:
            self.hosts.starting[definition.id] = index
            # An earlier incarnation may have kept it (K4).
            self.hosts.assign(definition, not self.standing.returned)

    def _undeclared(self, definition: QueueDefinition, code: str, text: str) -> None:
        id = definition.id
        self.using.undeclared(id)
        self.using.detach_all(id, code, text)
        self._end_senders("", definition.name, code, text)
        self.hosts.forget(id)

    def _end_senders(self, exchange: str, key: str | None, code: str, text: str) -> None:
        """What they send to is gone; key None: whatever their keys. What they have sent and was not routed before is
        dropped with them, and completes nowhere."""
        for session in self.sessions.values():
            for handle, sender in list(session.senders.items()):
                if sender.exchange == exchange and (key is None or sender.key == key):
                    session.remove_sender(handle)
                    session.end(handle)
                    self.transfers.told(session)
                    self.send(session.peer, Detached(handle, code, text))
                    sender.ended = True

    # ---- clients: opening and attaching

    def _open(self, session: Session, frame: Open) -> None:
        if session.client:
            raise PeerError(NOT_ALLOWED, "a connection is opened once")
        if not compare_digest(self._token, frame.token.encode()):
            raise PeerError(UNAUTHORIZED, "the token is not this cluster's: pass the token it was started with")
        if len(frame.client) > self.limits.name_chars:
            raise PeerError(INVALID, f"a client id has at most {self.limits.name_chars} characters")
        cut_off = self.lease.expired(self.now_ms) and not frame.rescue
        refusal = self.standing.refusal() or (CUT_OFF if cut_off else "")
        if refusal:
            raise PeerError(UNAVAILABLE, refusal)
        older = self._clients.get(frame.client)
        if older is not None:
            text = f"client id {frame.client!r} was opened anew, and the newer connection wins: use an id of your own"
            self._end(older, IN_USE, text)
        session.rescue = frame.rescue
        session.client = frame.client or f"{self.broker}.{self.inc}.{session.peer}"
        self._clients[session.client] = session
        heartbeat_ms, patience_ms = session.heartbeat(frame.heartbeat_ms, frame.patience_ms)
        if heartbeat_ms:
            self.effects.append(KeepAlive(session.peer, heartbeat_ms, patience_ms))
        bounds = self.limits.message_bytes, self.limits.transfer_messages, self.limits.credit_messages
        self.send(session.peer, Opened(self.broker, self.addresses, *bounds, heartbeat_ms, MINOR))

    def _attach_sender(self, session: Session, frame: AttachSender) -> None:
        session.check_handle(frame.handle)
        if session.rescue:
            self.refuse(session, frame.handle, NOT_ALLOWED, RESCUE)
            return
        if frame.exchange == "":
            if frame.key is not None and self.wiring.queue(frame.key) is None:
                text = f"there is no queue {frame.key!r}: declare it first"
                self.refuse(session, frame.handle, NOT_FOUND, text)
                return
        elif self.wiring.exchange(frame.exchange) is None:
            text = f"there is no exchange {frame.exchange!r}: declare it first"
            self.refuse(session, frame.handle, NOT_FOUND, text)
            return
        link = session.add_sender(frame.handle, frame.exchange, frame.key, frame.next, frame.mandatory)
        self.send(session.peer, Attached(frame.handle, self.wiring.needs_headers(frame.exchange), link.next))

    def refuse(self, session: Session, handle: int, code: str, text: str) -> None:
        """An attach fails. Who attached anew behind another broker may detach before it hears."""
        session.end(handle)
        self.send(session.peer, Detached(handle, code, text))

    def _detach(self, session: Session, frame: Detach) -> None:
        if session.remove_sender(frame.handle) is not None:
            self.transfers.detached(session, frame.handle)
            return
        link = session.receivers.get(frame.handle)
        if link is None:
            if session.crossed(frame.handle):
                return
            raise not_attached(frame.handle)
        # The answer is Cancelled: the client hears `Detached` when what it held is back in its place, once.
        if not link.closing:
            link.closing = True
            self.send(link.replica, Cancel(link.queue, link.sub, True))

    # ---- clients: receiving

    def _flow(self, session: Session, frame: Flow) -> None:
        link = session.flow(frame)
        if link is not None:
            sure = frame.sure and not session.rescue  # without a majority nobody could ever be sure
            credit = Credit(link.queue, link.sub, frame.messages, frame.bytes, frame.drain, sure)
            if link.waits is None:
                self.send(link.replica, credit)
            else:
                link.waits.append(credit)

    def _dispose(self, session: Session, frame: Dispose) -> None:
        link = session.dispose(frame)
        if link is not None:
            self.send(link.replica, Settle(link.queue, link.sub, frame.number, frame.kind, frame.runs))

    def _deliver(self, peer: str, frame: Deliver) -> None:
        found = self.subs.get(frame.sub)
        if found is None:
            return  # it went away meanwhile; its cancel returns the messages
        session, link = found
        session.delivered(link, frame.ranges)
        self.send(session.peer, Delivery(link.handle, frame.acquisition, frame.ranges, frame.blobs, frame.redelivered))

    def _settled(self, peer: str, frame: Settled) -> None:
        found = self.subs.get(frame.sub)
        if found is not None:
            self.send(found[0].peer, Disposed(found[1].handle, frame.number, frame.lost))

    def _drained(self, peer: str, frame: Drained) -> None:
        found = self.subs.get(frame.sub)
        if found is not None:
            found[1].credit = 0
            self.send(found[0].peer, FlowDrained(found[1].handle))

    # ---- saying it

    def _flush(self) -> None:
        self.transfers.flush()
        if self.needs_ack:
            self.needs_ack = False
            applied = self.hosts.applied(self.keeper.commit)
            if not self.keeper.blank or self.keeper.end:
                self.lead(self.keeper.ack(applied))

    def report(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "broker": self.broker,
            "members": self.addresses,
            "connections": len(self.sessions),
            "queues": len(self.wiring.queues()),
            "inc": self.inc,
            "blank": self.keeper.blank,
            "voters": list(self.members),
            "leaving": self.standing.leaving,
            "left": sorted(self.standing.left),
            "cut_off": self.lease.expired(self.now_ms),
            "wiring_index": self.keeper.commit,
            "uncommitted_bytes": self.transfers.uncommitted_bytes,
            "withheld_bytes": self.transfers.withheld_bytes,
            "unconfirmed_ms": self.lease.over_ms(self.now_ms),
        }
        found |= self.told.report(self.now_ms) | self.following.silence(self.now_ms)
        found |= self.office.report() | self.wiring.flow.report() | self.commands.deleting.report()
        return found | self.following.report() | self.hosts.report()


_CLUSTER_RULES: dict[type[Frame], Callable[[BrokerMachine, str, Any], None]] = {
    Append: BrokerMachine._append,
    Results: BrokerMachine._results,
    Hosted: lambda machine, peer, frame: machine.hosts.started(frame.queue),
    Cancelled: lambda machine, peer, frame: machine.using.cancelled(frame),
    Deliver: BrokerMachine._deliver,
    Settled: BrokerMachine._settled,
    Drained: BrokerMachine._drained,
    QueueReply: lambda machine, peer, frame: machine.commands.replied(frame),
    Bury: lambda machine, peer, frame: machine.transfers.bury(peer, frame),
    Prepare: BrokerMachine.prepare,
    Beat: BrokerMachine.beat,
    Fetch: BrokerMachine.fetch,
    Evicted: lambda machine, peer, frame: machine.standing.evicted(peer, frame),
    Update: lambda machine, peer, frame: machine.standing.update(peer, frame),
    UpdateStart: lambda machine, peer, frame: machine.standing.restore(frame),
    Yielded: lambda machine, peer, frame: machine.standing.yielded(peer),
    Left: lambda machine, peer, frame: machine.standing.has_left(peer, frame),
    ResetDone: lambda machine, peer, frame: machine.resets.done(frame),
    Waits: lambda machine, peer, frame: machine.told.hear(peer, frame, machine.now_ms),
}

_CLIENT_RULES: dict[type[Frame], Callable[[BrokerMachine, Session, Any], None]] = {
    Open: BrokerMachine._open,
    AttachSender: BrokerMachine._attach_sender,
    AttachReceiver: lambda machine, session, frame: machine.using.attach(session, frame),
    Detach: BrokerMachine._detach,
    Transfer: lambda machine, session, frame: machine.transfers.transfer(session, frame),
    Flow: BrokerMachine._flow,
    Dispose: BrokerMachine._dispose,
    Command: lambda machine, session, frame: machine.commands.run(session, frame),
}
