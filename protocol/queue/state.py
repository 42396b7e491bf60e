"""A queue as a pure function of its stream: its messages, their holders, and the owner of the consume lock.

Every replica applies the same committed events in the same order and so reaches the same state; nothing here depends on
the clock, on chance or on which broker it runs (`sequencer.md` Q1 to Q4, `design.md` sections 4 to 6).

A message is in exactly one place: *available*, *delayed* (until its time has come), *acquired* (in one acquisition), in
*dead-lettering* (set aside, on its way to the alternate exchange) or gone. Batches are ranges, so an event costs about
the same for one message and for a thousand.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from functools import partial

import msgspec

from ..range_columns import by_acquisition, positions_in
from ..ranges import RangeSet, pairs
from ..wire.events import (
    Accept,
    Acquire,
    AnyEvent,
    Configure,
    DeadLetterDone,
    Dissolve,
    Due,
    Enqueue,
    Evict,
    Expire,
    Member,
    Modify,
    Move,
    Moved,
    Named,
    Own,
    Purge,
    Reject,
    Rejoin,
    Release,
    Return,
)
from . import come_before
from .acquisitions import Acquisitions
from .applied import Applied
from .batches import NOBODY, REJECTED, Batches
from .configured import Configured
from .consume_lock import own
from .delayed import Delayed
from .delivery_counts import DeliveryCounts
from .duplicates import LastNumbers, unseen
from .enqueue_times import EnqueueTimes
from .expiry_times import ExpiryTimes
from .fence import Fence
from .known_ids import KnownIds
from .leaving import expire, purge
from .move_rules import move, moved
from .named_senders import NamedSenders
from .origins import Origins
from .refused_numbers import RefusedNumbers
from .snapshot import Counters, QueueSnapshot, Tallies, live_of
from .state_policy import Rule, StatePolicy, followed

COUNTERS = Counters.__struct_fields__


class QueueState:
    """The replicated state of one queue.

    Args:
        id: name and number of the queue's stream.
        alternate: exchange for dead letters, "" to discard them.

    Attributes:
        blobs: position -> encoded message, of all messages that are not gone.
        available: positions that may be acquired. delayed: those that may be later.
        acquired: holder -> positions it holds.
        index: how many events have been applied: the place of the last one in the stream.
        dead_lettering: positions that were set aside, whose copies are not committed elsewhere yet.
        batches: of which they are, by the index of the event: so any replica can finish a dead one's, once.
        deliveries: how often each message was delivered and returned, and what consumers noted on it.
        times: when each message came. expiry: position -> expiry in ms (only where there is one).
        origins: which client sent which message. ids: those of messages that came lately, where they are looked at.
        fence: the brokers that are out; an `own` event that names one that has not come back is void.
        owner, grant: the broker that holds the consume lock, "" for none; the current grant.
        bytes: sum of the sizes of `blobs`; policies: by which it is of a kind.
        refusals: the numbers of clients that were refused at its limit.
        turn: of a queue whose levels have shares, whose turn it is (`shares.py`).
        tallies: what is counted, and decides nothing. wired, wired_next: see `relay.py`.
        flow_stopped, flow_stopped_count: it holds its producers back; how often it has begun to.
        configured: what has become of it since it was declared; arrange: has it follow that (`arrangement.py`).
    """

    def __init__(self, id: str, alternate: str = "") -> None:
        self.id, self.alternate = id, alternate
        self.blobs: dict[int, bytes] = {}
        self.available, self.delayed = RangeSet(), Delayed()
        self.acquired = Acquisitions()
        self.dead_lettering = RangeSet()
        self.batches = Batches()
        self.deliveries, self.times = DeliveryCounts(), EnqueueTimes()
        self.expiry = ExpiryTimes()
        self.origins, self.ids = Origins(), KnownIds()
        self.owner = ""
        self.index = self.grant = self.bytes = self.wired = self.wired_next = 0
        self.next_position = 1
        self.named, self.fence = NamedSenders(), Fence()
        self.numbers = LastNumbers(named=self.named)
        self.enqueued = self.accepted = self.discarded = self.dead_lettered = self.expired = self.handovers = 0
        self.refused = self.flow_stopped_count = self.moved = 0
        self.refusals = RefusedNumbers()
        self.tallies = Tallies()
        self.flow_stopped = False
        self.turn: tuple[int, int] | None = None
        self._apply = _rules(self)
        self.policies: list[StatePolicy] = []
        self.configured, self.arrange = Configured(), lambda: None

    def apply(self, event: AnyEvent | None) -> Applied:
        """Apply the next committed event; one of another kind, or None (of a newer kind than these), does nothing."""
        self.index += 1
        rule = self._apply.get(type(event))
        return rule(event) if rule is not None else Applied()

    def include(self, policy: StatePolicy) -> None:
        """A policy is part of this state from the next event on."""
        self.policies.append(policy)
        for kind in policy.events:
            self._apply[kind] = followed(self._apply[kind], policy)

    def replace(self, policies: Iterable[StatePolicy]) -> None:
        """These, and no others, are part of this state from the next event on."""
        self._apply, self.policies = _rules(self), []
        for policy in policies:
            self.include(policy)

    # ---- one rule per event

    def _enqueue(self, event: Enqueue) -> Applied:
        blobs, expiry = event.blobs, event.expiry
        if event.client:
            last = self.numbers.last(event.client)
            numbers = event.numbers
            if not numbers or numbers[-1] <= last:
                return Applied(effective=False)
            if numbers[0] <= last:
                blobs, expiry = unseen(event, last)
            self.numbers.note(event.client, numbers[-1])
        count = len(blobs)
        if count == 0:
            return Applied(effective=False)
        first = self.next_position
        self.next_position = first + count
        self.blobs.update(zip(range(first, first + count), blobs, strict=True))
        self.bytes += (size := sum(map(len, blobs)))
        self.tallies.bytes_in += size
        self.available.add(first, first + count - 1)
        self.times.came(first, event.at_ms, len(self.blobs), self.live)
        if expiry:
            self.expiry.came(first, count, expiry)
        if event.client != self.origins.client or event.origin_of:
            self.origins.came(first, count, event, self.live, len(self.blobs))
        if event.delays:
            self.delayed.came(first + count - len(event.blobs), first, event.delays, self.available)
        self.enqueued += count
        return Applied(positions=[(first, first + count - 1)])

    def _acquire(self, event: Acquire) -> Applied:
        if event.broker != self.owner or event.grant != self.grant or self.fence.is_out(event.broker, event.inc):
            return Applied(effective=False)
        available = self.available
        taken: list[tuple[int, int]] = []
        for acquisition, firsts, lasts in by_acquisition(event.runs):
            # Some may be purged or expired meanwhile: only available messages can be acquired.
            parts = available.take_each(firsts, lasts)
            taken += parts
            if not event.accepted and parts:
                self.acquired.setdefault((event.broker, event.inc, acquisition), RangeSet()).add_all(parts)
        if event.accepted:
            self.accepted += self.dequeue(taken)
        return Applied(positions=taken)

    def _accept(self, event: Accept) -> Applied:
        settled, lost = self.acquired.settle(event)
        self.accepted += self.dequeue(settled)
        return Applied(True, lost, settled)

    def _release(self, event: Release | Modify) -> Applied:
        settled, lost = self.acquired.settle(event)
        self._return(settled, event.redelivered)
        if isinstance(event, Modify):
            self.deliveries.modified(settled, event.annotations)
            if event.due_ms:
                self.delayed.put_off(settled, event.due_ms, self.available)
        return Applied(True, lost, settled)

    def _return(self, positions: list[tuple[int, int]], redelivered: bool) -> None:
        for first, last in positions:
            self.tallies.releases += last - first + 1
            self.available.add(first, last)
            if redelivered:
                self.deliveries.back(first, last)

    def _reject(self, event: Reject) -> Applied:
        settled, lost = self.acquired.settle(event)
        if self.alternate:
            self.set_aside(settled, REJECTED, event.broker)
        else:
            self.discarded += self.dequeue(settled)
        return Applied(True, lost, settled)

    def set_aside(self, ranges: list[tuple[int, int]], cause: str, broker: str = NOBODY) -> Applied:
        """These, which nobody holds, are on their way to the alternate from this event on."""
        self.withdraw(ranges)
        for first, last in ranges:
            self.dead_lettering.add(first, last)
        self.batches.begin(self.index, broker, ranges, cause)
        return Applied(aside=ranges)

    def _dead_letter_done(self, event: DeadLetterDone) -> Applied:
        gone = list(pairs(self.batches.end(event.batch)))
        for first, last in gone:
            self.dead_lettering.remove(first, last)
        self.dead_lettered += self.dequeue(gone)
        return Applied(positions=gone)

    def discard(self, ranges: list[tuple[int, int]]) -> int:
        """So many messages go that are available, or held by a consumer, whose settlement is then lost."""
        self.withdraw(ranges)
        self.tallies.revoked += self.acquired.drop(ranges)
        self.discarded += (count := self.dequeue(ranges))
        return count

    def withdraw(self, ranges: list[tuple[int, int]]) -> None:
        """Those of these that nobody holds, available or delayed, are neither any more."""
        for first, last in ranges:
            self.available.remove(first, last)
        if self.delayed:
            self.delayed.drop(ranges)

    def _evict(self, event: Evict) -> Applied:
        if not self.fence.put_out(event.broker, event.inc):
            return Applied(effective=False)
        returned = self.acquired.end(event.broker, event.inc)
        if self.owner == event.broker:
            self.owner = ""
            self.grant += 1
            # The owner's consumers may have seen messages whose acquire was not yet ordered (sequencer.md B3).
            self.deliveries.may_be_seen(self.available)
        self._return(returned, redelivered=True)
        orphans = [index for index, (broker, _) in self.batches.items() if broker == event.broker]
        return Applied(positions=returned, orphans=orphans)

    def _rejoin(self, event: Rejoin | Return) -> Applied:
        """A voter is back as a newer incarnation, so all older ones are out, if no `Evict` said so before."""
        inc = event.life if isinstance(event, Return) else event.inc
        done = self._evict(Evict(event.voter, inc - 1))
        self.fence.let_in(event.voter, inc)
        return done

    def _member(self, event: Member) -> Applied:
        """A broker that leaves the voters is out; one that joins them is a new incarnation, and older ones are out."""
        if not event.present and self.owner == event.broker and not self.fence.is_out(event.broker, event.inc):
            # The broker was granted the lock as it left: it had no consumers any more, so none saw available messages.
            self.owner = ""
            self.grant += 1
        done = self._evict(Evict(event.broker, event.inc - event.present))
        if event.present:
            self.fence.let_in(event.broker, event.inc)
        return done

    def dequeue(self, positions: list[tuple[int, int]]) -> int:
        """Forget the messages at these positions; returns their number."""
        before = len(self.blobs)
        self.bytes -= sum(map(len, map(self.blobs.pop, positions_in(positions))))
        if self.deliveries.marks.count:
            self.deliveries.forget(positions)
        if self.expiry:
            self.expiry.forget(positions)
        return before - len(self.blobs)

    # ---- updates (`design.md` section 8)

    def snapshot(self) -> QueueSnapshot:
        """All but the messages themselves."""
        live = self.live()
        origins, origin_runs = self.origins.told(live)
        return QueueSnapshot(
            index=self.index,
            next_position=self.next_position,
            available=self.available.flat(),
            acquired=[(*holder, held.flat()) for holder, held in self.acquired.items()],
            dead_lettering=self.dead_lettering.flat(),
            **self.deliveries.told(),
            **self.batches.told(),
            expiry=list(self.expiry.items()),
            owner=self.owner,
            grant=self.grant,
            evicted=list(self.fence.evicted.items()),
            absent=sorted(self.fence.absent),
            counters=Counters(*(getattr(self, name) for name in COUNTERS)),
            flow_stopped=self.flow_stopped,
            turn=list(self.turn or ()),
            tallies=self.tallies.copy(),
            origins=origins,
            origin_runs=origin_runs,
            times=self.times.flat(live, self.next_position),
            **come_before.told(self),
            delayed=list(self.delayed.due.items()),
            configured=self.configured,
        )

    def restore(self, snapshot: QueueSnapshot) -> None:
        """Take over the state in `snapshot`, still without messages; `fill` brings those."""
        self.blobs.clear()
        self.bytes = 0
        self.index, self.next_position = snapshot.index, snapshot.next_position
        self.available.assign(snapshot.available)
        self.acquired = Acquisitions({(broker, inc, n): RangeSet(held) for broker, inc, n, held in snapshot.acquired})
        self.dead_lettering = RangeSet(snapshot.dead_lettering)
        self.batches = Batches.of(snapshot)
        self.deliveries = DeliveryCounts.of(snapshot)
        self.times = EnqueueTimes(snapshot.times)
        self.expiry = ExpiryTimes(snapshot.expiry)
        self.delayed = Delayed(snapshot.delayed)
        self.origins.assign(snapshot.origins, snapshot.origin_runs)
        self.owner, self.grant = snapshot.owner, snapshot.grant
        come_before.assigned(self, snapshot)
        self.fence.evicted, self.fence.absent = dict(snapshot.evicted), set(snapshot.absent)
        self.flow_stopped = snapshot.flow_stopped
        self.turn = (snapshot.turn[0], snapshot.turn[1]) if len(snapshot.turn) == 2 else None
        self.tallies = snapshot.tallies.copy()
        for name in COUNTERS:
            setattr(self, name, getattr(snapshot.counters, name))
        self.configured = snapshot.configured
        self.arrange()

    def live(self) -> RangeSet:
        """Positions of all messages that are not gone."""
        return live_of(self.available.flat(), [*self.acquired.values(), self.dead_lettering, self.delayed.ranges])

    def fill(self, blobs: dict[int, bytes]) -> None:
        """Take a restored snapshot's messages. One that is missing is dequeued by an event still to be applied."""
        filled = {
            position: blobs.get(position, b"") for first, last in self.live() for position in range(first, last + 1)
        }
        self.adopt(filled, sum(map(len, filled.values())))

    def adopt(self, blobs: dict[int, bytes], size: int) -> None:
        """Take these as all live messages, as the caller has verified: millions at once. `size`: their bytes."""
        self.blobs |= blobs  # policies have been shown it
        self.bytes = size
        for policy in self.policies:
            policy.restored()

    def digest(self) -> int:
        """A checksum of all that is replicated: equal on every replica at equal positions of the stream (I16)."""
        positions = sorted(self.blobs)
        crcs = list(map(zlib.crc32, map(self.blobs.__getitem__, positions)))
        return zlib.crc32(msgspec.msgpack.encode([self.snapshot().canonical(), positions, crcs, self.bytes]))


def _rules(state: QueueState) -> dict[type, Rule]:
    return {
        Enqueue: state._enqueue,
        Acquire: state._acquire,
        Accept: state._accept,
        Release: state._release,
        Reject: state._reject,
        Own: partial(own, state),
        Expire: partial(expire, state),
        Due: lambda event: Applied(positions=state.delayed.become_due(event, state.available)),
        Purge: partial(purge, state),
        Move: partial(move, state),
        Moved: partial(moved, state),
        DeadLetterDone: state._dead_letter_done,
        Evict: state._evict,
        Rejoin: state._rejoin,
        Return: state._rejoin,
        Member: state._member,
        Modify: state._release,
        Dissolve: lambda event: Applied(effective=False),
        Named: state.named.begins,
        Configure: lambda event: Applied(effective=False),
    }
