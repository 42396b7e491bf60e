"""A queue replica's door: it hosts one or more queues of one broker, and each queue does its own work (`HostedQueue`).

Here frames and ticks are routed to the queues they are for, at a flush the queues with anything to say are served, and
what all of them have submitted leaves as one request. The machine is their `QueueOutbox`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any, TypeVar

from ..limits import DEFAULT, Limits
from ..log.acceptor import Acceptor
from ..log.keeper import Keeper
from ..log.submitter import Submitter
from ..machine import (
    Again,
    Effect,
    Flush,
    Input,
    Measured,
    PeerDown,
    PeerUp,
    Received,
    Send,
    SetTimer,
    Tick,
    is_ownership,
)
from ..queue.settings import QueueSettings
from ..resident import ResidentTeller
from ..status.machines import QueueStatus
from ..supervisor.office import Commission, Office
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import AnyEvent, encode_event
from ..wire.frame import Frame
from ..wire.log_frames import (
    Ack,
    Append,
    Evicted,
    Fetch,
    Heartbeat,
    LogDropped,
    Orphaned,
    Prepare,
    Results,
    Supervised,
    Update,
    UpdateFront,
    UpdateHave,
    UpdatePiece,
    UpdateStart,
    UpdateTaken,
)
from ..wire.queue_frames import (
    Cancel,
    Cancelled,
    Consume,
    Contended,
    Credit,
    DeadLettered,
    Forget,
    GivenUp,
    GiveUp,
    Host,
    Hosted,
    QueueCommand,
    QueueReply,
    Settle,
    Unhost,
)
from ..wire.settings import read
from ..wire.store_frames import Ahead, Ousted, Room, Taken, Written
from ..wire.verdict_frames import Judge
from .alarms import Alarms
from .commands import said_of_deleted
from .consumers import QueueConsumers
from .hosted_queue import HostedQueue
from .observers import ReplicaObserver
from .ownerships import Ownerships
from .presence import holds
from .routes import Rule, rule_of_consumers, rule_of_queue, rule_of_stream
from .update import Pace

Hosted_ = TypeVar("Hosted_", bound=HostedQueue)
UNHOSTED_KEPT = 1000  # deleted queues, told again to a sequencer or Ownership that may not have heard


class ReplicaMachine(Acceptor):
    """One queue replica process.

    Args:
        name: its peer name, ``b1.r0``; its origin in requests.
        broker: the broker it belongs to; its voter name.
        inc: this process's incarnation: of its requests. Each queue has one of its own, from its broker (`Host.inc`).
        timing, limits: the cluster's.
        observers: are told what happens to the queues here.
    """

    def __init__(
        self, name: str, broker: str, inc: int, timing: Timing = DEFAULT_TIMING, limits: Limits = DEFAULT,
        observers: Sequence[ReplicaObserver] = (),
    ) -> None:  # fmt: skip
        super().__init__(timing, (observer.companion for observer in observers))
        self.timing, self.limits = timing, limits
        self.name, self.broker, self.inc = name, broker, inc
        self.queues: dict[str, HostedQueue] = {}
        self.office = Office(timing)
        self.ownerships = Ownerships(self)
        self.fellows: set[str] = set()  # linked replicas of other brokers
        self.submitter = Submitter(name, inc)
        self.dirty: dict[str, None] = {}
        self._observers = observers
        self._alarms = Alarms(broker, self.set_timer, lambda effect: self.effects.append(effect), observers)
        self._giving_up = False  # the broker leaves, and has not been told that all is given up
        self._unhosted: dict[str, None] = {}  # told again when a link comes back: it may have been lost with it
        self._pace = Pace(limits.update_process_bytes_s)
        self._acquisitions = count(1)
        self._resident = ResidentTeller()
        self._due: dict[str, int] = {}  # queue, or a companion's peer -> when to look at it again
        self._timer = 0  # the first of those

    # ---- the door

    def step(self, input: Input) -> list[Effect]:
        kind = type(input)
        if kind is Received:
            frame = input.frame  # type: ignore[union-attr]
            rule = _RULES.get(type(frame))
            if rule is not None:
                rule(self, input.peer, frame)  # type: ignore[union-attr]
            elif self.companions:
                self.effects += self.companions.hear(input)  # type: ignore[arg-type]
        elif kind is Flush:
            self._flush()
            if self.companions:
                self._accompany(input)  # type: ignore[arg-type]
        elif kind is Tick:
            now_ms = self.now_ms = input.now_ms  # type: ignore[union-attr]
            if self.companions:
                self.companions.tick(input)  # type: ignore[arg-type]
            if not self._timer or now_ms < self._timer:
                return []
            self._alarm()
        elif kind in (PeerUp, PeerDown) and input.peer in self.companions:  # type: ignore[union-attr]
            self.effects += self.companions.hear(input)  # type: ignore[arg-type]
        elif kind is PeerUp:
            self._peer_up(input.peer)  # type: ignore[union-attr]
        elif kind is PeerDown:
            self._peer_down(input.peer)  # type: ignore[union-attr]
        elif kind is Measured:
            if (news := self._resident.news(input)) is not None:  # type: ignore[arg-type]
                self.send(self.broker, news)
        else:
            self.other(input)
        effects = self.effects
        if not effects:
            return []
        self.effects = []
        return effects

    def other(self, input: Input) -> None:
        """An input that only a process with a store knows."""

    def from_store(self, peer: str, frame: Frame) -> None:
        """A frame of the store, which this process has not."""

    def route(self, peer: str, frame: Frame) -> None:
        """A frame that has waited goes where it would have gone."""
        _RULES[type(frame)](self, peer, frame)

    def absent(self, peer: str, frame: Any) -> bool:
        """A frame is for a queue that is not here; whether it waits for that."""
        return False

    def _alarm(self) -> None:
        """The timer is due: the queues whose time has come are served at the next flush."""
        due, later = self._due, {}
        for id, at_ms in due.items():
            if at_ms <= self.now_ms:
                self.dirty[id] = None
            else:
                later[id] = at_ms
        self._due = later
        self._timer = 0
        if later:
            self._timer = min(later.values())
            self.effects.append(SetTimer(self._timer))

    def _peer_up(self, peer: str) -> None:
        if self.view.up(peer):
            return  # it will say whether it leads
        if is_ownership(peer):
            self.ownerships.up(peer)
            self.effects += (Send(peer, Forget(id)) for id in self._unhosted)
            for queue in self.queues.values():
                queue.grants.introduce(peer)
        elif peer != self.broker:
            self.fellows.add(peer)

    def _peer_down(self, peer: str) -> None:
        if self.view.down(peer, self.now_ms):
            return
        self.fellows.discard(peer)
        self.ownerships.down(peer)
        for queue in self.queues.values():
            queue.peer_down(peer)
        if peer == self.broker:  # no consumer can be reached any more, and it has given our queues to others
            self.lead(Orphaned(self.broker))
            self.retire(f"the link to broker {peer} is gone: its queues are kept by others now")

    def _flush(self) -> None:
        if self.dirty:
            unfinished: dict[str, None] = {}
            for id in list(self.dirty):
                queue = self.queues.get(id)
                if queue is None:
                    continue
                if queue.serve():
                    unfinished[id] = None
                self._alarms.look(queue, self.now_ms)
            self.dirty = unfinished
            if unfinished:
                self.effects.append(Again())
        if self._giving_up and not any(holds(queue, self.broker) for queue in self.queues.values()):
            self._giving_up = False
            self.send(self.broker, GivenUp())
        if (request := self.submitter.gathered()) is not None:
            self.lead(request)

    def _accompany(self, flush: Flush) -> None:
        effects = self.companions.flush(flush)
        for companion in self.companions.values():
            if companion.due_ms:
                self.set_timer(companion.peer, companion.due_ms)
        self.effects += effects

    # ---- the sequencer

    def keepers(self) -> Iterable[Keeper]:
        return [queue.keeper for queue in self.queues.values()]

    def keeper_of(self, stream: str) -> Keeper | None:
        return self.queues[stream].keeper if stream in self.queues else None

    def pledge(self) -> None:
        leader = self.view.leader
        self.effects += (Send(leader, LogDropped(id, self.broker)) for id in self._unhosted)
        self.effects += (Send(leader, keeper.log_report()) for keeper in self.keepers())

    def attached(self) -> None:
        for queue in self.queues.values():
            queue.attached()
        self.effects += (Send(self.view.leader, request) for request in self.submitter.unanswered.values())

    def _append(self, peer: str, frame: Append) -> None:
        view = self.view
        known = frame.ballot == view.promised and peer == view.leader
        if known or self.follow(peer, frame.ballot):
            queue = self.queues.get(frame.stream)
            if queue is not None:
                queue.append(peer, frame)

    def _results(self, peer: str, frame: Results) -> None:
        self.submitter.answered(frame)

    def _supervised(self, peer: str, frame: Supervised) -> None:
        self.office.learns(Commission(frame.number, frame.id, frame.name), self.now_ms)

    # ---- hosting

    def _host(self, peer: str, frame: Host) -> None:
        self.adopt(frame.ballot)
        self._unhosted.pop(frame.queue, None)
        if frame.queue in self.queues:
            self.send(self.broker, Hosted(frame.queue))
        else:
            self.begin(frame)

    def begin(self, frame: Host) -> None:
        """Keep a queue from now on."""
        keeper = Keeper(frame.queue, self.broker, frame.inc, frame.blank, self.view.promised, frame.voters)
        self.begun(self.queue(HostedQueue, frame, keeper))

    def queue(self, kind: type[Hosted_], frame: Host, keeper: Keeper) -> Hosted_:
        """A queue of this process, as it was declared."""
        settings = read(QueueSettings, frame.arguments, alternate=frame.alternate)
        return kind(
            frame.queue, settings, keeper, self.ownerships, self._pace, self._acquisitions, self, self.timing,
            self.limits, self._observers,
        )  # fmt: skip

    def begun(self, queue: HostedQueue) -> None:
        """A queue is kept here: tell the leader and the broker."""
        self.queues[queue.id] = queue
        self.report_log(queue.keeper.log_report())
        if queue.keeper.blank:
            queue.catch_up.wait()
        self.send(self.broker, Hosted(queue.id))

    def _unhost(self, peer: str, frame: Unhost) -> None:
        queue = self.queues.pop(frame.queue, None)
        if queue is not None:
            self.ended(queue)
        else:
            self.absent(peer, frame)

    def ended(self, queue: HostedQueue) -> None:
        """A queue is deleted."""
        self.dirty.pop(queue.id, None)
        self._due.pop(queue.id, None)
        self._alarms.gone(queue.id)
        queue.commands.unhosted()
        for observer in queue.observers:
            observer.gone()
        self.dropped(queue.id)

    def dropped(self, id: str) -> None:
        """Of a deleted queue nothing is kept here any more: tell those who count on it."""
        self._unhosted[id] = None
        if len(self._unhosted) > UNHOSTED_KEPT:
            del self._unhosted[next(iter(self._unhosted))]
        self.lead(LogDropped(id, self.broker))
        self.ownerships.say(Forget(id))

    def _give_up(self, peer: str, frame: GiveUp) -> None:
        """The broker leaves. No consumer is left here, so the locks go by themselves; it is told when they and all
        messages have gone."""
        self._giving_up = True
        for id in self.queues:
            self.dirty[id] = None

    def _cancel(self, peer: str, frame: Cancel) -> None:
        queue = self.queues.get(frame.queue)
        if queue is not None:
            queue.consumers.cancel(frame)
        elif not self.absent(peer, frame):
            self.send(self.broker, Cancelled(frame.queue, frame.sub))

    def _command(self, peer: str, frame: QueueCommand) -> None:
        queue = self.queues.get(frame.queue)
        if queue is not None:
            queue.commands.ask(frame)
        elif not self.absent(peer, frame):
            self.send(self.broker, QueueReply(frame.queue, frame.number, said_of_deleted(frame.queue)))

    # ---- what the queues ask for, besides `send`, `lead` and `retire`

    def submit(self, stream: str, event: AnyEvent, patient: bool = False) -> int:
        self.dirty[stream] = None
        return self.submitter.gather(stream, encode_event(event), patient)

    def set_timer(self, id: str, at_ms: int) -> None:
        if at_ms <= self.now_ms:
            at_ms = self.now_ms + 1
        due = self._due
        if id not in due or at_ms < due[id]:
            due[id] = at_ms
            if not self._timer or at_ms < self._timer:
                self._timer = at_ms
                self.effects.append(SetTimer(at_ms))

    # ---- answers

    def report(self) -> dict[str, QueueStatus]:
        """Queue id -> how it is here."""
        return {id: queue.report() for id, queue in self.queues.items()}


_RULES: dict[type[Frame], Rule] = {
    Append: ReplicaMachine._append,
    Ack: rule_of_stream(HostedQueue.learn),
    Results: ReplicaMachine._results,
    Host: ReplicaMachine._host,
    Unhost: ReplicaMachine._unhost,
    Consume: rule_of_consumers(QueueConsumers.consume),
    Credit: rule_of_consumers(QueueConsumers.credit),
    Cancel: ReplicaMachine._cancel,
    Settle: rule_of_consumers(QueueConsumers.settle),
    DeadLettered: rule_of_queue(HostedQueue.dead_lettered),
    Judge: rule_of_queue(lambda queue, frame: queue.verdicts is not None and queue.verdicts.judge(frame)),
    Contended: rule_of_queue(lambda queue, frame: queue.grants.contended(frame)),
    GiveUp: ReplicaMachine._give_up,
    QueueCommand: ReplicaMachine._command,
    Prepare: ReplicaMachine.prepare,
    Heartbeat: ReplicaMachine.heartbeat,
    Fetch: ReplicaMachine.fetch,
    Evicted: lambda machine, peer, frame: machine.evicted(peer, frame),
    Update: rule_of_stream(HostedQueue.give_update),
    UpdateStart: rule_of_stream(HostedQueue.update_started),
    UpdatePiece: rule_of_stream(HostedQueue.update_piece),
    UpdateFront: rule_of_stream(lambda queue, peer, frame: queue.update_front(peer, frame)),
    UpdateHave: rule_of_stream(lambda queue, peer, frame: queue.catch_up.left_out(peer, frame)),
    UpdateTaken: rule_of_stream(lambda queue, peer, frame: queue.catch_up.taken(peer, frame)),
    Supervised: ReplicaMachine._supervised,
    **dict.fromkeys(
        (Taken, Written, Ousted, Ahead, Room), lambda machine, peer, frame: machine.from_store(peer, frame)
    ),
}  # pyright: ignore[reportPrivateUsage]
