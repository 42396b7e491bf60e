"""A queue replica: hosts one or more queues of one broker, as keeper of their streams and as their dispatcher.

It applies what is committed, gives committed messages to local consumers while its broker holds the consume lock, and
submits what follows from that (acquires, accepts, releases, rejects, hand-overs) as one request per flush. Every own
event comes back through the log; only then does anything become final that a client can see (`sequencer.md` B2, B3).
"""

from __future__ import annotations

import heapq
from itertools import count

from .dispatch import Delivered
from .effects import OWNERSHIP, SEQUENCER, Again, Effect, Flush, Input, PeerDown, PeerUp, Received, Send, SetTimer, Tick
from .events import (
    Accept,
    Acquire,
    AnyEvent,
    Buried,
    Enqueue,
    Evict,
    Expire,
    Own,
    Purge,
    Reject,
    Release,
    decode_event,
    encode_event,
)
from .frames import (
    ACCEPT,
    REJECT,
    RELEASE,
    Ack,
    Append,
    Bury,
    Busy,
    Cancel,
    Cancelled,
    Consume,
    Contended,
    Credit,
    Deliver,
    Drained,
    Forget,
    Held,
    Host,
    Hosted,
    Interest,
    Interred,
    QueueCommand,
    QueueReply,
    Request,
    Results,
    Settle,
    Settled,
    Unhost,
    Unsubscribe,
)
from .hosting import ACK_MS, Hosting, Settling
from .queue import Applied
from .ranges import RangeSet, pairs, runs

EXPIRY_RANK_MS = 100
"""Un-owned queues are swept by the first broker; each next one waits this much longer, in case it is gone."""


