"""Dispatch at one broker: subscriptions with their places and credit, and the bounded dispatch run.

After Qpid's message delivery design: no message before a subscription's place is of interest to it; the place moves
forward only, except that a returned message moves the places of non-browsing subscriptions back before it. A run makes
a bounded number of deliveries and then yields. Which message comes next is the order's to say (`delivery_order.py`),
and which subscription may take it the allocator's (`allocator.py`).

Dispatch is local and not replicated. It only ever sees committed messages; its acquires become an `Acquire` event
behind the delivery, and until that event is applied the positions are *taken*.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain
from typing import NamedTuple

from ..limits import DEFAULT, Limits
from ..range_columns import count_of, positions_in
from ..ranges import RangeSet, rising, subtract
from ..timing import DEFAULT_TIMING, Timing
from ..wire.queue_frames import Deliver
from .acquisitions import Holder
from .allocator import Allocator, AnyConsumer
from .credit import UNLIMITED
from .delivery_order import DeliveryOrder, Everything, InTurns, WithDelayed
from .resumption import Before, Resumption
from .selection import Looks, Selection
from .selector import Wanted
from .sequence import Shown
from .state import QueueState
from .subscription import Subscription
from .weights import fitting, weigh


class DrainMark(NamedTuple):
    """The tag of an event that changes nothing: once it is applied here, so is every message that was complete when
    these drains were asked for. Attributes: drains (subscription id, number of its drain)."""

    drains: list[tuple[int, int]]

    @classmethod
    def of(cls, unsure: list[Subscription]) -> DrainMark | None:
        """The question to the stream for these subscriptions; None when it is asked already."""
        drains = [(s.id, s.wanted) for s in unsure if s.asked < s.wanted]
        for subscription in unsure:
            subscription.asked = subscription.wanted
        return cls(drains) if drains else None

    def applied(self, subscriptions: Mapping[int, Subscription]) -> None:
        """The event with this tag is applied."""
        for id, number in self.drains:
            if (subscription := subscriptions.get(id)) is not None:
                subscription.known = max(subscription.known, number)


class Delivered:
    """One delivery to make: which positions go to which subscription, under which acquisition (0 when browsing).
    Attributes: parts, in the order of delivery; ranges, the same positions in as few as can be, rising."""

    __slots__ = ("acquisition", "parts", "ranges", "subscription")

    def __init__(
        self,
        subscription: Subscription,
        acquisition: int,
        parts: list[tuple[int, int]],
        ranges: list[tuple[int, int]],
    ) -> None:
        self.subscription = subscription
        self.acquisition = acquisition
        self.parts = parts
        self.ranges = ranges

    def frame(self, state: Shown) -> Deliver:
        ranges = [*chain.from_iterable(self.parts)]
        blobs = [*map(state.blobs.__getitem__, positions_in(self.parts))]
        redelivered: list[int] = []
        if state.deliveries:
            redelivered = state.deliveries.column(self.parts)
            if state.deliveries.annotations:
                blobs = state.deliveries.noted_all(self.parts, blobs)
        times = state.times.column(self.parts)
        return Deliver(state.id, self.subscription.id, self.acquisition, ranges, blobs, redelivered, times)


def _nobodys(holder: Holder) -> bool:
    return False


class Dispatcher:
    """The subscriptions of one queue at one broker.

    Args:
        order: in which order messages are offered.
        allocator: which subscription may take them.

    Attributes:
        shown: what consumers are shown of the state; by default, all as it is.
        taken: positions delivered here whose `Acquire` is not applied yet.
        expiring: positions whose `Expire`, or `Move`, is not applied yet.
        moving: 1: messages are to be moved from here. 2: and the lock is wanted for that. 0: nothing of it.
        resuming: subscription id -> its wait for messages that it held at another broker.
        leaving: id of a cancelled subscription -> the messages it held, until they are back.
        draining: whether a subscription may be; follows: whether somebody may not take all that waits.
        turn: number of the subscription that is served first. served: those of which a run serves some, with at most
            `run_messages`.
        looks: at messages, for selectors; while it is short another run has to tell what there is for somebody here.
    """

    def __init__(
        self, state: QueueState, order: DeliveryOrder, allocator: Allocator, timing: Timing = DEFAULT_TIMING,
        limits: Limits = DEFAULT, shown: Shown | None = None,
    ) -> None:  # fmt: skip
        self.shown: Shown = state if shown is None else shown
        self._timing = timing
        self.run_messages = limits.run_messages
        self._deliver_bytes = limits.deliver_bytes
        self.state = state
        self.subscriptions = self.served = dict[int, Subscription]()
        self.taken, self.expiring = RangeSet(), RangeSet()
        self.resuming: dict[int, Resumption] = {}
        self.leaving: dict[int, dict[int, RangeSet]] = {}
        self.draining = False
        self.turn = self.moving = 0
        self._order = order
        self._allocator = allocator
        self._in_turns = order if isinstance(order, InTurns) and isinstance(allocator, AnyConsumer) else None
        self.looks = Looks(limits.run_looks)
        self._any = isinstance(allocator, AnyConsumer)
        self.follows = not self._any
        allocator.attach(self.subscriptions, self.returned)

    # ---- subscriptions

    def subscribe(
        self, id: int, browse: bool, accept: bool, everything: bool = False, wanted: Wanted | None = None, own: str = ""
    ) -> Subscription:
        """A new consumer. `everything`: a browser that is shown acquired and rejected messages as well. `wanted`: by
        its selector; None: all are. `own`: but for what that client sent."""
        order = Everything(self.state) if everything else WithDelayed(self.state) if browse else self._order
        if wanted is not None or own:
            order = Selection(self.state, order, wanted, self.looks, own)
            self.follows = True
        subscription = self.subscriptions[id] = Subscription(id, browse, accept, order)
        return subscription

    def wants(self) -> bool:
        """Whether a consumer here has credit for the next message, and may have it or there is none: its broker is then
        *interested*. Where all is others' or not wanted, only one that resumes has a use for the lock: to know so."""
        for s in self.subscriptions.values():
            if (
                s.credit.messages > 0
                and not s.browse
                and not s.blocked
                and (s.credit.bytes == UNLIMITED or self._fits(s))
                and (not self.follows or s.id in self.resuming or self._may_have(s))
            ):
                return True
        return self.moving > 1

    def _may_have(self, subscription: Subscription) -> bool:
        if self._any and subscription.order is self._order:
            return True  # whatever waits
        waiting = self.state.available.count - self.taken.count - self.expiring.count
        return waiting <= 0 or self._candidate(subscription, 1) is not None

    def has_consumers(self) -> bool:
        return self.moving > 0 or any(not s.browse for s in self.subscriptions.values())

    def returned(self, positions: list[tuple[int, int]]) -> None:
        """Messages came back, or may be taken from now on: places behind them move back."""
        if not positions:
            return
        # Of a void acquire others may have taken some meanwhile: those are gone, and nobody knows what they were.
        available = self.state.available
        positions = [part for first, last in sorted(positions) for part in available.within(first, last)]
        if not positions:
            return
        if self.follows:
            self._allocator.returned(positions)
        for subscription in self.subscriptions.values():
            if not subscription.browse:
                subscription.place = subscription.order.back(subscription.place, positions)

    # ---- the run

    def run(self, acquire: bool, next_acquisition: Iterator[int]) -> tuple[list[Delivered], bool]:
        """Make deliveries, at most `Limits.run_messages`.

        Args:
            acquire: whether this broker holds the consume lock; without it only browsers are served.
            next_acquisition: source of rising acquisition numbers.

        Returns:
            The deliveries, and whether the run stopped at its bound with more to do.
        """
        looks = self.looks
        if looks.left < looks.most:
            looks.again()
        delivered: list[Delivered] = []
        budget = self.run_messages
        active = [s for s in self.served.values() if s.credit.messages > 0 and (acquire or s.browse) and not s.waits]
        available = self.state.available
        if not active or not (available.count or any(s.order is not self._order for s in active)):
            return delivered, False
        # An even share each turn: few messages are spread, many go out in large pieces.
        share = max(1, -(-min(available.count - self.taken.count, budget) // len(active)))
        self.turn %= len(active)
        order = active[self.turn :] + active[: self.turn] if self.turn else active
        self.turn += 1
        take = self._take if self._in_turns is None or self.expiring.count else self._take_several
        taken = self.taken
        if self._in_turns is not None and not taken.count:
            self._in_turns.idle()
        while order and budget > 0:
            still = []
            for subscription in order:
                parts, count = take(subscription, share if share < budget else budget)
                if not count:
                    continue
                budget -= count
                acquisition, ranges = 0, parts
                if not subscription.browse:
                    acquisition = next(next_acquisition)
                    if len(parts) > 1:
                        ranges = rising(parts)
                    taken.add_all(ranges)
                    if self.follows:
                        self._allocator.took(subscription, parts)
                    if subscription.accept:
                        held = subscription.held[acquisition] = RangeSet()
                        held.add_all(ranges)
                delivered.append(Delivered(subscription, acquisition, parts, ranges))
                if subscription.credit.messages > 0 and (subscription.browse or available.count > taken.count):
                    still.append(subscription)
                if budget <= 0:
                    return delivered, True
            order = still
        return delivered, looks.short

    def _take(self, subscription: Subscription, most: int) -> tuple[list[tuple[int, int]], int]:
        """The next positions for a subscription, at most `most`, within its credit; moves its place behind them."""
        credit, order = subscription.credit, subscription.order
        if most > credit.messages:
            most = credit.messages
        part = self._candidate(subscription, most)
        parts, count, size = list[tuple[int, int]](), 0, 0
        if part is None:
            return parts, count
        weighs = credit.bytes != UNLIMITED or self.state.bytes > self._deliver_bytes
        full = False
        while part is not None:
            first, last = part
            if weighs:
                last, size, full = weigh(self.shown.blobs, first, last, size, credit, self._deliver_bytes)
                if last < first:
                    break
            parts.append((first, last))
            count += last - first + 1
            subscription.place = order.behind(subscription.place, last, True)
            if full or count >= most:
                break
            part = self._candidate(subscription, most - count)
        if count:
            credit.take(count, size)
        return parts, count

    def _take_several(self, subscription: Subscription, most: int) -> tuple[list[tuple[int, int]], int]:
        """The same at once, where its order is one in turns and no message expires."""
        order, credit = self._in_turns, subscription.credit
        if order is None or subscription.browse or subscription.order is not order:
            return self._take(subscription, most)
        parts = order.several(subscription.place, min(most, credit.messages), self.taken)
        if not parts:
            return parts, 0
        parts, size = fitting(self.shown, parts, credit, self._deliver_bytes)
        count = count_of(parts)
        if count:
            subscription.place = order.given(subscription.place, parts)
            credit.take(count, size)
        return parts, count

    def _candidate(self, subscription: Subscription, most: int) -> tuple[int, int] | None:
        """The first range at or behind its place that is free for this subscription."""
        order, expiring, taken = subscription.order, self.expiring, self.taken
        following = order.next
        while True:
            found = following(subscription.place)
            if found is None:
                return None
            first, last = found
            free = subtract(first, last, expiring.within(first, last)) if expiring.count else [found]
            if taken.count and not subscription.browse:
                free = [part for a, b in free for part in subtract(a, b, taken.within(a, b))]
            if free:
                first, last = free[0]
                if last >= first + most:
                    last = first + most - 1
                if order is not self._order:
                    return first, last
                if (part := self._allocator.allowed(subscription, first, last)) is not None:
                    return part
            subscription.place = order.behind(subscription.place, last)

    def drained(self, acquire: bool) -> tuple[list[Subscription], list[Subscription]]:
        """Draining subscriptions that have got all there is for them, whose credit is now zero; and those that have got
        all that this broker knows of, while more may be complete already.

        Without the lock a consumer is only drained when the whole queue has nothing available: messages that another
        broker is about to give to its own consumers may yet come here.
        """
        done: list[Subscription] = []
        unsure: list[Subscription] = []
        draining = 0
        for subscription in self.subscriptions.values():
            if not subscription.draining:
                continue
            draining += 1
            if subscription.credit.messages > 0 and self._fits(subscription):
                if subscription.waits or self._candidate(subscription, 1) is not None or self.looks.short:
                    continue
                # What it passes over others may keep for ever; with a selector, what is taken here may yet come back.
                passes = not self.taken.count and subscription.order is not self._order if self._any else True
                if not (acquire or subscription.browse or passes) and self._waiting():
                    continue
                if subscription.known < subscription.wanted:
                    unsure.append(subscription)
                    continue
            subscription.draining = False
            subscription.credit.stop()
            done.append(subscription)
        self.draining = draining > len(done)
        return done, unsure

    # ---- consumers that come from another broker

    def resume(self, id: int, before: Before, now_ms: int) -> None:
        subscription = self.subscriptions[id]
        if before and not subscription.browse:
            self.resuming[id] = Resumption(before, now_ms, self._timing)
            subscription.waits += 1

    def resumed(self, here: tuple[str, int], lock: bool, now_ms: int) -> int:
        """Look whether the messages of resuming subscriptions are back; `here`: this broker and its incarnation.
        Returns when to look again in ms, 0 for never."""
        again_ms = 0
        in_use = {acquisition for subscription in self.subscriptions.values() for acquisition in subscription.held}
        # Of cancelled subscriptions, whose `Acquire` and `Release` are perhaps not applied yet.
        leaving = [acquisition for held in self.leaving.values() for acquisition in held.items()]
        for id, resumption in list(self.resuming.items()):
            subscription = self.subscriptions.get(id)
            if subscription is None:
                del self.resuming[id]
                continue
            late = now_ms >= resumption.until_ms
            subscription.blocked = not late and (
                resumption.awaits(self.state.acquired, lambda holder: holder[:2] == here and holder[2] in in_use)
                or any(resumption.awaits({(*here, a): at}, _nobodys) for a, at in leaving)
            )
            if late or (lock and not subscription.blocked):
                del self.resuming[id]
                subscription.waits -= 1
            else:
                again_ms = min(again_ms or resumption.until_ms, resumption.until_ms)
        return again_ms

    # ---- releases of a subscription's own

    def releasing(self, sub: int) -> None:
        """A subscription has released messages: it is given no others until those are back in their places."""
        if (subscription := self.subscriptions.get(sub)) is not None:
            subscription.waits += 1

    def released(self, subs: list[int]) -> None:
        for sub in subs:
            if (subscription := self.subscriptions.get(sub)) is not None:
                subscription.waits -= 1

    def _fits(self, subscription: Subscription) -> bool:
        """Whether byte credit allows the next message: a consumer without that much must not keep the lock."""
        if subscription.credit.bytes == UNLIMITED:
            return True
        part = self._candidate(subscription, 1)
        return part is None or len(self.shown.blobs[part[0]]) <= subscription.credit.bytes

    def _waiting(self) -> bool:
        return self.state.available.count > self.expiring.count
