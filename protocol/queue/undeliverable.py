"""The order of one consumer that has given messages back as undeliverable to itself: that of before, without those."""

from __future__ import annotations

from ..ranges import RangeSet, subtract
from .delivery_order import DeliveryOrder, Place
from .dispatch import Dispatcher
from .state import QueueState

LOOK_AFTER = 64
"""Ranges of messages that are gone are forgotten when the ranges are at least so many, and twice what was left then."""


class _Passed:
    """Attributes: inner, the place in the order of before."""

    __slots__ = ("inner",)

    def __init__(self, inner: Place) -> None:
        self.inner = inner


class Without:
    """Args: order, of before. Attributes: positions, that are not offered."""

    __slots__ = ("_look_at", "_order", "_state", "positions")

    def __init__(self, state: QueueState, order: DeliveryOrder) -> None:
        self._state = state
        self._order = order
        self._look_at = LOOK_AFTER
        self.positions = RangeSet()

    def add(self, ranges: list[tuple[int, int]]) -> None:
        positions = self.positions
        for first, last in ranges:
            positions.add(first, last)
        if len(positions) >= self._look_at:
            live = self._state.live()
            kept = RangeSet()
            for first, last in positions:
                for a, b in live.within(first, last):
                    kept.add(a, b)
            self.positions = kept
            self._look_at = max(LOOK_AFTER, 2 * len(kept))

    def start(self, browse: bool, /) -> _Passed:
        return _Passed(self._order.start(browse))

    def next(self, place: _Passed, /) -> tuple[int, int] | None:
        while (found := self._order.next(place.inner)) is not None:
            first, last = found
            free = subtract(first, last, self.positions.within(first, last))
            if free and free[0][0] == first:
                return free[0]
            place.inner = self._order.behind(place.inner, free[0][0] - 1 if free else last)
        return None

    def behind(self, place: _Passed, last: int, given: bool = False, /) -> _Passed:
        place.inner = self._order.behind(place.inner, last, given)
        return place

    def back(self, place: _Passed, positions: list[tuple[int, int]], /) -> _Passed:
        place.inner = self._order.back(place.inner, positions)
        return place


def leave_out(dispatcher: Dispatcher, sub: int, ranges: list[tuple[int, int]]) -> None:
    """A subscription is not offered these messages any more."""
    subscription = dispatcher.subscriptions.get(sub)
    if subscription is None:
        return
    order = subscription.order
    if not isinstance(order, Without):
        order = Without(dispatcher.state, order)
        subscription.place = _Passed(subscription.place)
        subscription.order = order
    order.add(ranges)
    dispatcher.follows = True
