"""A queue replica: hosts one or more queues of one broker, as keeper of their streams and as their dispatcher.

It applies what is committed, gives committed messages to local consumers while its broker holds the consume lock, and
submits what follows from that (acquires, accepts, releases, rejects, hand-overs) as one request per flush. Every own
event comes back through the log; only then does anything become final that a client can see (`sequencer.md` B2, B3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from typing import Any

from ..log.acceptor import Acceptor
from ..log.keeper import Keeper
from ..log.submitter import Submitter
from ..machine import Again, Effect, Flush, Input, PeerDown, PeerUp, Received, Send, SetTimer, Tick, is_ownership
from ..queue.dispatch import Delivered, Looked
from ..queue.state import Applied
from ..ranges import pairs, runs
from ..supervisor.office import Commission, Office
from ..timing import UPDATE_RETRY_MS
from ..wire.events import (
    Accept,
    Acquire,
    AnyEvent,
    Enqueue,
    Entry,
    Expire,
    Own,
    Purge,
    Reject,
    Release,
    Start,
    decode_event,
    encode_event,
)
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
    UpdateStart,
    UpdateTaken,
)
from ..wire.queue_frames import (
    ACCEPT,
    REJECT,
    RELEASE,
    Cancel,
    Cancelled,
    Consume,
    Contended,
    Credit,
    DeadLettered,
    Drained,
    Forget,
    GiveUp,
    Host,
    Hosted,
    Interest,
    QueueCommand,
    QueueReply,
    Settle,
    Settled,
    Unhost,
)
from .catch_up import CatchUp
from .dead_letters import DeadLetters
from .expiry import expired, note_expiry
from .grants import EXPELS, Grants
from .hosted_queue import ACK_MS, HostedQueue, Settling, claim

UNHOSTED_KEPT = 1000  # deleted queues, told again to a sequencer or Ownership that may not have heard


class ReplicaMachine(Acceptor):
    """One queue replica process.

    Args:
        name: its peer name, ``b1.r0``; its origin in requests.
        broker: the broker it belongs to; its voter name.
        inc: this process's incarnation: of its requests. Each queue has one of its own, from its broker (`Host.inc`).
    """

    def __init__(self, name: str, broker: str, inc: int) -> None:
        super().__init__()
        self.name = name
        self.broker = broker
        self.inc = inc
        self.queues: dict[str, HostedQueue] = {}
        self.office = Office()
        self.catch_up = CatchUp(self)
        self.grants = Grants(self)
        self.dead_letters = DeadLetters(self)
        self.sender = ""  # who sent the frame that is being handled
        self.fellows: set[str] = set()  # linked replicas of other brokers
        self._unhosted: dict[str, None] = {}  # told again when a link comes back: it may have been lost with it
        self._rank = int("".join(c for c in broker if c.isdigit()) or 0)
        self._acquisitions = count(1)
        self.submitter = Submitter(name, inc)
        self.dirty: dict[str, None] = {}
        self._due: dict[str, int] = {}  # queue id -> when to look at it again
        self._timer = 0  # the first of those

    # ---- the door

    def step(self, input: Input) -> list[Effect]:
        kind = type(input)
        if kind is Received:
            rule = _RULES.get(type(input.frame))  # type: ignore[union-attr]
            if rule is not None:
                self.sender = input.peer  # type: ignore[union-attr]
                rule(self, input.frame)  # type: ignore[union-attr]
        elif kind is Flush:
            self._flush()
        elif kind is Tick:
            self._tick(input.now_ms)  # type: ignore[union-attr]
        elif kind is PeerUp:
            self._peer_up(input.peer)  # type: ignore[union-attr]
        elif kind is PeerDown:
            self._peer_down(input.peer)  # type: ignore[union-attr]
        effects = self.effects
        if not effects:
            return []
        self.effects = []
        return effects

    def _tick(self, now_ms: int) -> None:
        self.now_ms = now_ms
        if self._timer and now_ms >= self._timer:
            due, later = self._due, {}
            for id, at_ms in due.items():
                if at_ms <= now_ms:
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
            self.grants.up(peer, self._unhosted)
        elif peer != self.broker:
            self.fellows.add(peer)

    def _peer_down(self, peer: str) -> None:
        if self.view.down(peer, self.now_ms):
            return
        self.fellows.discard(peer)
        self.grants.down(peer)
        for id, hosted in self.queues.items():
            hosted.updates.pop(peer, None)
            if hosted.update is not None and hosted.update.updater == peer:
                self.catch_up.ask_again(id, hosted)
        if peer == self.broker:  # no consumer can be reached any more, and it has given our queues to others
            self.lead(Orphaned(self.broker))
            self.retire(f"the link to broker {peer} is gone: its queues are kept by others now")

    # ---- the sequencer

    def keepers(self) -> Iterable[Keeper]:
        return [hosted.keeper for hosted in self.queues.values()]

    def keeper_of(self, stream: str) -> Keeper | None:
        return self.queues[stream].keeper if stream in self.queues else None

    def pledge(self) -> None:
        leader = self.view.leader
        self.effects += (Send(leader, LogDropped(id, self.broker)) for id in self._unhosted)
        self.effects += (Send(leader, keeper.log_report()) for keeper in self.keepers())

    def attached(self) -> None:
        for id, hosted in self.queues.items():
            hosted.needs_ack = True  # how far it is applied may have been lost with the link
            self.dirty[id] = None
        self.effects += (Send(self.view.leader, request) for request in self.submitter.unanswered.values())

    def _supervised(self, frame: Supervised) -> None:
        self.office.learns(Commission(frame.number, frame.id, frame.name), self.now_ms)

    # ---- hosting

    def _host(self, frame: Host) -> None:
        view = self.view
        if frame.ballot > view.promised:  # the broker has heard of a sequencer that we have not
            view.promised = frame.ballot
            view.leader, view.attached = "", False
            for hosted in self.queues.values():
                hosted.keeper.promise(frame.ballot)
        self._unhosted.pop(frame.queue, None)
        if frame.queue not in self.queues:
            keeper = Keeper(frame.queue, self.broker, frame.inc, frame.blank, view.promised, frame.voters)
            hosted = self.queues[frame.queue] = HostedQueue(frame.queue, frame.alternate, keeper)
            if view.leader:
                self.send(view.leader, keeper.log_report())
            if frame.blank:
                hosted.retry_at = self.now_ms + UPDATE_RETRY_MS
                self.set_timer(frame.queue, hosted.retry_at)
        self.send(self.broker, Hosted(frame.queue))

    def _unhost(self, frame: Unhost) -> None:
        hosted = self.queues.pop(frame.queue, None)
        if hosted is not None:
            self._unhosted[frame.queue] = None
            self.dirty.pop(frame.queue, None)
            self._due.pop(frame.queue, None)
            for _, _, tag in hosted.mine:  # nothing more will apply; who asks must not wait for it
                if isinstance(tag, QueueCommand):
                    self.send(self.broker, QueueReply(frame.queue, tag.number, {"purged": 0}))
            if len(self._unhosted) > UNHOSTED_KEPT:
                del self._unhosted[next(iter(self._unhosted))]
            self.lead(LogDropped(frame.queue, self.broker))
            self.grants.say(Forget(frame.queue))

    # ---- the stream

    def _append(self, frame: Append) -> None:
        view, sender = self.view, self.sender
        known = frame.ballot == view.promised and sender == view.leader
        if not known and not self.follow(sender, frame.ballot):
            return
        hosted = self.queues.get(frame.stream)
        if hosted is None:
            return
        keeper = hosted.keeper
        learner = "" if keeper.blank else frame.distinguished_learner
        keeper.quorum_needed = frame.quorum_needed if learner == self.name else None
        committed, refusal = keeper.append(frame)
        if refusal is not None:
            self.send(sender, refusal)
            return
        if frame.entries:
            hosted.needs_ack = True
            if keeper.commit >= keeper.end or (learner != self.name and learner not in self.fellows):
                hosted.ack_at = 0
                self.dirty[frame.stream] = None
            else:  # the distinguished learner acknowledges when it knows the commit, all others to it first
                hosted.ack_at = hosted.ack_at or self.now_ms + ACK_MS
                if learner == self.name:
                    self.set_timer(frame.stream, hosted.ack_at)
                else:
                    hosted.distinguished_learner = learner
                    self.dirty[frame.stream] = None
        hosted.unapplied += committed
        if not hosted.distinguished_learner:  # it waits for our answer, and nobody for what we apply
            self.apply(hosted)
        elif committed:
            self.dirty[frame.stream] = None

    def _heard(self, frame: Ack) -> None:
        hosted = self.queues.get(frame.stream)
        if hosted is not None and (committed := hosted.keeper.learn(frame)):
            hosted.needs_ack = True
            hosted.ack_at = 0
            hosted.unapplied += committed
            self.apply(hosted)

    def apply(self, hosted: HostedQueue) -> None:
        if hosted.update is not None and not hosted.whole(self.now_ms):
            return  # what is committed waits for the messages it speaks of
        committed, hosted.unapplied = hosted.unapplied, []
        for entry in committed:
            event = decode_event(entry.event)
            done = hosted.state.apply(event) if event is not None else hosted.state.skip()
            hosted.applied += 1
            self._applied(hosted, entry, event, done)
        if committed:
            self.dirty[hosted.state.id] = None

    def _applied(self, hosted: HostedQueue, entry: Entry, event: AnyEvent | None, done: Applied) -> None:
        """Follow up on an applied event: local dispatch state, and answers when it was ours."""
        if event is None:
            return  # of a kind newer than this program
        mine = entry.origin == self.name and entry.inc == self.inc
        kind, tag = type(event), hosted.mine.popleft().tag if mine else None
        if kind is Enqueue:
            if event.expiry and done.effective:  # type: ignore[union-attr]
                note_expiry(hosted, done.positions)
        elif kind is Acquire:
            if mine:
                ranges = [(first, last) for _, first, last in runs(event.runs)]  # type: ignore[union-attr]
                for first, last in ranges:
                    hosted.dispatcher.taken.remove(first, last)
                if not done.effective:
                    hosted.dispatcher.returned(ranges)
        elif kind is Own:
            self.grants.owned(hosted, event, done, mine)  # type: ignore[arg-type]
        elif kind is Release:
            hosted.dispatcher.returned(done.positions)
        elif kind in EXPELS:
            self.grants.expelled(hosted, event, done)
            hosted.needs_ack = True  # who leaves waits until others know that it is committed
        elif kind is Start:
            hosted.needs_ack = True
        elif kind is Expire:
            for first, last in pairs(event.ranges):  # type: ignore[union-attr]
                hosted.dispatcher.expiring.remove(first, last)
        if mine and tag is not None:
            self._mine(hosted, event, done, tag)

    def _mine(self, hosted: HostedQueue, event: AnyEvent, done: Applied, tag: object) -> None:
        id = hosted.state.id
        if isinstance(tag, Settling):
            for sub, number, lost, acquisitions in tag.tags:
                if done.lost:
                    lost = lost + [n for run in runs(done.lost) if run[0] in acquisitions for n in run]
                self.send(self.broker, Settled(id, sub, number, lost))
            if tag.releasing:
                hosted.dispatcher.released(tag.releasing)
            if type(event) is Reject and hosted.state.index in hosted.state.batches:
                self.dead_letters.bury(hosted, hosted.state.index)
        elif isinstance(tag, Cancel):
            hosted.dispatcher.leaving.pop(tag.sub, None)
            self.send(self.broker, Cancelled(id, tag.sub))
        elif isinstance(tag, Looked):
            hosted.dispatcher.looked(tag)
        elif isinstance(tag, QueueCommand):
            purged: dict[str, object] = {"purged": sum(last - first + 1 for first, last in done.positions)}
            self.send(self.broker, QueueReply(id, tag.number, purged if tag.name == "purge" else self.report(id)))

    # ---- consumers

    def _consume(self, frame: Consume) -> None:
        hosted = self.queues.get(frame.queue)
        if hosted is not None:
            looks, rescue = frame.mode != "consume", frame.mode == "rescue"
            hosted.dispatcher.subscribe(frame.sub, looks, frame.accept, rescue)
            hosted.dispatcher.resume(frame.sub, frame.before, self.now_ms)
            self.dirty[frame.queue] = None

    def _credit(self, frame: Credit) -> None:
        hosted = self.queues.get(frame.queue)
        subscription = hosted.dispatcher.subscriptions.get(frame.sub) if hosted is not None else None
        if subscription is not None:
            subscription.credit.grant(frame.messages, frame.bytes)
            if frame.drain:
                subscription.drain(frame.sure)
                hosted.dispatcher.draining = True  # type: ignore[union-attr]
            self.dirty[frame.queue] = None

    def _cancel(self, frame: Cancel) -> None:
        hosted = self.queues.get(frame.queue)
        subscription = hosted.dispatcher.subscriptions.pop(frame.sub, None) if hosted is not None else None
        if hosted is None or subscription is None:
            self.send(self.broker, Cancelled(frame.queue, frame.sub))
            return
        self.dirty[frame.queue] = None
        held = [n for a, parts in subscription.held.items() for first, last in parts for n in (a, first, last)]
        if not (held or hosted.mine or hosted.settling or hosted.acquires or hosted.acquires_accepted):
            self.send(self.broker, Cancelled(frame.queue, frame.sub))
            return
        # What was settled before must be ordered before, and so must the acquires.
        self._gather(hosted)
        hosted.dispatcher.leaving[frame.sub] = subscription.held
        self.submit(hosted, Release(self.broker, hosted.inc, held, frame.requeue), frame)

    def _settle(self, frame: Settle) -> None:
        hosted = self.queues.get(frame.queue)
        if hosted is None:
            return
        subscription = hosted.dispatcher.subscriptions.get(frame.sub)
        held = subscription.held if subscription is not None else {}
        good, lost, acquisitions = claim(held, frame.runs)
        settling = hosted.settling.get(frame.kind)
        if settling is None:
            settling = hosted.settling[frame.kind] = Settling()
        settling.runs += good
        settling.tags.append((frame.sub, frame.number, lost, acquisitions))
        if frame.kind == RELEASE and good:
            settling.releasing.append(frame.sub)
            hosted.dispatcher.releasing(frame.sub)
        self.dirty[frame.queue] = None

    def _contended(self, frame: Contended) -> None:
        hosted = self.queues.get(frame.queue)
        if hosted is not None:
            self.grants.contended(hosted, frame)
            self.dirty[frame.queue] = None

    def _command(self, frame: QueueCommand) -> None:
        hosted = self.queues.get(frame.queue)
        if hosted is None:
            self.send(self.broker, QueueReply(frame.queue, frame.number, {}))
        elif frame.name == "purge":
            self.submit(hosted, Purge(frame.argument), frame)
        else:
            self._look(hosted, frame)

    def _look(self, hosted: HostedQueue, tag: QueueCommand | Looked) -> None:
        """Ask in order, so that the answer holds all that was complete before: by an event that changes nothing. It is
        applied once a majority holds it, so who asks a sequencer that is deposed waits for the next one's."""
        self._gather(hosted)
        self.submit(hosted, Expire(self.now_ms, []), tag)

    def _drained(self, id: str, hosted: HostedQueue) -> None:
        """Who drains and has got all there is hears so, once that is sure."""
        drained, unsure = hosted.dispatcher.drained(hosted.lock.held)
        for subscription in drained:
            self.send(self.broker, Drained(id, subscription.id))
        if unsure and (looked := hosted.dispatcher.look(unsure)) is not None:
            self._look(hosted, looked)

    # ---- saying it

    def submit(self, hosted: HostedQueue, event: AnyEvent, tag: object) -> None:
        """Ask for `event` to be ordered; `tag` comes back when it is applied."""
        hosted.asked(self.submitter.gather(hosted.state.id, encode_event(event)), tag)
        self.dirty[hosted.state.id] = None

    def _gather(self, hosted: HostedQueue) -> None:
        """Turn what has gathered for a queue into events, in an order that keeps every rule: acquires come before
        the settles that quote them."""
        hosted.acquire_at = 0
        if hosted.acquires:
            runs_, hosted.acquires = hosted.acquires, []
            self.submit(hosted, Acquire(self.broker, hosted.inc, hosted.lock.grant, runs_), None)
        if hosted.acquires_accepted:
            runs_, hosted.acquires_accepted = hosted.acquires_accepted, []
            self.submit(hosted, Acquire(self.broker, hosted.inc, hosted.lock.grant, runs_, True), None)
        if hosted.settling:
            settling, hosted.settling = hosted.settling, {}
            for kind, gathered in settling.items():
                if gathered.runs:
                    event = _SETTLE_EVENTS[kind](self.broker, hosted.inc, gathered.runs)
                    self.submit(hosted, event, gathered)
                else:  # all lost: nothing to order, answer at once
                    for sub, number, lost, _ in gathered.tags:
                        self.send(self.broker, Settled(hosted.state.id, sub, number, lost))

    def _flush(self) -> None:
        if self.dirty:
            unfinished: dict[str, None] = {}
            for id in list(self.dirty):
                hosted = self.queues.get(id)
                if hosted is not None and self._serve(id, hosted):
                    unfinished[id] = None
            self.dirty = unfinished
            if unfinished:
                self.effects.append(Again())
        if self.grants.yielding:
            self.grants.look()
        if (request := self.submitter.gathered()) is not None:
            self.lead(request)

    def _serve(self, id: str, hosted: HostedQueue) -> bool:
        """Everything due for one queue: expiry, dispatch, acknowledgement, hand-over, interest. True: there is more."""
        if hosted.distinguished_learner:
            self.send(hosted.distinguished_learner, hosted.keeper.ack(hosted.applied, hosted.eager))
            hosted.distinguished_learner = ""
            return True
        if hosted.unapplied:
            self.apply(hosted)
        if (hosted.keeper.blank or hosted.update) and not self.catch_up.joining(id, hosted):
            return False
        more = False
        if hosted.updates:
            more = self.catch_up.next_chunks(hosted)
        if hosted.expiries:
            due, again_ms = expired(hosted, self.broker, self._rank, self.now_ms)
            if due:
                self.submit(hosted, Expire(self.now_ms, due), None)
            if again_ms:
                self.set_timer(id, again_ms)
        dispatcher, lock = hosted.dispatcher, hosted.lock
        if dispatcher.resuming:
            again_ms = dispatcher.resumed((self.broker, hosted.inc), lock.held, self.now_ms)
            if again_ms:
                self.set_timer(id, again_ms)
        if dispatcher.subscriptions:
            delivered, again = dispatcher.run(lock.held, self._acquisitions)
            more = more or again
            if delivered:
                self._deliver(hosted, delivered)
            if dispatcher.draining:
                self._drained(id, hosted)
        if hosted.settling or hosted.acquires_due(self.now_ms):
            self._gather(hosted)
        elif hosted.acquire_at:
            self.set_timer(id, hosted.acquire_at)
        eager = bool(dispatcher.subscriptions or hosted.mine)
        if hosted.needs_ack or eager > hosted.eager:
            self._acknowledge(id, hosted, eager)
        # Not before it is back: whoever has the lock by then is an older incarnation, and loses it.
        wants = dispatcher.wants() if dispatcher.subscriptions and hosted.joined else False
        if lock.held:
            next_owner, again_ms = lock.decide(self.now_ms, wants, wants or dispatcher.has_consumers())
            if again_ms:
                self.set_timer(id, again_ms)
            if next_owner is None:
                wants = True  # who keeps the lock is interested, whatever its credit is just now
            else:
                lock.held = False
                self._gather(hosted)  # all acquires before the hand-over (B3)
                self.submit(hosted, Own(next_owner, lock.grant + 1, self.broker), None)
        if wants != hosted.interested:
            hosted.interested = wants
            self.grants.say(Interest(id, self.broker, wants))
        return more

    def _acknowledge(self, id: str, hosted: HostedQueue, eager: bool) -> None:
        """Tell the sequencer how far this replica is: now, or when it must."""
        if hosted.ack_at > self.now_ms and eager <= hosted.eager:
            self.set_timer(id, hosted.ack_at)
            return
        hosted.needs_ack = False
        hosted.ack_at = 0
        hosted.eager = eager
        self.lead(hosted.keeper.ack(hosted.applied, eager))

    def _deliver(self, hosted: HostedQueue, delivered: list[Delivered]) -> None:
        for delivery in delivered:
            if delivery.acquisition:
                acquires = hosted.acquires if delivery.subscription.accept else hosted.acquires_accepted
                for first, last in delivery.parts:
                    acquires += (delivery.acquisition, first, last)
                hosted.lock.used()
            self.send(self.broker, delivery.frame(hosted.state))

    def set_timer(self, id: str, at_ms: int) -> None:
        """Look at the queue again at that time."""
        at_ms = max(at_ms, self.now_ms + 1)
        if at_ms < self._due.get(id, at_ms + 1):
            self._due[id] = at_ms
            if not self._timer or at_ms < self._timer:
                self._timer = at_ms
                self.effects.append(SetTimer(at_ms))

    # ---- answers

    def report(self, id: str) -> dict[str, object]:
        return self.queues[id].report() | {"replica": self.name}


