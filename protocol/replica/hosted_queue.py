"""One queue at one replica: its stream is kept and applied here, and its consumers at this broker are served from it.

It applies what is committed, in order, and follows up on each event; at a flush it does all that has become due:
expiry, dispatch, acknowledgement, the hand-over of the consume lock, interest. It asks its process for all it needs by
a `QueueOutbox`, and nothing that a client can see becomes final before its event has come back through the log
(`sequencer.md` B2, B3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from ..errors import PeerError
from ..limits import DEFAULT, Limits
from ..lock.holder import LockHolder
from ..log.keeper import Keeper
from ..queue.applied import Applied
from ..queue.arrangement import Arrangement
from ..queue.observers import QueueObserver
from ..queue.sequence import shown
from ..queue.settings import SELF_DESTRUCT, QueueSettings
from ..queue.state import QueueState
from ..status.machines import QueueStatus
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import (
    Accept,
    Acquire,
    AnyEvent,
    Configure,
    Due,
    Enqueue,
    Entry,
    Evict,
    Expire,
    Member,
    Modify,
    Moved,
    Named,
    Own,
    Reject,
    Rejoin,
    Release,
    Return,
    Start,
    decode_event,
)
from ..wire.frame import Frame
from ..wire.log_frames import Ack, Append, LogReport, Update, UpdateFront, UpdatePiece, UpdateStart
from ..wire.queue_frames import Cancel, DeadLettered, QueueCommand
from .acknowledgements import Acknowledgements
from .catch_up import CatchUp
from .commands import Commands
from .consumer_timeouts import dispatcher_of
from .consumers import QueueConsumers
from .dead_letters import DeadLetters
from .emptied import emptied
from .expiry import Expiries
from .grants import Grants
from .moves import Moving
from .observers import ReplicaObserver
from .outbox import QueueOutbox
from .own_events import OwnEvents, acquired
from .ownerships import Ownerships
from .presence import lets_in
from .rearranging import rearrange
from .relaying import relaying, sent_on
from .seeing_to import seeing_to
from .settlements import Settling
from .status import Status, queue_status
from .update import Pace
from .verdicts import VerdictTeller

SERVING, UPDATING = Status.SERVING, Status.UPDATING
EXPELS = (Evict, Rejoin, Return, Member)
"""Events that end what a broker, or its older incarnations, had."""


RETURNS = (Release, Modify, Due)
"""Events by which messages are available again, or at last."""


class HostedQueue:
    """Args:
        settings: of the queue's declaration.
        ownerships: where interest and grants are told.
        pace: that of all updates to this process together.
        acquisitions: source of rising acquisition numbers, one for all queues of the process.
        observers: of the process; each gives this queue one of its own.

    Attributes:
        state: the replicated state; `applied` is how far into the stream it goes.
        own: the events submitted here that have not come back.
        inc: incarnation under which this broker keeps the queue.
        verdicts: tells the broker what becomes of its enqueues; None: all come in. prompt: is told of commits at once.
    """

    __slots__ = (
        "_acquisitions", "_most", "_name", "_outbox", "_process_inc", "_unapplied", "acks", "applied", "arrangement",
        "catch_up", "commands", "consumers", "dead_letters", "dispatcher", "expiries", "grants", "id", "inc", "keeper",
        "lock", "observers", "own", "prompt", "settings", "state", "verdicts",
    )  # fmt: skip

    def __init__(
        self, id: str, settings: QueueSettings, keeper: Keeper, ownerships: Ownerships, pace: Pace,
        acquisitions: Iterator[int], outbox: QueueOutbox, timing: Timing = DEFAULT_TIMING,
        limits: Limits = DEFAULT, observers: Sequence[ReplicaObserver] = (),
    ) -> None:  # fmt: skip
        self.id, self.settings, self.inc, self.keeper = id, settings, keeper.life, keeper
        self.applied, self._unapplied = 0, list[Entry]()  # committed, and the learner is told before they are applied
        self._acquisitions, self._outbox, self._most = acquisitions, outbox, limits.apply_entries
        self._name, self._process_inc, broker = outbox.name, outbox.inc, outbox.broker
        state = self.state = QueueState(id, settings.alternate)
        self.arrangement = Arrangement(state, settings)
        policies = self.arrangement.policies
        dispatcher = self.dispatcher = dispatcher_of(settings, outbox)(
            state, policies.order, policies.allocator, timing, limits, shown(state, settings)
        )
        told = tuple[QueueObserver, ...](observer.hosted(state, dispatcher) for observer in observers)
        self.verdicts = VerdictTeller(state, outbox, settings.overflow == SELF_DESTRUCT) if settings.judges else None
        letters = self.dead_letters = DeadLetters(state, limits, sent_on(settings))
        self.prompt = self.verdicts or relaying(policies.of_state, state, letters, broker, keeper)
        lock, own = self.lock, self.own = LockHolder(timing), OwnEvents(id, outbox)
        expiries = self.expiries = Expiries(state, dispatcher, own, outbox, timing, limits, settings.message_ttl_ms)
        self.observers = [*told, *seeing_to(state, letters, broker, keeper), *emptied(settings, state, outbox)]
        self.observers += filter(None, [self.prompt, expiries.ttl])
        self.acks = Acknowledgements(keeper, outbox, timing)
        self.catch_up = CatchUp(keeper, state, pace, outbox, timing, limits)
        self.consumers = QueueConsumers(state, self.inc, dispatcher, lock, own, outbox, timing, told, policies.patient)
        moving = Moving(state, self.inc, self.consumers, dispatcher, lock, letters, own, outbox, limits)
        self.commands = Commands(own, self.consumers, outbox, moving)
        self.grants = Grants(state, self.inc, lock, own, ownerships, outbox, told)

    @property
    def updating(self) -> bool:
        return self.catch_up.status is UPDATING

    @property
    def serving(self) -> bool:
        return self.catch_up.status is SERVING

    # ---- the stream

    def append(self, leader: str, frame: Append) -> None:
        """Take entries of the leader, which this process follows."""
        acks = self.acks
        committed = acks.append(leader, frame)
        if committed:
            self._unapplied += committed
        if not acks.learner:  # the distinguished learner is blocked on the acknowledgement; applying is not urgent
            if self._unapplied:
                self.apply()
        elif committed:
            self._outbox.dirty[self.id] = None

    def learn(self, peer: str, frame: Ack) -> None:
        """Another voter's acknowledgement, told to the distinguished learner."""
        if committed := self.keeper.learn(frame):
            self.acks.needed, self.acks.due_ms = True, 0
            self._unapplied += committed
            self.apply()

    def apply(self) -> bool:
        """Apply what is committed, at most `Limits.apply_entries`; whether there is more that could be applied now."""
        if self.catch_up.status is not SERVING and not self.catch_up.may_apply():
            return False
        committed, self._unapplied = self._unapplied[: self._most], self._unapplied[self._most :]
        if committed:
            state, observers = self.state, self.observers
            for entry in committed:
                event = decode_event(entry.event)
                done = state.apply(event)
                self.applied += 1
                if observers:
                    for observer in observers:
                        observer.applied(self.applied, entry, event, done)
                self._applied(entry, event, done)
            self._outbox.dirty[self.id] = None
        if self._unapplied:
            return True
        self._to_broker(self.dead_letters.due())
        return False

    def _applied(self, entry: Entry, event: AnyEvent | None, done: Applied) -> None:
        """Follow up on an applied event: local dispatch state, and answers when it was submitted here."""
        if event is None:
            return  # of a kind newer than this program
        mine = entry.origin == self._name and entry.inc == self._process_inc
        kind, tag = type(event), self.own.popleft().tag if mine else None
        if kind is Enqueue:
            if event.expiry and done.effective:  # type: ignore[union-attr]
                self.expiries.note(done.positions)
        elif kind is Acquire:
            if mine:
                acquired(self.dispatcher, event.runs, done.effective)  # type: ignore[union-attr]
        elif kind is Accept:
            pass  # its answer is all
        elif kind is Own:
            self.grants.owned(event, done, mine, self.serving)  # type: ignore[arg-type]
        elif kind in RETURNS:
            self.dispatcher.returned(done.positions)
        elif kind in EXPELS:
            self._expelled(event, done)
            self.acks.needed = True  # a broker that leaves waits until others know that this is committed
        elif kind is Start:
            self.acks.needed = True
        elif kind is Expire:
            self.expiries.applied(event, mine)  # type: ignore[arg-type]
        elif kind is Moved or kind is Named:
            self.commands.happened(self.id, event, done)
        elif kind is Configure and done.effective:
            rearrange(self, self._outbox, self.keeper, (self.applied, entry, event, done))
        if mine and tag is not None:
            self._answer(event, done, tag)

    def _answer(self, event: AnyEvent, done: Applied, tag: object) -> None:
        """An own event is applied, and its submitter waits for the outcome."""
        if isinstance(tag, Settling):
            self.consumers.settled(tag, done)
            if type(event) is Reject and self.state.index in self.state.batches:
                self.dead_letters.begin(self.state.index)
        elif isinstance(tag, Cancel):
            self.consumers.cancelled(tag)
        else:
            self.commands.applied(tag, event, done, self)

    def _expelled(self, event: AnyEvent, done: Applied) -> None:
        """A broker is out: what it held is back, and brokers that are left finish its dead-lettering (Q3)."""
        if type(event) is Evict and event.broker == self._outbox.broker:
            self.catch_up.fenced(event.inc)
        if done.effective:
            self.dispatcher.returned(done.positions)
            self.grants.ended()
            for index in done.orphans:
                self.dead_letters.begin(index)
        if lets_in(event, self._outbox.broker, self.inc):
            self.catch_up.joined()
            self.grants.returned()

    def dead_lettered(self, frame: DeadLettered) -> None:
        asked, whole = self.dead_letters.dead_lettered(frame.id, frame.back)
        self._to_broker(asked)
        if whole:
            self.own.submit(self.dead_letters.ending(whole), None)

    def _to_broker(self, frames: Iterable[Frame]) -> None:
        for frame in frames:
            self._outbox.send(self._outbox.broker, frame)

    # ---- updates

    def update_piece(self, peer: str, frame: UpdatePiece) -> None:
        """A piece of an updater's sync point: with the last one it begins."""
        try:
            start = self.catch_up.piece(frame)
        except PeerError as error:
            self._outbox.refuse(peer, error)
            return
        if start is not None:
            self.update_started(peer, start, frame.chunk)

    def update_started(self, peer: str, frame: UpdateStart, pieces: int = 0) -> None:
        """Begin again at an updater's sync point. One that cannot be read ends the link, as any bad frame does."""
        if self.catch_up.replaced(frame):
            self._begin_anew()
        try:
            if not self.catch_up.begin(frame, pieces):
                return
        except PeerError as error:
            self._outbox.refuse(peer, error)
            return
        self.applied = frame.index
        self.restored()
        for tag in self.own.overtaken(frame.numbers.get(self._name), self._process_inc):
            if isinstance(tag, QueueCommand):
                self.commands.overtaken(tag)
            else:
                self.consumers.overtaken(tag)
        self.catch_up.fenced(self.state.fence.evicted.get(self._outbox.broker, -1))
        if (report := self.log_report()) is not None:
            self._outbox.report_log(report)

    def log_report(self) -> LogReport | None:
        return self.keeper.log_report()

    def update_front(self, peer: str, frame: UpdateFront) -> None:
        if self.catch_up.take(peer, frame):
            self.acks.needed = True
            self._outbox.dirty[self.id] = None
            self.apply()

    def give_update(self, peer: str, frame: Update) -> None:
        """Be the updater, if this copy can be; otherwise the updatee will ask again and get another."""
        if not self.keeper.blank and not self.updating and frame.updatee in self._outbox.fellows and not self.apply():
            self.catch_up.give(frame.updatee, frame.minor)

    def peer_down(self, peer: str) -> None:
        if self.catch_up.peer_down(peer):
            self._begin_anew()

    def _begin_anew(self) -> None:
        if self.catch_up.begin_anew():
            self.applied = 0
            self.restored()

    def restored(self) -> None:
        """The state is another one: what goes with it begins anew."""
        self._unapplied = []
        rearrange(self, self._outbox, self.keeper)
        self.expiries.restart()
        self.dead_letters.restored(self._outbox.broker)
        self.commands.moving.restored()
        if self.verdicts is not None:
            self.verdicts.restored()

    def attached(self) -> None:
        """A leader has this process's pledge: how far this queue is applied may have been lost with the last link."""
        self.acks.needed = True
        self._outbox.dirty[self.id] = None

    def serve(self) -> bool:
        """Do all that is due: expiry, dispatch, acknowledgement, hand-over, interest. True: there is more."""
        outbox, acks, catch_up = self._outbox, self.acks, self.catch_up
        now_ms = outbox.now_ms
        if acks.learner:
            outbox.send(acks.learner, self.keeper.ack(self.applied, acks.eager))
            acks.learner = ""
            return True
        if self._unapplied and self.apply():
            if acks.needed:
                acks.acknowledge(self.applied, acks.eager)
            return True  # nobody is served by a state that is known to be old
        if catch_up.status is not SERVING and not catch_up.may_serve():
            return False
        more = catch_up.next_chunks() if catch_up.given else False
        dispatcher, lock, consumers = self.dispatcher, self.lock, self.consumers
        if self.expiries.times or self.state.delayed.heap:
            self.expiries.sweep()
        if dispatcher.resuming:
            again_ms = dispatcher.resumed((outbox.broker, self.inc), lock.held, now_ms)
            if again_ms:
                outbox.set_timer(self.id, again_ms)
        if dispatcher.subscriptions:
            delivered, again = dispatcher.run(lock.held, self._acquisitions)
            more = more or again
            if delivered:
                consumers.deliver(delivered)
            if dispatcher.draining:
                consumers.drained()
        if consumers.settlements.due(now_ms):
            consumers.gather()
        elif consumers.settlements.due_ms:
            outbox.set_timer(self.id, consumers.settlements.due_ms)
        moving = dispatcher.moving and self.commands.moving.go_on()
        eager = bool(dispatcher.subscriptions or moving or self.own or (self.prompt and self.prompt.expected()))
        if acks.needed or eager > acks.eager:
            acks.acknowledge(self.applied, eager)
        # A JOINING copy wants nothing: a grant to its broker would be an older incarnation's, which loses it.
        wants = bool((dispatcher.subscriptions or moving) and catch_up.status is SERVING and dispatcher.wants())
        if lock.held:
            next_owner, again_ms = lock.decide(now_ms, wants, wants or dispatcher.has_consumers())
            if again_ms:
                outbox.set_timer(self.id, again_ms)
            if next_owner is None:
                wants = True  # a broker that keeps the lock is interested, whatever its credit is just now
            else:
                consumers.gather()  # all acquires before the hand-over (B3)
                self.grants.hand_over(next_owner)
        if wants != self.grants.interested:
            self.grants.wants(wants)
        return more or (dispatcher.looks.short and bool(dispatcher.subscriptions))

    def report(self) -> QueueStatus:
        consumers, keeper, now_ms = len(self.dispatcher.subscriptions), self.keeper, self._outbox.now_ms
        update, judged = self.catch_up.report(), self.verdicts is not None
        return queue_status(self.state, consumers, self.applied, keeper, update, self._name, judged, now_ms)
