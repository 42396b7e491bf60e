"""Message groups: a group belongs to the consumer that holds one of its messages, until all that it holds of it is
settled, as Qpid has them. A message that waits for that blocks its own group only.

Which messages are held is replicated; which consumer of this broker holds them is not, and of consumers elsewhere it is
enough to know that they do. So a group stays with its consumer when the consume lock moves.

A consumer that passes over a message, since its group is another's, does not look at it again until the group is free:
then it is offered the first of what it has passed over, and the next when it takes that. So what waits in a blocked
group costs each consumer one look, however often the group changes hands.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from ..ranges import RangeSet
from ..wire.events import (
    Accept,
    Acquire,
    Enqueue,
    Event,
    Evict,
    Expire,
    Member,
    Modify,
    Purge,
    Reject,
    Rejoin,
    Release,
    Return,
)
from .allocator import Again
from .applied import Applied
from .state import QueueState
from .subscription import Subscription
from .traits import Trait, traits

FORGET = 1_000
"""MessageGroups of messages that are gone are forgotten when there are as many more of them as there are messages."""


class _Place:
    """A consumer's place. Attributes: position, no message before it is of interest but those that it has passed over
    and may look at again: of each such group the first."""

    __slots__ = ("_again", "_firsts", "position")

    def __init__(self) -> None:
        self.position = 1
        self._firsts: dict[str, int] = {}
        self._again: list[tuple[int, str]] = []  # a heap; an entry counts that is in `_firsts`

    def look_again(self, position: int, group: str) -> None:
        if position < self._firsts.get(group, position + 1):
            self._firsts[group] = position
            heapq.heappush(self._again, (position, group))

    def first(self) -> tuple[int, str] | None:
        """The first that it may look at again, and its group."""
        again = self._again
        while again and self._firsts.get(again[0][1]) != again[0][0]:
            heapq.heappop(again)
        return again[0] if again else None

    def drop(self, group: str) -> None:
        del self._firsts[group]


class _Owner:
    """Whose a group is. Attributes: subscription (None: a consumer at another broker), positions it holds of it."""

    __slots__ = ("positions", "subscription")

    def __init__(self, subscription: Subscription | None) -> None:
        self.subscription = subscription
        self.positions: set[int] = set()


class MessageGroups:
    """The order, the allocator and a part of the state of a queue with groups."""

    __slots__ = ("_group_of", "_names", "_owners", "_passed", "_state", "_subscriptions", "_trait")

    events: tuple[type[Event], ...] = (
        Enqueue, Acquire, Accept, Release, Reject, Expire, Purge, Evict, Rejoin, Return, Member, Modify,
    )  # fmt: skip
    one_by_one = False

    def __init__(self, state: QueueState, trait: Trait) -> None:
        self._state = state
        self._trait = trait
        self._subscriptions: Mapping[int, Subscription] = {}
        self._group_of: dict[int, str] = {}
        self._names: dict[str, str] = {}  # itself: each is kept once, and a million messages may be of a few groups
        self._owners: dict[str, _Owner] = {}
        self._passed: defaultdict[str, RangeSet] = defaultdict(RangeSet)  # group -> what somebody has passed over

    # ---- part of the state

    def applied(self, event: Any, done: Applied, /) -> None:
        kind = type(event)
        if kind is Enqueue:
            for first, last in done.positions:
                found = traits(event, last - first + 1, self._trait)
                names = [self._names.setdefault(name, name) for name in found]
                self._group_of.update(zip(range(first, last + 1), names, strict=True))
        elif kind is Acquire and not event.accepted:
            for first, last in done.positions:
                for position in range(first, last + 1):
                    self._hold(position, None)
        elif done.positions:
            self._let_go(done.positions)
        if done.dropped:
            self._let_go([(first, last) for first, last, _ in done.dropped])
        if done.aside:  # a consumer here may have been given some of it, and the acquire not be ordered yet
            self._let_go(done.aside)
        if len(self._group_of) > 2 * len(self._state.blobs) + FORGET:
            self._group_of = {position: self._group_of[position] for position in self._state.blobs}
            self._share()

    def _share(self) -> None:
        """Have each name once, and none that no message has."""
        names = self._names = {name: name for name in self._group_of.values()}
        self._group_of = {position: names[name] for position, name in self._group_of.items()}

    def _hold(self, position: int, subscription: Subscription | None) -> None:
        group = self._group_of[position]
        owner = self._owners.get(group)
        if owner is None:
            owner = self._owners[group] = _Owner(subscription)
        owner.positions.add(position)

    def _let_go(self, ranges: list[tuple[int, int]]) -> None:
        """Nobody holds these any more, if anybody did."""
        owners, group_of = self._owners, self._group_of
        for first, last in ranges:
            for position in range(first, last + 1):
                group = group_of[position]
                owner = owners.get(group)
                if owner is not None and position in owner.positions:
                    owner.positions.remove(position)
                    if not owner.positions:
                        del owners[group]
                        self._freed(group)

    def restored(self) -> None:
        state, trait = self._state, self._trait
        self._group_of = {position: trait(blob) for position, blob in state.blobs.items()}
        self._share()
        self._owners = {}
        self._passed.clear()
        mine = {
            position: subscription
            for subscription in self._subscriptions.values()
            for held in subscription.held.values()
            for first, last in held
            for position in range(first, last + 1)
        }
        for held in state.acquired.values():
            for first, last in held:
                for position in range(first, last + 1):
                    self._hold(position, mine.get(position))
        for subscription in self._subscriptions.values():
            if isinstance(subscription.place, _Place):
                subscription.place = _Place()

    def group_of(self, position: int) -> str:
        """The group of a message that is not gone."""
        return self._group_of[position]

    # ---- the allocator

    def attach(self, subscriptions: Mapping[int, Subscription], again: Again, /) -> None:
        self._subscriptions = subscriptions

    def allowed(self, subscription: Subscription, first: int, last: int, /) -> tuple[int, int] | None:
        if subscription.browse:
            return first, last
        owners, group_of = self._owners, self._group_of
        begin = 0
        for position in range(first, last + 1):
            group = group_of[position]
            owner = owners.get(group)
            if owner is None or owner.subscription is subscription:
                begin = begin or position
            elif begin:
                return begin, position - 1
            else:
                self._passed[group].add(position, position)
        return (begin, last) if begin else None

    def took(self, subscription: Subscription, parts: list[tuple[int, int]], /) -> None:
        if not subscription.browse:
            for first, last in parts:
                for position in range(first, last + 1):
                    self._hold(position, subscription)

    def returned(self, positions: list[tuple[int, int]], /) -> None:
        self._let_go(positions)

    # ---- the order

    def start(self, browse: bool, /) -> int | _Place:
        return 1 if browse else _Place()

    def next(self, place: Any, /) -> tuple[int, int] | None:
        available = self._state.available
        if isinstance(place, int):
            return available.at_or_after(place)
        while (first := place.first()) is not None:
            if first[0] in available:
                return first[0], first[0]
            self._further(place, *first)
        return available.at_or_after(place.position)

    def behind(self, place: Any, last: int, given: bool = False, /) -> Any:
        if isinstance(place, int):
            return last + 1
        first = place.first()
        if first is not None and first[0] == last:
            self._further(place, *first)
        elif last >= place.position:
            place.position = last + 1
        return place

    def back(self, place: Any, positions: list[tuple[int, int]], /) -> Any:
        if isinstance(place, int):
            return min(place, positions[0][0])
        firsts: dict[str, int] = {}
        for first, last in positions:
            for position in range(first, min(last, place.position - 1) + 1):
                group = self._group_of[position]
                self._passed[group].add(position, position)
                firsts.setdefault(group, position)
        for group, position in firsts.items():
            place.look_again(position, group)
        return place

    def _further(self, place: _Place, position: int, group: str) -> None:
        """A consumer is done with the first of what it looks at again: the next of that group follows, unless the group
        is another's by now."""
        place.drop(group)
        owner = self._owners.get(group)
        if owner is not None and (owner.subscription is None or owner.subscription.place is not place):
            return
        if found := self._first(group, position + 1, place):
            place.look_again(found, group)

    def _first(self, group: str, position: int, place: _Place) -> int:
        """The first message of a group from `position` on that waits and was passed by this place; 0: there is none."""
        passed = self._passed.get(group)
        if passed is None:
            return 0
        available = self._state.available
        while (part := passed.at_or_after(position)) is not None and part[0] < place.position:
            found = available.at_or_after(part[0])
            if found is None:
                return 0
            if found[0] <= part[1]:
                return found[0] if found[0] < place.position else 0
            passed.remove(*part)
            position = part[1] + 1
        return 0

    def _freed(self, group: str) -> None:
        """A group is nobody's: who has passed over some of it may look at the first."""
        if group not in self._passed:
            return
        for subscription in self._subscriptions.values():
            place = subscription.place
            if isinstance(place, _Place) and (found := self._first(group, 1, place)):
                place.look_again(found, group)
        if not self._passed[group]:
            del self._passed[group]


def held_groups(state: QueueState) -> dict[str, tuple[int, str]] | None:
    """Group -> (how many of its messages are held, at which broker), of those that a consumer holds; None: the queue
    has no groups."""
    policy = next((policy for policy in state.policies if isinstance(policy, MessageGroups)), None)
    if policy is None:
        return None
    found: dict[str, tuple[int, str]] = {}
    for (broker, _, _), held in state.acquired.items():
        for first, last in held:
            for position in range(first, last + 1):
                group = policy.group_of(position)
                found[group] = found.get(group, (0, ""))[0] + 1, broker
    return found