_SETTLE_EVENTS = {ACCEPT: Accept, RELEASE: Release, REJECT: Reject}

_RULES: dict[type[Frame], Callable[[ReplicaMachine, Any], object]] = {
    Append: ReplicaMachine._append,
    Ack: ReplicaMachine._heard,
    Results: lambda machine, frame: machine.submitter.answered(frame),
    Host: ReplicaMachine._host,
    Unhost: ReplicaMachine._unhost,
    Consume: ReplicaMachine._consume,
    Credit: ReplicaMachine._credit,
    Cancel: ReplicaMachine._cancel,
    Settle: ReplicaMachine._settle,
    DeadLettered: lambda machine, frame: machine.dead_letters.interred(frame),
    Contended: ReplicaMachine._contended,
    GiveUp: lambda machine, frame: machine.grants.give_up(),
    QueueCommand: ReplicaMachine._command,
    Prepare: lambda machine, frame: machine.prepare(machine.sender, frame),
    Heartbeat: lambda machine, frame: machine.heartbeat(machine.sender, frame),
    Fetch: lambda machine, frame: machine.fetch(machine.sender, frame),
    Evicted: lambda machine, frame: machine.evicted(machine.sender, frame),
    Update: lambda machine, frame: machine.catch_up.give_to(frame),
    UpdateStart: lambda machine, frame: machine.catch_up.started(frame),
    UpdateFront: lambda machine, frame: machine.catch_up.front(frame),
    UpdateTaken: lambda machine, frame: machine.catch_up.taken(frame),
    Supervised: lambda machine, frame: machine._supervised(frame),
}  # pyright: ignore[reportPrivateUsage]
