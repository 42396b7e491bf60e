"""A queue as a pure function of its stream: its messages, their holders, and the owner of the consume lock.

Every replica applies the same committed events in the same order and so reaches the same state; nothing here depends on
the clock, on chance or on which broker it runs (`sequencer.md` Q1 to Q4, `design.md` sections 4 to 6).

A message is in exactly one place: *available*, *acquired* (in one acquisition), *dying* (rejected, on its way to the
alternate exchange) or gone. Batches are ranges, so an event costs about the same for one message and for a thousand.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..ranges import RangeSet, pairs, runs
from ..wire.events import (
    Accept,
    Acquire,
    AnyEvent,
    Buried,
    Enqueue,
    Event,
    Evict,
    Expire,
    Member,
    Own,
    Purge,
    Reject,
    Rejoin,
    Release,
)
from .duplicates import LastNumbers
from .snapshot import Counters, QueueSnapshot

COUNTERS = Counters.__struct_fields__
Holder = tuple[str, int, int]
"""(broker, incarnation, acquisition)"""


@dataclass(slots=True)
class Applied:
    """The outcome of an event.

    Attributes:
        effective: False when the event was void (an acquire without the grant, an own out of turn).
        lost: runs of an accept, release or reject which the broker did not hold.
        positions: ranges the event concerned: enqueued, returned, dying, discarded.
        orphans: batches of dying messages (see `QueueState.batches`) whose broker is out.
    """

    effective: bool = True
    lost: list[int] = field(default_factory=list)
    positions: list[tuple[int, int]] = field(default_factory=list)
    orphans: list[int] = field(default_factory=list)


class QueueState:
    """The replicated state of one queue.

    Args:
        id: name and number of the queue's stream.
        alternate: exchange for rejected messages, "" to discard them.

    Attributes:
        blobs: position -> encoded message, of all messages that are not gone.
        available: positions that may be acquired.
        acquired: holder -> positions it holds.
        index: how many events have been applied: the place of the last one in the stream.
        dying: rejected positions whose copies are not committed elsewhere yet.
        batches: index of the event that rejected them -> the broker that sees to the copies, and their ranges. Every
            replica knows a batch by that index, so that any of them can finish a dead one's batch, once.
        deliveries: position -> how often it was delivered and returned (only where not zero).
        expiry: position -> expiry in ms (only where there is one).
        absent: brokers that are out and have not come back: an `own` event that names one is void.
        owner, grant: the broker that holds the consume lock, "" for none; the current grant.
        bytes: sum of the sizes of `blobs`.
    """

    def __init__(self, id: str, alternate: str = "") -> None:
        self.id = id
        self.alternate = alternate
        self.blobs: dict[int, bytes] = {}
        self.available = RangeSet()
        self.acquired: dict[Holder, RangeSet] = {}
        self.index = 0
        self.dying = RangeSet()
        self.batches: dict[int, tuple[str, list[int]]] = {}
        self.deliveries: dict[int, int] = {}
        self.expiry: dict[int, int] = {}
        self.owner = ""
        self.grant = 0
        self.next_position = 1
        self.bytes = 0
        self.numbers = LastNumbers()
        self.absent: set[str] = set()
        self.evicted: dict[str, int] = {}  # broker -> newest incarnation that is out (Q3)
        self.enqueued = 0
        self.accepted = 0
        self.discarded = 0
        self.dead_lettered = 0
        self.expired = 0
        self.handovers = 0
        self._apply: dict[type[Event], Callable[[Any], Applied]] = {
            Enqueue: self._enqueue,
            Acquire: self._acquire,
            Accept: self._accept,
            Release: self._release,
            Reject: self._reject,
            Own: self._own,
            Expire: self._expire,
            Purge: self._purge,
            Buried: self._buried,
            Evict: self._evict,
            Rejoin: self._rejoin,
            Member: self._member,
        }

    def apply(self, event: AnyEvent) -> Applied:
        """Apply the next committed event. Events of other kinds (a term's start, say) change nothing."""
        self.index += 1
        rule = self._apply.get(type(event))
        return rule(event) if rule is not None else Applied()

    def skip(self) -> Applied:
        """The next event is of a kind newer than this program."""
        self.index += 1
        return Applied()

    # ---- one rule per event

    def _enqueue(self, event: Enqueue) -> Applied:
        blobs = event.blobs
        expiry = event.expiry
        if event.client:
            last = self.numbers.last(event.client)
            numbers = event.numbers
            if not numbers or numbers[-1] <= last:
                return Applied(effective=False)
            if numbers[0] <= last:
                blobs, expiry = self._not_seen(event, last)
            self.numbers.note(event.client, numbers[-1])
        count = len(blobs)
        if count == 0:
            return Applied(effective=False)
        first = self.next_position
        self.next_position = first + count
        self.blobs.update(zip(range(first, first + count), blobs, strict=True))
        self.bytes += sum(map(len, blobs))
        self.available.add(first, first + count - 1)
        if expiry:
            for index, expires_ms in pairs(expiry):
                if 0 <= index < count:
                    self.expiry[first + index] = expires_ms
        self.enqueued += count
        return Applied(positions=[(first, first + count - 1)])

    @staticmethod
    def _not_seen(event: Enqueue, last: int) -> tuple[list[bytes], list[int]]:
        """The messages of a partly repeated enqueue whose numbers are above `last`."""
        numbers = [number for first, final in pairs(event.numbers) for number in range(first, final + 1)]
        fresh = [index for index, number in enumerate(numbers) if number > last]
        place = {index: new for new, index in enumerate(fresh)}
        expiry = [item for index, ms in pairs(event.expiry) if index in place for item in (place[index], ms)]
        return [event.blobs[index] for index in fresh], expiry

    def _acquire(self, event: Acquire) -> Applied:
        if event.broker != self.owner or event.grant != self.grant or self.is_evicted(event.broker, event.inc):
            return Applied(effective=False)
        available = self.available
        taken: list[tuple[int, int]] = []
        for acquisition, first, last in runs(event.runs):
            # Some may be purged or expired meanwhile: only available messages can be acquired.
            parts = available.within(first, last)
            available.remove(first, last)
            taken += parts
            if not event.accepted and parts:
                held = self.acquired.setdefault((event.broker, event.inc, acquisition), RangeSet())
                for a, b in parts:
                    held.add(a, b)
        if event.accepted:
            self.accepted += self._dequeue(taken)
        return Applied(positions=taken)

    def _settle(self, event: Accept | Release | Reject) -> Applied:
        """Take the runs out of their acquisitions; positions not held there are lost (Q2)."""
        done = Applied()
        for acquisition, first, last in runs(event.runs):
            key = (event.broker, event.inc, acquisition)
            held = self.acquired.get(key)
            if held is None:
                done.lost += (acquisition, first, last)
                continue
            if held.covers(first, last):
                done.positions.append((first, last))
            else:
                parts = held.within(first, last)
                done.positions += parts
                missing = RangeSet([first, last])
                for a, b in parts:
                    missing.remove(a, b)
                for a, b in missing:
                    done.lost += (acquisition, a, b)
            held.remove(first, last)
            if not held.count:
                del self.acquired[key]
        return done

    def _accept(self, event: Accept) -> Applied:
        done = self._settle(event)
        self.accepted += self._dequeue(done.positions)
        return done

    def _release(self, event: Release) -> Applied:
        done = self._settle(event)
        self._return(done.positions, event.redelivered)
        return done

    def _return(self, positions: list[tuple[int, int]], redelivered: bool) -> None:
        for first, last in positions:
            self.available.add(first, last)
            if redelivered:
                for position in range(first, last + 1):
                    self.deliveries[position] = self.deliveries.get(position, 0) + 1

    def _reject(self, event: Reject) -> Applied:
        done = self._settle(event)
        if self.alternate:
            for first, last in done.positions:
                self.dying.add(first, last)
            if done.positions:
                self.batches[self.index] = event.broker, [edge for part in done.positions for edge in part]
        else:
            self.discarded += self._dequeue(done.positions)
        return done

    def _buried(self, event: Buried) -> Applied:
        _, ranges = self.batches.pop(event.batch, ("", []))
        gone = list(pairs(ranges))
        for first, last in gone:
            self.dying.remove(first, last)
        self.dead_lettered += self._dequeue(gone)
        return Applied(positions=gone)

    def _own(self, event: Own) -> Applied:
        if event.grant != self.grant + 1 or (self.owner and event.by != self.owner) or event.broker in self.absent:
            return Applied(effective=False)
        if event.broker and self.owner and event.broker != self.owner:
            self.handovers += 1
        self.owner = event.broker
        self.grant = event.grant
        return Applied()

    def _expire(self, event: Expire) -> Applied:
        due = [
            (position, position)
            for first, last in pairs(event.ranges)
            for a, b in self.available.within(first, last)
            for position in range(a, b + 1)
            if self.expiry.get(position, event.now_ms + 1) <= event.now_ms
        ]
        for first, last in due:
            self.available.remove(first, last)
        self.expired += self._dequeue(due)
        return Applied(positions=due)

    def _purge(self, event: Purge) -> Applied:
        left = event.count or self.available.count
        gone: list[tuple[int, int]] = []
        for first, last in self.available:
            if left <= 0:
                break
            last = min(last, first + left - 1)
            left -= last - first + 1
            gone.append((first, last))
        for first, last in gone:
            self.available.remove(first, last)
        self.discarded += self._dequeue(gone)
        return Applied(positions=gone)

    def _evict(self, event: Evict) -> Applied:
        if self.is_evicted(event.broker, event.inc):
            return Applied(effective=False)
        self.evicted[event.broker] = event.inc
        self.absent.add(event.broker)
        returned: list[tuple[int, int]] = []
        for key in [key for key in self.acquired if key[0] == event.broker and key[1] <= event.inc]:
            returned += list(self.acquired.pop(key))
        returned.sort()
        if self.owner == event.broker:
            self.owner = ""
            self.grant += 1
            # The owner's consumers may have seen messages whose acquire was not yet ordered (sequencer.md B3).
            for first, last in self.available:
                for position in range(first, last + 1):
                    self.deliveries.setdefault(position, 1)
        self._return(returned, redelivered=True)
        orphans = [index for index, (broker, _) in self.batches.items() if broker == event.broker]
        return Applied(positions=returned, orphans=orphans)

    def _rejoin(self, event: Rejoin) -> Applied:
        """A voter is back as a newer incarnation, so all older ones are out, if no `Evict` said so before."""
        done = self._evict(Evict(event.voter, event.inc - 1))
        if not self.is_evicted(event.voter, event.inc):
            self.absent.discard(event.voter)
        return done

    def _member(self, event: Member) -> Applied:
        """A broker that leaves the voters is out; one that joins them is a new incarnation, and older ones are out."""
        if not event.present and self.owner == event.broker and not self.is_evicted(event.broker, event.inc):
            # The broker was granted the lock as it left: it had no consumers any more, so none saw available messages.
            self.owner = ""
            self.grant += 1
        done = self._evict(Evict(event.broker, event.inc - event.present))
        if event.present and not self.is_evicted(event.broker, event.inc):
            self.absent.discard(event.broker)
        return done

    def is_evicted(self, broker: str, inc: int) -> bool:
        return bool(self.evicted) and inc <= self.evicted.get(broker, -1)

    def _dequeue(self, positions: list[tuple[int, int]]) -> int:
        """Forget the messages at these positions; returns their number."""
        blobs = self.blobs
        count = 0
        size = 0
        for first, last in positions:
            count += last - first + 1
            for position in range(first, last + 1):
                size += len(blobs.pop(position))
        self.bytes -= size
        for table in (self.deliveries, self.expiry):
            if table:
                for first, last in positions:
                    for position in range(first, last + 1):
                        table.pop(position, None)
        return count

    # ---- updates (`design.md` section 8)

    def snapshot(self) -> QueueSnapshot:
        """All but the messages themselves."""
        return QueueSnapshot(
            index=self.index,
            next_position=self.next_position,
            available=self.available.flat(),
            acquired=[(*holder, held.flat()) for holder, held in self.acquired.items()],
            dying=self.dying.flat(),
            batches=[(index, *batch) for index, batch in self.batches.items()],
            deliveries=list(self.deliveries.items()),
            expiry=list(self.expiry.items()),
            owner=self.owner,
            grant=self.grant,
            numbers=self.numbers.table(),
            evicted=list(self.evicted.items()),
            absent=sorted(self.absent),
            counters=Counters(*(getattr(self, name) for name in COUNTERS)),
        )

    def restore(self, snapshot: QueueSnapshot) -> None:
        """Take over the state in `snapshot`, still without messages; `fill` brings those."""
        self.blobs.clear()
        self.bytes = 0
        self.index = snapshot.index
        self.next_position = snapshot.next_position
        self.available = RangeSet(snapshot.available)
        self.acquired = {(broker, inc, n): RangeSet(ranges) for broker, inc, n, ranges in snapshot.acquired}
        self.dying = RangeSet(snapshot.dying)
        self.batches = {index: (broker, ranges) for index, broker, ranges in snapshot.batches}
        self.deliveries = dict(snapshot.deliveries)
        self.expiry = dict(snapshot.expiry)
        self.owner = snapshot.owner
        self.grant = snapshot.grant
        self.numbers = LastNumbers()
        for client, number in snapshot.numbers:
            self.numbers.note(client, number)
        self.evicted = dict(snapshot.evicted)
        self.absent = set(snapshot.absent)
        for name in COUNTERS:
            setattr(self, name, getattr(snapshot.counters, name))

    def live(self) -> RangeSet:
        """Positions of all messages that are not gone."""
        live = RangeSet(self.available.flat())
        for held in [*self.acquired.values(), self.dying]:
            for first, last in held:
                live.add(first, last)
        return live

    def fill(self, blobs: dict[int, bytes]) -> None:
        """Take the messages of a restored snapshot. Missing ones were dequeued before the updater came to send them:
        events still to be applied dequeue them here, and until then they have no body."""
        for first, last in self.live():
            for position in range(first, last + 1):
                blob = self.blobs[position] = blobs.get(position, b"")
                self.bytes += len(blob)

    # ---- reports

    @property
    def acquired_count(self) -> int:
        return sum(held.count for held in self.acquired.values())

    def digest(self) -> int:
        """A checksum of all that is replicated: equal on every replica at equal positions of the stream (I16)."""
        positions = sorted(self.blobs)
        crcs = list(map(zlib.crc32, map(self.blobs.__getitem__, positions)))
        return zlib.crc32(msgspec.msgpack.encode([self.snapshot().canonical(), positions, crcs, self.bytes]))
