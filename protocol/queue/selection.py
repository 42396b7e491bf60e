"""The order of one consumer that does not want all: that of its queue, without what its selector does not want, or
without what its own client sent.

A message is looked at once: the place moves behind what is not wanted, and what is wanted is remembered. What came back
moves the place back, as in any order, and is looked at again; what is behind it too, but in the order of arrival, where
what had been passed is remembered. Looks are counted: a run of the queue has so many, and when they are used up nothing
comes next until another run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ranges import RangeSet
from .delivery_counts import DeliveryCounts
from .delivery_order import DeliveryOrder, Place
from .selector import Wanted
from .state import QueueState

POSITIONS = range(1 << 62)
"""Of each position, itself: what is looked at where it matters which message it is, and not only what is in it."""
TOGETHER = 64
"""At most so many that are wanted are found at a time: what is found may be taken by others before its turn."""


class Looks:
    """Of all consumers of a queue together. Attributes: left in this run; short, somebody had none left, so what comes
    next for it is not known yet."""

    __slots__ = ("left", "most", "short")

    def __init__(self, most: int) -> None:
        self.most = self.left = most
        self.short = False

    def again(self) -> None:
        """Another run begins."""
        self.left = self.most
        self.short = False


class _Reached:
    """Attributes: inner, the place in the queue's order; first, last, which are known to be wanted; unwanted, one
    behind them that is known not to be; passed, behind a place that has moved back: not wanted, or gone; life, the
    state's `deliveries` then: another one is of a state that an update has brought, of which nothing is passed."""

    __slots__ = ("first", "inner", "last", "life", "passed", "unwanted")

    def __init__(self, inner: Place) -> None:
        self.inner = inner
        self.first, self.last, self.unwanted = 1, 0, 0
        self.passed = RangeSet()
        self.life: DeliveryCounts | None = None


class Selection:
    """Args:
    order: the queue's.
    wanted: whether the consumer wants a message, by its selector; None: it has none.
    looks: of its queue.
    own: the client whose messages it does not want (`no_local`); "": it may have all.
    """

    __slots__ = ("_looks", "_order", "_seen", "_state", "_wanted")

    def __init__(
        self, state: QueueState, order: DeliveryOrder, wanted: Wanted | None, looks: Looks, own: str = ""
    ) -> None:
        self._state = state
        self._order = order
        self._looks = looks
        self._seen: Any = POSITIONS
        self._wanted: Callable[[Any], bool] = lambda position: origin_of(position) != own
        origin_of, blobs = state.origins.of, state.blobs
        if wanted is not None and own:
            self._wanted = lambda position: origin_of(position) != own and wanted(blobs[position])
        elif wanted is not None:
            self._seen, self._wanted = blobs, wanted

    def start(self, browse: bool, /) -> _Reached:
        return _Reached(self._order.start(browse))

    def next(self, place: _Reached, /) -> tuple[int, int] | None:
        while (found := self._order.next(place.inner)) is not None:
            first, last = found
            if place.passed and (known := self._passed(place).at_or_after(first)) is not None and known[0] <= last:
                if known[0] <= first:
                    place.inner = self._order.behind(place.inner, min(last, known[1]))
                    continue
                last = known[0] - 1
            if place.first <= first <= place.last:
                return first, min(last, place.last)
            if not self._look(place, first, last):
                return None
        return None

    def _look(self, place: _Reached, first: int, last: int) -> bool:
        """Look at what comes next, up to what is wanted. False: no look is left."""
        wanted, seen, looks = self._wanted, self._seen, self._looks
        position = first + (first == place.unwanted)
        end = min(last, position + looks.left - 1)
        begin = position
        while position <= end and not wanted(seen[position]):
            position += 1
        if position > end:
            looks.left -= position - begin
            if position > first:
                place.inner = self._order.behind(place.inner, position - 1)
            looks.short = looks.short or position <= last
            return position > last
        if position > first:
            place.inner = self._order.behind(place.inner, position - 1)
        place.first = place.last = position
        end = min(end, position + TOGETHER - 1)
        while place.last < end and wanted(seen[place.last + 1]):
            place.last += 1
        place.unwanted = place.last + 1 if place.last < end else 0
        looks.left -= place.last - begin + 1 + (place.unwanted > 0)
        return True

    def behind(self, place: _Reached, last: int, given: bool = False, /) -> _Reached:
        place.inner = self._order.behind(place.inner, last, given)
        return place

    def back(self, place: _Reached, positions: list[tuple[int, int]], /) -> _Reached:
        before = place.inner
        place.inner = self._order.back(before, positions)
        if isinstance(before, int):
            passed = self._passed(place)
            passed.remove(0, place.inner - 1)  # it will not be there again, or is passed anew
            if place.inner < before:
                passed.add(place.inner, before - 1)
            for first, last in positions:
                passed.remove(first, last)
        return place

    def _passed(self, place: _Reached) -> RangeSet:
        if place.life is not self._state.deliveries:
            place.life = self._state.deliveries
            place.passed = RangeSet()
        return place.passed
