"""The sequencer: gives every event its place in the one total order, and says when it is committed.

Rules S1 to S8 of `sequencer.md`. It never looks inside an event. Each stream is a log of its own with its own majority,
so one queue's trouble is its own; `seq`, on every entry, is its place in the order of the whole cluster. How a standby
comes to lead is in `election.py`, whom it takes for dead in `failure_detector.py`, what it knows of a stream in
`stream.py`.

Steps gather, and `Flush` sends: one `Append` per stream with news, encoded once for all keepers that stand at
the same place, and one `Results` per origin. Under load, batches grow by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import LocalError
from ..limits import DEFAULT, Limits
from ..lock.duty import Duty, hears_beats
from ..log.earlier import life_of
from ..log.quorum import majority, recovery_quorum
from ..machine import Effect, Flush, Input, PeerDown, PeerUp, Received, Retire, Tick, is_broker
from ..outbox import Outbox
from ..status.machines import SequencerStatus
from ..supervisor.office import Office
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import Ballot
from ..wire.flow_frames import Pressed
from ..wire.frame import Frame
from ..wire.log_frames import (
    Ack,
    Evicted,
    Fetched,
    Gap,
    Heartbeat,
    HeartbeatReply,
    Leave,
    LogDropped,
    LogReport,
    Nack,
    Orphaned,
    Prepare,
    Promise,
    Request,
    Supervised,
    Suspect,
    UpdatePiece,
    UpdateStart,
    UpdateTaken,
)
from ..wire.majority_frames import Reset
from ..wire.statistics_frames import FellowsAsked, FellowTold
from .backlog import Backlog
from .election import LEADING, PREPARING, STANDBY, Election
from .evictions import Evictions
from .failure_detector import FailureDetector
from .keepers import Keepers
from .lost_queues import LostQueues
from .majorities import MajorityWatch
from .mandate import Mandate
from .membership import Membership
from .observers import SequencerObserver
from .order import Order
from .recovery import Recovery, mistaken
from .rejoin import Rejoins
from .replicator import replicate
from .requests import RequestBook
from .stream import Stream


class SequencerMachine:
    """One sequencer: a standby, or the one that leads.

    Args:
        uid: fresh per incarnation; with a counter it makes the ballot.
        members: the broker ids; each is a voter of every stream until the streams say otherwise.
        counter: of the first ballot.
        leading: the cluster begins with this one; the others wait until they are asked.
        timing, limits: the cluster's; observers: are told of what it orders of its own accord.

    Attributes:
        uid, timing, limits: as given.
        linked: peers there is a link to.
    """

    def __init__(
        self,
        uid: int,
        members: list[str],
        counter: int = 1,
        leading: bool = True,
        timing: Timing = DEFAULT_TIMING,
        limits: Limits = DEFAULT,
        observers: Sequence[SequencerObserver] = (),
    ) -> None:
        if majority(members) + recovery_quorum(members) <= len(members):
            raise LocalError("commit quorum and recovery quorum must have a voter in common: their sum exceeds n")
        members = list(members)  # one list: the cluster stream changes it in place, all others only read it
        self.uid = uid
        self.timing = timing
        self.limits = limits
        self.linked: dict[str, None] = {}
        self.outbox = outbox = Outbox()
        self.order = order = Order(members, (counter, uid) if leading else None, timing, observers)
        self.election = Election(members, LEADING if leading else STANDBY, timing, limits)
        self.detector = FailureDetector(members, None, timing)
        self.duty = Duty(timing, [observer.duty_passed for observer in observers])
        self.evictions = Evictions(order)
        self.requests = RequestBook(order, self.evictions, self.stream)
        self.membership = Membership(order, outbox, self.evictions, self.stream)
        self.rejoins = Rejoins(order, outbox, timing)
        self.backlog = Backlog(order, outbox, self.evictions, self.detector, timing, limits)
        self.keepers = Keepers(
            order, outbox, self.evictions, self.requests, self.membership, self.rejoins, self.backlog,
            self.stream, self._mistaken,
        )  # fmt: skip
        self.recovery = Recovery(
            order, outbox, self.election, self.evictions, self.requests, self.keepers, self.linked, uid, self._led,
            timing,
        )  # fmt: skip
        self.watch = MajorityWatch(order, outbox, self.election, self.linked, timing)
        self.lost_queues = LostQueues(order, outbox, self.election, self.watch, timing)
        self.mandate = Mandate(outbox, self.election, self.detector, Office(timing), self.linked)

    @property
    def office(self) -> Office:
        return self.mandate.office

    @office.setter
    def office(self, office: Office) -> None:
        self.mandate.office = office

    # ---- the door

    def step(self, input: Input) -> list[Effect]:
        if self.election.deposed is not None:
            return []
        kind = type(input)
        if kind is Received:
            rule = _RULES.get(type(input.frame))  # type: ignore[union-attr]
            if rule is not None:
                rule(self, input.peer, input.frame)  # type: ignore[union-attr]
        elif kind is Flush:
            return self._flush()
        elif kind is Tick:
            if self.outbox.due(input.now_ms):  # type: ignore[union-attr]
                self._tick()
        elif kind is PeerUp:
            self._peer_up(input.peer)  # type: ignore[union-attr]
        elif kind is PeerDown:
            self._peer_down(input.peer)  # type: ignore[union-attr]
        return self.outbox.take()

    def _tick(self) -> None:
        order, outbox, now_ms = self.order, self.outbox, self.outbox.now_ms
        order.look(outbox)
        role = self.election.role
        if role == PREPARING:
            if now_ms >= self.election.asked_ms + self.timing.prepare_ms:
                self.recovery.ask(list(self.linked))
            self.recovery.recover_all()
            self.watch.tell()
            outbox.wake(now_ms + self.timing.recovery_grace_ms)
        elif role == LEADING:
            if any(not stream.ready for stream in order.streams.values()):
                self.recovery.recover_all()
                outbox.wake(now_ms + self.timing.recovery_grace_ms)
            if now_ms >= self.detector.due_ms:
                self._heartbeat()
            outbox.wake(self.detector.due_ms)

    def _peer_up(self, peer: str) -> None:
        now_ms = self.outbox.now_ms
        self.linked[peer] = None
        self.watch.up(peer)
        self.duty.up(peer)
        if self.election.role == LEADING:
            if is_broker(peer):
                self.detector.up(peer, now_ms)
            self.outbox.send(peer, self._beat())
            self.outbox.wake(max(self.detector.due_ms, now_ms))
        elif self.election.role == PREPARING:
            self.outbox.send(peer, Prepare(self.order.ballot))

    def _peer_down(self, peer: str) -> None:
        now_ms = self.outbox.now_ms
        self.linked.pop(peer, None)
        self.watch.down(peer)
        self.duty.down(peer, now_ms)
        if is_broker(peer) and self.election.role == LEADING:
            self.detector.down(peer, now_ms)
            self.outbox.wake(max(self.detector.due_ms, now_ms))
        self.keepers.lost(peer)

    # ---- heartbeats

    def _beat(self) -> Heartbeat:
        """The sequencer's word to all now, with the Ownership that is on duty."""
        self.duty.look(self.outbox.now_ms)
        beats, duty = self.detector, self.duty
        older = self.lost_queues.older()
        least = self.lost_queues.least()
        return Heartbeat(self.order.ballot, beats.number, beats.sure, older, duty.name, duty.turn, least)

    def _heartbeat(self) -> None:
        now_ms = self.outbox.now_ms
        self.keepers.hear_again()
        # While a voter is kept waiting that the others cannot do without, they cannot do without another either.
        if not any(stream.ready and stream.reports for stream in self.order.streams.values()):
            for broker in self.detector.dead(now_ms, self.evictions.absent):
                self.keepers.evict(broker)
        self.rejoins.remind()
        self.membership.remind()
        self.watch.tell()
        self.lost_queues.look()
        self.detector.beat(now_ms)
        self.outbox.multicast([peer for peer in self.linked if hears_beats(peer)], self._beat())

    def _orphaned(self, peer: str, frame: Orphaned) -> None:
        if self.election.role == LEADING:
            self.detector.orphaned(frame.broker, self.outbox.now_ms)
            self.outbox.wake(max(self.detector.due_ms, self.outbox.now_ms))

    def _heartbeat_reply(self, peer: str, frame: HeartbeatReply) -> None:
        now_ms = self.outbox.now_ms
        if frame.ballot != self.order.ballot or self.duty.answered(peer, now_ms):
            return
        self.lost_queues.minors[frame.broker] = frame.minor
        if self.evictions.is_out(frame.broker, frame.inc):  # it stood still, and its link did not break
            self.outbox.send(peer, Evicted("this broker was silent for too long: another incarnation takes over"))
        else:
            self.detector.answered(frame.broker, frame.number, now_ms)
            self.backlog.heard()

    # ---- leading, and not leading any more

    def _suspect(self, peer: str, frame: Suspect) -> None:
        if not self.recovery.suspect(peer, frame):
            self.watch.suspected(peer, frame.members or self.order.members)

    def _led(self) -> None:
        """This sequencer has adopted the cluster stream."""
        now_ms = self.outbox.now_ms
        self.detector.begin(now_ms)
        self.duty.begin(now_ms)
        beat = self._beat()
        for peer in self.linked:
            if is_broker(peer):
                self.detector.up(peer, now_ms)
            self.outbox.send(peer, beat)
        self.outbox.wake(now_ms)

    def _nack(self, peer: str, nack: Nack) -> None:
        """A follower has promised a ballot to another sequencer."""
        if nack.promised <= self.order.ballot:
            return
        if self.election.role == LEADING:
            self._abdicate(nack.promised, f"a sequencer with the higher ballot {nack.promised} has taken over (S7)")
        else:
            self.election.give_up(nack.promised)
            self.order.streams.clear()

    def _mistaken(self, stream: Stream, frame: LogReport) -> bool:
        reason = mistaken(self.order, stream, frame)
        if reason:
            self._abdicate(self.order.ballot, reason)
        return bool(reason)

    def _abdicate(self, ballot: Ballot, reason: str) -> None:
        self.election.deposed = ballot
        self.outbox.effects.append(Retire(reason))

    # ---- streams

    def request(self, peer: str, request: Request) -> None:
        if self.election.role != LEADING:
            return  # it is sent again when we lead
        if self.evictions.out and self.evictions.is_out(request.origin, request.inc):
            self.outbox.send(peer, Evicted("this incarnation was evicted: its events are void (Q3)"))
            return
        self.requests.take(peer, request)

    def stream(self, name: str) -> Stream:
        """A stream by its name. One that is new begins: with the term's first entry, or with its recovery."""
        stream = self.order.streams.get(name)
        if stream is None:
            stream = self.order.open(name)
            if self.order.born:
                self.order.begin(stream)
            else:
                self.recovery.recover(stream)
        return stream

    def _log_report(self, peer: str, frame: LogReport) -> None:
        """A keeper reports: of a stream that is not adopted yet this is its promise."""
        order = self.order
        if self.election.role == STANDBY or frame.stream in order.dropped:
            return
        if frame.promised > order.ballot:
            self._nack(peer, Nack(frame.promised))
            return
        stream = order.streams.get(frame.stream) or self.stream(frame.stream)
        stream.stored = stream.stored or frame.stored
        if stream.ready:
            self.keepers.enrol(stream, peer, frame)
            return
        if frame.promised < order.ballot:
            return  # said to an older ballot of ours; it may have held more since, and speaks again when it promises
        known = stream.reports.get(frame.voter)
        if known is None or (known[1].log_inc, life_of(known[1])) <= (frame.log_inc, life_of(frame)):
            stream.reports[frame.voter] = (peer, frame)
        self.recovery.recover(stream)

    def _log_dropped(self, peer: str, frame: LogDropped) -> None:
        if self.election.role == LEADING:
            self.keepers.log_dropped(peer, frame)

    def _leave(self, peer: str, frame: Leave) -> None:
        if self.election.role == LEADING:  # else the broker asks again
            self.membership.leave(peer, frame)

    def _pressed(self, peer: str, frame: Pressed) -> None:
        if self.election.role == LEADING and peer == frame.broker:  # else it says so again when this one leads
            self.backlog.disk(frame.broker, frame.on)
            self.backlog.memory(frame.broker, frame.memory)

    def _update_piece(self, peer: str, frame: UpdatePiece) -> None:
        self.outbox.send(frame.updatee, frame)
        self.rejoins.progress(frame.stream, frame.updatee)

    # ---- saying it

    def _flush(self) -> list[Effect]:
        order, outbox = self.order, self.outbox
        if outbox.now_ms >= self.backlog.due_ms:
            self.backlog.look()
        if order.patient.waiting:
            order.look_at_patient(outbox)
        effects = outbox.take()
        if order.dirty:
            dirty, order.dirty = order.dirty, {}
            for name in dirty:
                stream = order.streams[name]
                order.patient.leaves(stream, outbox.now_ms)
                replicate(order, stream, effects, self.limits)
            if order.lazy and not order.lazy_at_ms:
                order.lazy_at_ms = outbox.now_ms + self.timing.lazy_ms
                outbox.wake(order.lazy_at_ms)
                effects += outbox.take()
        effects += self.requests.results()
        return effects

    # ---- for reports

    def report(self) -> SequencerStatus:
        return SequencerStatus(
            ballot=list(self.order.ballot),
            role=str(self.election.role),
            members=list(self.order.members),
            leaving=sorted(self.membership.leaving),
            out=dict(self.evictions.out),
            absent=sorted(self.evictions.absent),
            seq=self.order.seq,
            flow_stopped=bool(self.backlog.on),
            flow_stopped_count=self.backlog.count,
            flow=self.backlog.report(),
            waiting=self.watch.report(),
            duty=self.duty.report(self.outbox.now_ms),
            streams={name: stream.report() for name, stream in self.order.streams.items()},
        )


