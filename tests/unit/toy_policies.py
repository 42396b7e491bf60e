"""Toy policies of queues: a priority order, last value, ring, message groups. They show what the seam of
`protocol/queue/policies.py` carries; the product has none of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from mantamq.protocol.queue.allocator import Again, AnyConsumer
from mantamq.protocol.queue.applied import Applied
from mantamq.protocol.queue.delivery_order import Fifo
from mantamq.protocol.queue.policies import Policies
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.queue.subscription import Subscription
from mantamq.protocol.ranges import RangeSet
from mantamq.protocol.wire.events import Accept, Enqueue, Event, Evict, Release


class Levels(RangeSet):
    """The available messages, and those of each priority, which is a message's first byte."""

    def __init__(self, blobs: dict[int, bytes]) -> None:
        super().__init__()
        self._blobs = blobs
        self.level_of: dict[int, bytes] = {}
        self.levels: dict[bytes, RangeSet] = defaultdict(RangeSet)

    def add(self, first: int, last: int) -> None:
        super().add(first, last)
        for position in range(first, last + 1):
            level = self.level_of[position] = self._blobs.get(position, b"")[:1]
            self.levels[level].add(position, position)

    def remove(self, first: int, last: int) -> None:
        self.take(first, last)

    def take(self, first: int, last: int) -> list[tuple[int, int]]:
        found = super().take(first, last)
        for a, b in found:
            for position in range(a, b + 1):
                self.levels[self.level_of.pop(position)].remove(position, position)
        return found


class ByPriority:
    """The highest priority first, and by position in each; browsers go by position. A place is a position for each
    level, or one position."""

    events: tuple[type[Event], ...] = ()
    one_by_one = False

    def __init__(self, state: QueueState) -> None:
        self._available = state.available = Levels(state.blobs)

    def start(self, browse: bool, /) -> Any:
        return 1 if browse else {}

    def next(self, place: Any, /) -> tuple[int, int] | None:
        if isinstance(place, int):
            return self._available.at_or_after(place)
        for level, positions in sorted(self._available.levels.items(), reverse=True):
            if (found := positions.at_or_after(place.get(level, 1))) is not None:
                return found
        return None

    def behind(self, place: Any, last: int, given: bool = False, /) -> Any:
        return last + 1 if isinstance(place, int) else place | {self._available.level_of[last]: last + 1}

    def back(self, place: Any, positions: list[tuple[int, int]], /) -> Any:
        first = positions[0][0]
        if isinstance(place, int):
            return min(place, first)
        return {level: min(position, first) for level, position in place.items()}

    def applied(self, event: Any, done: Applied, /) -> None: ...

    def restored(self) -> None:
        self._available.assign(self._available.flat())


class Ring:
    """At most two messages are available: the oldest go."""

    events: tuple[type[Event], ...] = (Enqueue,)
    one_by_one = False

    def __init__(self, state: QueueState) -> None:
        self._state = state

    def applied(self, event: Any, done: Applied, /) -> None:
        available = self._state.available
        while (beyond := available.count - 2) > 0:
            first, last = next(iter(available))
            self._state.discard([(first, min(last, first + beyond - 1))])

    def restored(self) -> None: ...


class LastValue:
    """Of each key, a message's first byte, only the last is kept available."""

    events: tuple[type[Event], ...] = (Enqueue,)
    one_by_one = False

    def __init__(self, state: QueueState) -> None:
        self._state = state
        self._last: dict[bytes, int] = {}

    def applied(self, event: Any, done: Applied, /) -> None:
        for first, last in done.positions:
            for position in range(first, last + 1):
                before = self._last.get(key := self._state.blobs[position][:1])
                if before is not None and before in self._state.available:
                    self._state.discard([(before, before)])
                self._last[key] = position

    def restored(self) -> None:
        self._last = {blob[:1]: position for position, blob in sorted(self._state.blobs.items())}


class Groups:
    """Messages of a group, which is their first byte, go to one consumer until it has settled all it holds of it."""

    events: tuple[type[Event], ...] = (Accept, Release, Evict)
    one_by_one = False

    def __init__(self, state: QueueState) -> None:
        self._state = state
        self._consumers: list[Subscription] = []
        self._refused = RangeSet()

    def attach(self, subscriptions: Mapping[int, Subscription], again: Again, /) -> None:
        self._again = again

    def took(self, subscription: Subscription, parts: list[tuple[int, int]], /) -> None: ...

    def returned(self, positions: list[tuple[int, int]], /) -> None: ...

    def allowed(self, subscription: Subscription, first: int, last: int, /) -> tuple[int, int] | None:
        if subscription.browse:
            return first, last
        if subscription not in self._consumers:
            self._consumers.append(subscription)
        taken = {self._state.blobs[p][:1] for s in self._consumers if s is not subscription for p in _held(s)}
        free = [position for position in range(first, last + 1) if self._state.blobs[position][:1] not in taken]
        for position in range(first, free[0] if free else last + 1):
            self._refused.add(position, position)
        if not free:
            return None
        end = free[0]
        while end + 1 in free:
            end += 1
        return free[0], end

    def applied(self, event: Any, done: Applied, /) -> None:
        self._again(list(self._refused))
        self._refused.assign([])

    def restored(self) -> None: ...


def _held(subscription: Subscription) -> list[int]:
    return [p for held in subscription.held.values() for first, last in held for p in range(first, last + 1)]


def priority(state: QueueState, settings: QueueSettings) -> Policies:
    order = ByPriority(state)
    return Policies(order, AnyConsumer(), (order,))


def ring(state: QueueState, settings: QueueSettings) -> Policies:
    return Policies(Fifo(state.available), AnyConsumer(), (Ring(state),))


def last_value(state: QueueState, settings: QueueSettings) -> Policies:
    return Policies(Fifo(state.available), AnyConsumer(), (LastValue(state),))


def priority_ring(state: QueueState, settings: QueueSettings) -> Policies:
    order = ByPriority(state)
    return Policies(order, AnyConsumer(), (order, Ring(state)))


def groups(state: QueueState, settings: QueueSettings) -> Policies:
    allocator = Groups(state)
    return Policies(Fifo(state.available), allocator, (allocator,))