class ReplicaMachine:
    """One queue replica process.

    Args:
        name: its peer name, ``b1.r0``; its origin in requests.
        broker: the broker it belongs to; its voter name.
        inc: the broker's incarnation.
    """

    def __init__(self, name: str, broker: str, inc: int) -> None:
        self.name = name
        self.broker = broker
        self.inc = inc
        self.now_ms = 0
        self.queues: dict[str, Hosting] = {}
        self._fellows: set[str] = set()  # linked replicas of other brokers
        self._unhosted: dict[str, None] = {}  # told again when a link comes back: it may have been lost with it
        self._rank = int("".join(c for c in broker if c.isdigit()) or 0)
        self._acquisitions = count(1)
        self._bury_ids = count(1)
        self._number = 0
        self._requests: dict[int, Request] = {}  # until answered (B1)
        self._parts: list[tuple[str, bytes]] = []
        self._dirty: dict[str, None] = {}
        self._due: dict[str, int] = {}  # queue id -> when to look at it again
        self._timer = 0  # the first of those
        self._out: list[Effect] = []

    # ---- the door

    def step(self, input: Input) -> list[Effect]:
        kind = type(input)
        if kind is Received:
            rule = _RULES.get(type(input.frame))  # type: ignore[union-attr]
            if rule is not None:
                rule(self, input.frame)  # type: ignore[union-attr]
        elif kind is Flush:
            self._flush()
        elif kind is Tick:
            self._tick(input.now_ms)  # type: ignore[union-attr]
        elif kind is PeerUp:
            self._peer_up(input.peer)  # type: ignore[union-attr]
        elif kind is PeerDown:
            self._peer_down(input.peer)  # type: ignore[union-attr]
        out = self._out
        if out:
            self._out = []
        return out

    def _tick(self, now_ms: int) -> None:
        self.now_ms = now_ms
        if self._timer and now_ms >= self._timer:
            due, later = self._due, {}
            for id, at_ms in due.items():
                if at_ms <= now_ms:
                    self._dirty[id] = None
                else:
                    later[id] = at_ms
            self._due = later
            self._timer = 0
            if later:
                self._timer = min(later.values())
                self._out.append(SetTimer(self._timer))

    def _peer_up(self, peer: str) -> None:
        if peer == SEQUENCER:
            self._out += (Send(SEQUENCER, Unsubscribe(id, self.broker)) for id in self._unhosted)
            self._out += (Send(SEQUENCER, hosted.keeper.subscribe()) for hosted in self.queues.values())
            self._out += (Send(SEQUENCER, request) for request in self._requests.values())
        elif peer == OWNERSHIP:
            self._out += (Send(OWNERSHIP, Forget(id)) for id in self._unhosted)
            for id, hosted in self.queues.items():
                if hosted.interested:
                    self._out.append(Send(OWNERSHIP, Interest(id, self.broker, True)))
                if hosted.state.grant:  # whoever it is: what was said of the last grants may have been lost
                    self._out.append(Send(OWNERSHIP, Held(id, hosted.state.owner, hosted.state.grant)))

        elif peer != self.broker:
            self._fellows.add(peer)

    def _peer_down(self, peer: str) -> None:
        self._fellows.discard(peer)
        if peer == self.broker:  # no consumer can be reached any more
            for id, hosted in self.queues.items():
                for sub in list(hosted.dispatcher.subscriptions):
                    self._cancel(Cancel(id, sub, True))

    # ---- hosting

    def _host(self, frame: Host) -> None:
        if frame.queue not in self.queues:
            hosted = self.queues[frame.queue] = Hosting(frame.queue, frame.alternate, self.broker)
            self._out.append(Send(SEQUENCER, hosted.keeper.subscribe()))
        self._out.append(Send(self.broker, Hosted(frame.queue)))

    def _unhost(self, frame: Unhost) -> None:
        hosted = self.queues.pop(frame.queue, None)
        if hosted is not None:
            self._unhosted[frame.queue] = None
            self._dirty.pop(frame.queue, None)
            self._due.pop(frame.queue, None)
            for tag in hosted.mine:  # nothing more will apply; who asks must not wait for it
                if isinstance(tag, QueueCommand):
                    self._out.append(Send(self.broker, QueueReply(frame.queue, tag.number, {"purged": 0})))
            self._out.append(Send(SEQUENCER, Unsubscribe(frame.queue, self.broker)))
            self._out.append(Send(OWNERSHIP, Forget(frame.queue)))

    # ---- the stream

    def _append(self, frame: Append) -> None:
        hosted = self.queues.get(frame.stream)
        if hosted is None:
            return
        keeper = hosted.keeper
        learner = frame.learner
        keeper.need = frame.need if learner == self.name else None
        committed, refusal = keeper.append(frame)
        if refusal is not None:
            self._out.append(Send(SEQUENCER, refusal))
            return
        if frame.entries:
            hosted.needs_ack = True
            self._dirty[frame.stream] = None
            if keeper.commit >= keeper.end or (learner != self.name and learner not in self._fellows):
                hosted.ack_at = 0
            else:  # a learner's answer can wait for what makes it committed, the sequencer's for the learner's
                hosted.ack_at = hosted.ack_at or self.now_ms + ACK_MS
                if learner != self.name:
                    hosted.learner = learner
        hosted.unapplied += committed
        if not hosted.learner:  # it waits for our answer, and nobody for what we apply
            self._apply(hosted)
        elif committed:
            self._dirty[frame.stream] = None

    def _heard(self, frame: Ack) -> None:
        hosted = self.queues.get(frame.stream)
        if hosted is not None and (committed := hosted.keeper.hear(frame)):
            hosted.needs_ack = True
            hosted.ack_at = 0
            hosted.unapplied += committed
            self._apply(hosted)

    def _apply(self, hosted: Hosting) -> None:
        committed, hosted.unapplied = hosted.unapplied, []
        for entry in committed:
            event = decode_event(entry.event)
            done = hosted.state.apply(event) if event is not None else Applied()
            hosted.applied += 1
            mine = entry.origin == self.name and entry.inc == self.inc
            if event is not None:
                self._applied(hosted, event, done, mine)
        if committed:
            self._dirty[hosted.state.id] = None

    def _applied(self, hosted: Hosting, event: AnyEvent, done: Applied, mine: bool) -> None:
        """Follow up on an applied event: local dispatch state, and answers when it was ours."""
        kind = type(event)
        tag = hosted.mine.popleft() if mine else None
        if kind is Enqueue:
            if event.expiry and done.effective:  # type: ignore[union-attr]
                for first, last in done.positions:
                    for position in range(first, last + 1):
                        if position in hosted.state.expiry:
                            heapq.heappush(hosted.expiries, (hosted.state.expiry[position], position))
        elif kind is Acquire:
            if mine:
                ranges = [(first, last) for _, first, last in runs(event.runs)]  # type: ignore[union-attr]
                for first, last in ranges:
                    hosted.dispatcher.taken.remove(first, last)
                if not done.effective:
                    hosted.dispatcher.returned(ranges)
        elif kind is Own:
            self._owned(hosted, event, done, mine)  # type: ignore[arg-type]
        elif kind is Release or kind is Evict:
            hosted.dispatcher.returned(done.positions)
        elif kind is Expire:
            for first, last in pairs(event.ranges):  # type: ignore[union-attr]
                hosted.dispatcher.expiring.remove(first, last)
        if mine and tag is not None:
            self._mine(hosted, event, done, tag)

    def _owned(self, hosted: Hosting, event: Own, done: Applied, mine: bool) -> None:
        state = hosted.state
        if not done.effective:
            if mine and state.owner == self.broker:
                hosted.lock.held = True  # our hand-over was void: we go on
            return
        if event.broker == self.broker:
            hosted.lock.granted(event.grant, self.now_ms)
            self._out.append(Send(OWNERSHIP, Held(state.id, self.broker, event.grant)))
        else:
            hosted.lock.passed(event.grant)
            if not event.broker and mine:
                self._out.append(Send(OWNERSHIP, Held(state.id, "", event.grant)))

    def _mine(self, hosted: Hosting, event: AnyEvent, done: Applied, tag: object) -> None:
        id = hosted.state.id
        if isinstance(tag, Settling):
            for sub, number, lost, acquisitions in tag.tags:
                if done.lost:
                    lost = lost + [n for run in runs(done.lost) if run[0] in acquisitions for n in run]
                self._out.append(Send(self.broker, Settled(id, sub, number, lost)))
            if type(event) is Reject and hosted.state.alternate and done.positions:
                self._bury(hosted, done.positions)
        elif isinstance(tag, Cancel):
            self._out.append(Send(self.broker, Cancelled(id, tag.sub)))
        elif isinstance(tag, QueueCommand):
            if tag.name == "purge":
                value: dict[str, object] = {"purged": sum(last - first + 1 for first, last in done.positions)}
            else:
                value = self.report(id)
            self._out.append(Send(self.broker, QueueReply(id, tag.number, value)))

    # ---- rejected messages go to the alternate exchange

    def _bury(self, hosted: Hosting, positions: list[tuple[int, int]]) -> None:
        blobs = [hosted.state.blobs[p] for first, last in positions for p in range(first, last + 1)]
        id = next(self._bury_ids)
        for _ in range(len(blobs) - 1):  # one number per message, see frames.Bury
            next(self._bury_ids)
        hosted.buried[id] = [edge for part in positions for edge in part]
        self._out.append(Send(self.broker, Bury(hosted.state.id, id, hosted.state.alternate, blobs)))

    def _interred(self, frame: Interred) -> None:
        hosted = self.queues.get(frame.queue)
        if hosted is not None and (ranges := hosted.buried.pop(frame.id, None)):
            self._submit(hosted, Buried(ranges), None)

    # ---- consumers

    def _consume(self, frame: Consume) -> None:
        hosted = self.queues.get(frame.queue)
        if hosted is not None:
            hosted.dispatcher.subscribe(frame.sub, frame.mode == "browse", frame.accept)
            self._dirty[frame.queue] = None

    def _credit(self, frame: Credit) -> None:
        hosted = self.queues.get(frame.queue)
        subscription = hosted.dispatcher.subscriptions.get(frame.sub) if hosted is not None else None
        if subscription is not None:
            subscription.credit.grant(frame.messages, frame.bytes)
            subscription.draining = subscription.draining or frame.drain
            self._dirty[frame.queue] = None

    def _cancel(self, frame: Cancel) -> None:
        hosted = self.queues.get(frame.queue)
        subscription = hosted.dispatcher.subscriptions.pop(frame.sub, None) if hosted is not None else None
        if hosted is None or subscription is None:
            self._out.append(Send(self.broker, Cancelled(frame.queue, frame.sub)))
            return
        self._dirty[frame.queue] = None
        held = [n for a, parts in subscription.held.items() for first, last in parts for n in (a, first, last)]
        if not (held or hosted.mine or hosted.settling or hosted.acquires or hosted.acquires_accepted):
            self._out.append(Send(self.broker, Cancelled(frame.queue, frame.sub)))
            return
        # What was settled before must be ordered before, and so must the acquires.
        self._gather(hosted)
        self._submit(hosted, Release(self.broker, self.inc, held, frame.requeue), frame)

    def _settle(self, frame: Settle) -> None:
        hosted = self.queues.get(frame.queue)
        if hosted is None:
            return
        subscription = hosted.dispatcher.subscriptions.get(frame.sub)
        held = subscription.held if subscription is not None else {}
        good: list[int] = []
        lost: list[int] = []
        acquisitions: set[int] = set()
        for acquisition, first, last in runs(frame.runs):
            mine = held.get(acquisition)
            if mine is None:
                lost += (acquisition, first, last)
                continue
            if mine.covers(first, last):
                good += (acquisition, first, last)
            else:
                rest = RangeSet([first, last])
                for a, b in mine.within(first, last):
                    good += (acquisition, a, b)
                    rest.remove(a, b)
                for a, b in rest:
                    lost += (acquisition, a, b)
            acquisitions.add(acquisition)
            mine.remove(first, last)
            if not mine:
                del held[acquisition]
        settling = hosted.settling.get(frame.kind)
        if settling is None:
            settling = hosted.settling[frame.kind] = Settling()
        settling.runs += good
        settling.tags.append((frame.sub, frame.number, lost, acquisitions))
        self._dirty[frame.queue] = None

    def _contended(self, frame: Contended) -> None:
        hosted = self.queues.get(frame.queue)
        if hosted is not None:
            hosted.lock.contended(frame.grant, frame.next, frame.slice_ms)
            self._dirty[frame.queue] = None

    def _command(self, frame: QueueCommand) -> None:
        hosted = self.queues.get(frame.queue)
        if hosted is None:
            self._out.append(Send(self.broker, QueueReply(frame.queue, frame.number, {})))
        elif frame.name == "purge":
            self._submit(hosted, Purge(frame.argument), frame)
        else:
            # Asked in order, so that the answer holds all that was complete before: an event that changes nothing.
            self._gather(hosted)
            self._submit(hosted, Expire(self.now_ms, []), frame)

    # ---- saying it

    def _submit(self, hosted: Hosting, event: AnyEvent, tag: object) -> None:
        """Ask for `event` to be ordered; `tag` comes back when it is applied."""
        self._parts.append((hosted.state.id, encode_event(event)))
        hosted.mine.append(tag)
        self._dirty[hosted.state.id] = None

    def _gather(self, hosted: Hosting) -> None:
        """Turn what has gathered for a queue into events, in an order that keeps every rule: acquires come before
        the settles that quote them."""
        hosted.acquire_at = 0
        if hosted.acquires:
            runs_, hosted.acquires = hosted.acquires, []
            self._submit(hosted, Acquire(self.broker, self.inc, hosted.lock.grant, runs_), None)
        if hosted.acquires_accepted:
            runs_, hosted.acquires_accepted = hosted.acquires_accepted, []
            self._submit(hosted, Acquire(self.broker, self.inc, hosted.lock.grant, runs_, True), None)
        if hosted.settling:
            settling, hosted.settling = hosted.settling, {}
            for kind, gathered in settling.items():
                if gathered.runs:
                    event = _SETTLE_EVENTS[kind](self.broker, self.inc, gathered.runs)
                    self._submit(hosted, event, gathered)
                else:  # all lost: nothing to order, answer at once
                    for sub, number, lost, _ in gathered.tags:
                        self._out.append(Send(self.broker, Settled(hosted.state.id, sub, number, lost)))

    def _flush(self) -> None:
        if self._dirty:
            unfinished: dict[str, None] = {}
            for id in list(self._dirty):
                hosted = self.queues.get(id)
                if hosted is not None and self._serve(id, hosted):
                    unfinished[id] = None
            self._dirty = unfinished
            if unfinished:
                self._out.append(Again())
        if self._parts:
            self._number += 1
            request = Request(self.name, self.inc, self._number, self._parts)
            self._parts = []
            self._requests[self._number] = request
            self._out.append(Send(SEQUENCER, request))

    def _serve(self, id: str, hosted: Hosting) -> bool:
        """Everything due for one queue: expiry, dispatch, acknowledgement, hand-over, interest. True: there is more."""
        if hosted.learner:
            self._out.append(Send(hosted.learner, hosted.keeper.ack(hosted.applied, hosted.eager)))
            hosted.learner = ""
            return True
        if hosted.unapplied:
            self._apply(hosted)
        more = False
        if hosted.expiries:
            self._sweep(hosted)
        dispatcher, lock = hosted.dispatcher, hosted.lock
        if dispatcher.subscriptions:
            delivered, more = dispatcher.run(lock.held, self._acquisitions)
            if delivered:
                self._deliver(id, hosted, delivered)
            for subscription in dispatcher.drained(lock.held):
                self._out.append(Send(self.broker, Drained(id, subscription.id)))
        if hosted.settling or hosted.acquires_due(self.now_ms):
            self._gather(hosted)
        elif hosted.acquire_at:
            self._set_timer(id, hosted.acquire_at)
        eager = bool(dispatcher.subscriptions or hosted.mine)
        if hosted.needs_ack or eager > hosted.eager:
            self._acknowledge(id, hosted, eager)
        wants = dispatcher.wants() if dispatcher.subscriptions else False
        if lock.held:
            following, again_ms = lock.decide(self.now_ms, wants, dispatcher.has_consumers())
            if again_ms:
                self._set_timer(id, again_ms)
            if following is None:
                wants = True  # who keeps the lock is interested, whatever its credit is just now
            else:
                lock.held = False
                self._gather(hosted)  # all acquires before the hand-over (B3)
                self._submit(hosted, Own(following, lock.grant + 1, self.broker), None)
        if wants != hosted.interested:
            hosted.interested = wants
            self._out.append(Send(OWNERSHIP, Interest(id, self.broker, wants)))
        return more

    def _acknowledge(self, id: str, hosted: Hosting, eager: bool) -> None:
        """Tell the sequencer how far this replica is: now, or when it must."""
        if hosted.ack_at > self.now_ms and eager <= hosted.eager:
            self._set_timer(id, hosted.ack_at)
            return
        hosted.needs_ack = False
        hosted.ack_at = 0
        hosted.eager = eager
        self._out.append(Send(SEQUENCER, hosted.keeper.ack(hosted.applied, eager)))

    def _deliver(self, id: str, hosted: Hosting, delivered: list[Delivered]) -> None:
        state = hosted.state
        blobs_of, deliveries = state.blobs, state.deliveries
        for delivery in delivered:
            subscription = delivery.subscription
            acquisition = delivery.acquisition
            blobs: list[bytes] = []
            ranges: list[int] = []
            acquires = hosted.acquires if subscription.accept else hosted.acquires_accepted
            for first, last in delivery.parts:
                ranges += (first, last)
                blobs += [blobs_of[position] for position in range(first, last + 1)]
                if acquisition:
                    acquires += (acquisition, first, last)
            redelivered: list[int] = []
            if deliveries:
                positions = (p for first, last in delivery.parts for p in range(first, last + 1))
                for index, position in enumerate(positions):
                    if times := deliveries.get(position):
                        redelivered += (index, times)
            if acquisition:
                hosted.lock.used()
            self._out.append(Send(self.broker, Deliver(id, subscription.id, acquisition, ranges, blobs, redelivered)))

    def _sweep(self, hosted: Hosting) -> None:
        """Make the clock's say an event: by the owner, or for an un-owned queue by the first broker that is there."""
        state, heap = hosted.state, hosted.expiries
        if state.owner:
            if state.owner != self.broker:
                while heap and heap[0][1] not in state.expiry:
                    heapq.heappop(heap)
                return
            wait_ms = 0
        else:
            wait_ms = self._rank * EXPIRY_RANK_MS
        due: list[int] = []
        waiting: list[tuple[int, int]] = []
        while heap and (heap[0][1] not in state.expiry or heap[0][0] + wait_ms <= self.now_ms):
            expires_ms, position = heapq.heappop(heap)
            if position not in state.expiry:
                continue
            if position in state.available and position not in hosted.dispatcher.taken:
                due.append(position)
            else:  # acquired: it expires if it comes back
                waiting.append((expires_ms + 1000, position))
        for item in waiting:
            heapq.heappush(heap, item)
        if due:
            ranges = [edge for position in sorted(due) for edge in (position, position)]
            for first, last in pairs(ranges):
                hosted.dispatcher.expiring.add(first, last)
            self._submit(hosted, Expire(self.now_ms, ranges), None)
        if heap:
            self._set_timer(state.id, heap[0][0] + wait_ms)

    def _set_timer(self, id: str, at_ms: int) -> None:
        """Look at the queue again at that time."""
        at_ms = max(at_ms, self.now_ms + 1)
        if at_ms < self._due.get(id, at_ms + 1):
            self._due[id] = at_ms
            if not self._timer or at_ms < self._timer:
                self._timer = at_ms
                self._out.append(SetTimer(at_ms))

    # ---- answers

    def _results(self, frame: Results) -> None:
        for number in frame.numbers:
            self._requests.pop(number, None)

    def _busy(self, frame: Busy) -> None:
        self._out += (Send(SEQUENCER, request) for n, request in self._requests.items() if n >= frame.number)

    def report(self, id: str) -> dict[str, object]:
        hosted = self.queues[id]
        state = hosted.state
        return {
            "messages": state.available.count + state.acquired_count,
            "available": state.available.count,
            "acquired": state.acquired_count,
            "dying": state.dying.count,
            "bytes": state.bytes,
            "owner": state.owner,
            "grant": state.grant,
            "handovers": state.handovers,
            "enqueued": state.enqueued,
            "dequeued": state.accepted + state.discarded + state.dead_lettered + state.expired,
            "accepted": state.accepted,
            "discarded": state.discarded,
            "dead_lettered": state.dead_lettered,
            "expired": state.expired,
            "consumers": len(hosted.dispatcher.subscriptions),
            "applied": hosted.applied,
            "replica": self.name,
        }


_SETTLE_EVENTS = {ACCEPT: Accept, RELEASE: Release, REJECT: Reject}

_RULES = {
    Append: ReplicaMachine._append,
    Ack: ReplicaMachine._heard,
    Results: ReplicaMachine._results,
    Busy: ReplicaMachine._busy,
    Host: ReplicaMachine._host,
    Unhost: ReplicaMachine._unhost,
    Consume: ReplicaMachine._consume,
    Credit: ReplicaMachine._credit,
    Cancel: ReplicaMachine._cancel,
    Settle: ReplicaMachine._settle,
    Interred: ReplicaMachine._interred,
    Contended: ReplicaMachine._contended,
    QueueCommand: ReplicaMachine._command,
}  # pyright: ignore[reportPrivateUsage]