_RULES: dict[type[Frame], Callable[[SequencerMachine, str, Any], object]] = {
    Ack: lambda machine, peer, frame: machine.keepers.ack(peer, frame),
    Request: SequencerMachine.request,
    LogReport: SequencerMachine._log_report,
    LogDropped: SequencerMachine._log_dropped,
    Gap: lambda machine, peer, frame: machine.keepers.gap(peer, frame),
    Orphaned: SequencerMachine._orphaned,
    Nack: SequencerMachine._nack,
    HeartbeatReply: SequencerMachine._heartbeat_reply,
    Suspect: SequencerMachine._suspect,
    Promise: lambda machine, peer, frame: machine.recovery.promised(peer, frame),
    Fetched: lambda machine, peer, frame: machine.recovery.fetched(peer, frame),
    # Brokers have no links to each other: the wiring's snapshot goes through here.
    UpdateStart: lambda machine, peer, frame: machine.outbox.send(frame.updatee, frame),
    UpdatePiece: SequencerMachine._update_piece,
    UpdateTaken: lambda machine, peer, frame: machine.rejoins.progress(frame.stream, peer),
    FellowsAsked: lambda machine, peer, frame: machine.outbox.multicast(
        [p for p in machine.linked if is_broker(p) and p != peer], frame
    ),
    FellowTold: lambda machine, peer, frame: machine.outbox.send(frame.asker, frame),
    Leave: SequencerMachine._leave,
    Reset: lambda machine, peer, frame: machine.lost_queues.reset(peer, frame),
    Pressed: SequencerMachine._pressed,
    Supervised: lambda machine, peer, frame: machine.mandate.supervised(frame),
}  # pyright: ignore[reportPrivateUsage]
