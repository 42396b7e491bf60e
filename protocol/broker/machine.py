"""The broker's door: its links, which frame goes to which part, and what follows from the cluster stream.

A broker routes its clients' transfers through the wiring into requests for the sequencer, hands deliveries from its
queue replicas to its clients, and carries settlements back. It is a keeper of the cluster stream, so it knows the
wiring as every other broker does. A client's command is complete when the sequencer says so, never before
(`sequencer.md` B2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..errors import NOT_ALLOWED, PeerError
from ..limits import DEFAULT, Limits
from ..log.acceptor import Acceptor
from ..log.keeper import Keeper
from ..log.submitter import Submitter
from ..machine import (
    Dismiss,
    Drain,
    Effect,
    Flush,
    Input,
    Measured,
    Members,
    PeerDown,
    PeerGone,
    PeerUp,
    Received,
    SetTimer,
    Supervises,
    Tick,
)
from ..status.machines import BrokerStatus
from ..supervisor.office import Office
from ..timing import DEFAULT_TIMING, Timing
from ..wire.client_frames import Open
from ..wire.events import CLUSTER, AnyEvent, Entry, Recount, decode_event
from ..wire.flow_frames import Resident
from ..wire.frame import Frame
from ..wire.log_frames import (
    Append,
    Heartbeat,
    HeartbeatReply,
    Promise,
    Results,
    Suspect,
    UpdatePiece,
    UpdateStart,
)
from ..wire.majority_frames import Waits
from ..wire.queue_frames import DeadLetter, Emptied, Hosted, SenderNamed
from ..wire.version import MINOR
from ..wiring.wiring import Outcome, Wiring
from .auto_deletion import AutoDeletion
from .client_rules import client_rules
from .cluster_rules import cluster_rules
from .cluster_state import ClusterState
from .connections import Connections
from .consumers import Consumers
from .dead_letters import DeadLetterRoutes
from .deletion import Deletions
from .dissolutions import Dissolutions
from .exclusive_queues import ExclusiveQueues
from .flow_news import FlowNews
from .investiture import Investiture
from .lease import Lease
from .lifecycle import CUT_OFF, Lifecycle
from .management import Management
from .memory import MemoryWatch
from .observers import BrokerObserver
from .questions import Questions
from .queue_changes import QueueChanges
from .queue_placement import QueuePlacement
from .receivers import Receivers
from .report import status_of
from .requests import Requests
from .resets import Resets
from .senders import Senders
from .session import Session
from .statistics import fellows_of
from .transfers import Transfers
from .waits_heard import WaitsHeard


class BrokerMachine(Acceptor):
    """One broker.

    Args:
        broker: its id; its voter name, its origin in requests.
        inc: its incarnation, fresh at every start.
        members: broker ids of the cluster.
        token: what clients must present; "" admits everybody.
        timing, limits: the cluster's.
        blank: an earlier incarnation may have kept the wiring: no vote and no clients until it has rejoined (K4).
        replicas_max: at most this many of its replicas keep queues, while any others are spares; 0: all.
        observers: are told of the clients and of the cluster stream.
    """

    stored = False  # it has a store, so queues may be durable

    def __init__(
        self, broker: str, inc: int, members: list[str], token: str = "", limits: Limits = DEFAULT,
        blank: bool = False, replicas_max: int = 0, timing: Timing = DEFAULT_TIMING,
        observers: Sequence[BrokerObserver] = (),
    ) -> None:  # fmt: skip
        super().__init__(timing, (observer.companion for observer in observers))
        self.timing, self.limits, self._observers = timing, limits, observers
        self.broker, self.inc = broker, inc
        self.needs_ack, self._timer = False, 0
        self.lease = Lease(timing)
        self.cluster = cluster = ClusterState(broker, inc, blank, members)
        self.keeper, self.waits_heard = cluster.keeper, WaitsHeard(self, cluster, timing)
        self.submitter = Submitter(broker, inc)
        self.requests = requests = Requests(self, self.submitter, cluster.in_step, lambda: self.transfers.settled())
        self.placement = placement = QueuePlacement(self, cluster, replicas_max, timing)
        self.investiture = Investiture(self, cluster, requests, placement.replicas, timing)
        self.lifecycle = Lifecycle(self, cluster, self.lease, placement.replicas, limits, timing)
        self.connections = Connections(self, cluster, limits, token, self.lifecycle.refusal, self._end, observers)
        self.sessions = sessions = self.connections.sessions
        self.transfers = Transfers(
            self, cluster, requests, sessions, limits.uncommitted_bytes, limits.request_bytes, observers,
            (limits.blocked_bytes, limits.blocked_total_bytes), placement.of,
        )  # fmt: skip
        self.connections.blocks = self.transfers.greeted
        self.dead_letters = DeadLetterRoutes(self, cluster, requests, self.transfers, timing)
        self.questions = questions = Questions(self, cluster, placement.of, self.waits_heard.waits, timing)
        self.senders = Senders(self, cluster, self.transfers, sessions, questions)
        self.consumers = Consumers(self, cluster, requests)
        self.receivers = Receivers(self, cluster, self.consumers, sessions, placement.of)
        questions.fellows = fellows_of(self)
        self.dissolutions = Dissolutions(self, cluster, requests, questions, timing)
        conditions = self.transfers, self.consumers, questions.look, self.dissolutions
        self.deletions = Deletions(self, cluster, requests, *conditions)
        self.resets = Resets(self, cluster)
        self.auto_deletion = AutoDeletion(cluster, requests, timing, self.deletions)
        self.exclusive_queues = ExclusiveQueues(cluster, requests, self.connections.connected)
        self.management = Management(
            self, cluster, requests, questions, self.deletions, self.resets, placement.of, self.report, self.stored,
            limits.queue_bytes, sessions, self.exclusive_queues, self.connections.dismiss,
        )  # fmt: skip
        self.queue_changes = QueueChanges(
            self, cluster, requests, self.lifecycle, placement, questions, self.transfers, self.senders,
            self.receivers, self.dissolutions, limits,
        )  # fmt: skip
        self._cluster_rules = _cluster_rules(self)
        self.memory = MemoryWatch(self, cluster, limits, placement.replicas, lambda: self.connections.addresses)
        self.flow_news = FlowNews(self, cluster, sessions)
        self._client_rules = client_rules(
            self.connections, self.senders, self.receivers, self.transfers, self.management, self.flow_news,
            self.exclusive_queues, self, cluster,
        )  # fmt: skip

    @property
    def wiring(self) -> Wiring:
        return self.cluster.wiring

    @property
    def office(self) -> Office:
        return self.investiture.office

    @office.setter
    def office(self, office: Office) -> None:
        self.investiture.office = office

    # ---- the door

    def step(self, input: Input) -> list[Effect]:
        kind = type(input)
        if kind is Received:
            self._receive(input.peer, input.frame)  # type: ignore[union-attr]
        elif kind is Flush:
            self._flush()
            if self.companions:  # what is not due leaves at a later flush: there is one every heartbeat
                self.effects += self.companions.flush(input)  # type: ignore[arg-type]
        elif kind is Tick:
            self.now_ms = input.now_ms  # type: ignore[union-attr]
            if self.companions:
                self.companions.tick(input)  # type: ignore[arg-type]
            if self._timer and self.now_ms >= self._timer:
                self._watch()
        elif kind in (PeerUp, PeerDown) and input.peer in self.companions:  # type: ignore[union-attr]
            self.effects += self.companions.hear(input)  # type: ignore[arg-type]
        elif kind is PeerUp:
            self._peer_up(input.peer, input.address)  # type: ignore[union-attr]
        elif kind is PeerDown:
            self._peer_down(input.peer)  # type: ignore[union-attr]
        elif kind is PeerGone and self.view.gone(input.peer, self.now_ms):  # type: ignore[union-attr]
            self._watch()
        elif kind is Drain:
            self.lifecycle.drain(self.connections.send_away)
        elif kind is Dismiss:
            self.lifecycle.dismiss(input.broker)  # type: ignore[union-attr]
        elif kind is Supervises:
            self.investiture.asked(input)  # type: ignore[arg-type]
        elif kind is Measured:
            self.memory.measured(input)  # type: ignore[arg-type]
        elif kind is Members:
            self.connections.moved(dict(input.addresses))  # type: ignore[union-attr]
        effects = self.effects
        if not effects:
            return []
        self.effects = []
        return effects

    def _receive(self, peer: str, frame: Frame) -> None:
        rule = self._cluster_rules.get(type(frame))
        if rule is not None:
            rule(peer, frame)
            return
        session = self.sessions.get(peer)
        if session is None:
            self.effects += self.companions.hear(Received(peer, frame))
            return  # closed a moment ago; what was still on its way is void
        try:
            client_rule = self._client_rules.get(type(frame))
            if client_rule is None or (not session.client and type(frame) is not Open):
                raise PeerError(NOT_ALLOWED, f"a {type(frame).__name__} frame is not allowed now: open comes first")
            client_rule(session, frame)
        except PeerError as error:
            self._end(session, error.code, error.text)

    # ---- links

    def _peer_up(self, peer: str, address: str) -> None:
        if self.view.up(peer):
            self.investiture.tell([peer])
            if not self._timer:
                self._watch()
        elif peer.startswith(self.broker + "."):
            self.investiture.tell([peer])
            self.placement.up(peer)
            self.lifecycle.replica_up(peer)
            self.placement.settle()
        else:
            self.connections.up(peer, address)

    def _peer_down(self, peer: str) -> None:
        if self.view.down(peer, self.now_ms):
            return
        if (session := self.sessions.get(peer)) is not None:
            self._end(session)
        elif peer in self.placement.replicas:
            self.queue_changes.replica_lost(peer)

    def _hosted(self, peer: str, frame: Hosted) -> None:
        self.transfers.verdicts.ask(frame.queue)
        if self.placement.started(frame.queue):
            self.needs_ack = True  # the wiring is shown further than before

    # ---- clients

    def _end(self, session: Session, code: str = "", text: str = "") -> None:
        """The connection is over: what its consumers held goes back to its place."""
        self.connections.forget(session, code, text)
        self.transfers.ended(session)
        self.receivers.ended(session)
        self.exclusive_queues.ended(session)

    # ---- the sequencer

    def keepers(self) -> Iterable[Keeper]:
        return [self.keeper]

    def keeper_of(self, stream: str) -> Keeper | None:
        return self.keeper if stream == CLUSTER else None

    def pledge(self) -> None:
        leader, keeper, said = self.view.leader, self.keeper, self.view.promised
        self.send(leader, keeper.log_report())
        lives, hosting = (self.inc, keeper.opened, list(keeper.earlier)), self.hosting_queues()
        self.send(leader, Promise(said, self.broker, keeper.log_inc, keeper.blank, hosting, *lives))

    def hosting_queues(self) -> list[str]:
        """Ids of the queues of which a log may be kept here."""
        return [queue.id for queue in self.wiring.all_kept()]

    def attached(self) -> None:
        self.lease.renew()
        self.needs_ack = True  # how far it is applied may have been lost with the link
        self.requests.attached()
        self.lifecycle.ask()
        self.resets.attached()
        self.memory.attached()

    def heartbeat(self, peer: str, frame: Heartbeat) -> None:
        super().heartbeat(peer, frame)
        if peer == self.view.leader and frame.ballot == self.view.promised:
            self.lease.heard(frame.number, frame.sure, self.now_ms)
            self.cluster.versions.heard(peer, frame)
            self.send(peer, HeartbeatReply(frame.ballot, frame.number, self.broker, self.inc, MINOR))

    def _watch(self) -> None:
        """Every beat: is the leader there, and may this broker serve?"""
        view, now_ms, beat_ms = self.view, self.now_ms, self.timing.heartbeat_ms
        # A broken link is looked at then; no watch is put off for it.
        again_ms = view.parted_ms + self.timing.broken_ms + 1
        self._timer = again_ms if now_ms < again_ms < now_ms + beat_ms else now_ms + beat_ms
        self.effects.append(SetTimer(self._timer))
        for peer in view.others() if view.suspicious(now_ms) else ():
            self.send(peer, Suspect(view.promised, self.broker, list(self.cluster.voters)))
        self.questions.overdue(now_ms)
        self.lifecycle.look()
        self.auto_deletion.look(now_ms)
        self.dissolutions.look(now_ms)
        if self.lease.expired(now_ms):
            self.connections.close_all(CUT_OFF, rescue=False)

    # ---- the cluster stream

    def _append(self, peer: str, frame: Append) -> None:
        if not self.follow(peer, frame.ballot):
            return
        committed, refusal = self.cluster.append(frame)
        if refusal is not None:
            self.send(peer, refusal)
            return
        if frame.entries:
            self.needs_ack = True
        self.commit(committed)

    def commit(self, committed: Sequence[Entry]) -> None:
        """Apply what is committed now, and follow up on it."""
        index = self.keeper.commit - len(committed)
        for entry in committed:
            index += 1
            event = decode_event(entry.event)
            if event is None:
                continue
            self.lifecycle.note(event)
            outcome = self.cluster.apply(event, index)
            self.investiture.ordered()
            if outcome.changed:
                self.queue_changes.rewired(event, outcome, index)
            for observer in self._observers:
                observer.applied(index, entry, event, outcome)
            self._applied(entry, event, outcome)
        self.cluster.applied()
        if committed:
            self.needs_ack = True
            self.lifecycle.ask()

    def _applied(self, entry: Entry, event: AnyEvent, outcome: Outcome) -> None:
        """Follow up on an applied event of the cluster stream."""
        self.receivers.applied(event, outcome)
        self.exclusive_queues.applied(event, outcome)
        self.deletions.applied(event, outcome)
        if type(event) is Recount:
            self.consumers.recount()
        self.requests.applied(entry, outcome)

    def _restore(self, peer: str, frame: UpdateStart | UpdatePiece) -> None:
        """An update brings the wiring to this broker, which is blank."""
        if self.lifecycle.restore(peer, frame):
            for part in (self.deletions, self.exclusive_queues, self.queue_changes):
                part.restored()
            self.investiture.ordered()
            self.placement.restored()
            self.needs_ack = True
            self._updated()

    def _updated(self) -> None:
        self.send(self.view.leader, self.keeper.log_report())

    # ---- saying it

    def _flush(self) -> None:
        self.dead_letters.go_on()
        self.transfers.flush()
        self.flow_news.tell()
        if self.needs_ack:
            self.needs_ack = False
            applied = self.placement.applied(self.keeper.commit)
            if not self.keeper.blank or self.keeper.end:
                self.lead(self.keeper.ack(applied))

    def report(self) -> BrokerStatus:
        status = status_of(self)
        for observer in self._observers:
            observer.report(status)
        return status


def _cluster_rules(machine: BrokerMachine) -> dict[type[Frame], Callable[[str, Any], None]]:
    """Frames from sequencers and from the broker's own replicas."""
    return {
        Append: machine._append,
        Results: machine.requests.answered,
        Hosted: machine._hosted,
        Emptied: machine.auto_deletion.emptied,
        DeadLetter: machine.dead_letters.dead_letter,
        **machine.rules(),
        **cluster_rules(machine.receivers, machine.transfers, machine.questions, machine.lifecycle, machine.resets),
        SenderNamed: lambda peer, frame: machine.senders.named.began(frame),
        **dict.fromkeys((UpdateStart, UpdatePiece), machine._restore),
        Resident: lambda peer, frame: machine.memory.heard(peer, frame),
        Waits: lambda peer, frame: machine.waits_heard.hear(peer, frame, machine.now_ms),
    }
