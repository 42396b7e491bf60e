"""Labels that stay few: the largest rows go by their names, all others are one, and counters only go up."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import add, sub
from typing import Any

Row = dict[str, Any]
Values = Iterator[tuple[str, float]]
"""Label and value, for each label."""
Combine = Callable[[Iterable[float]], float]
"""How the values of all others come to one: `sum`, or `max`."""

MOST = 100
"""So many rows of a kind have a label of their own."""
OTHER = "other"
"""The label of all the others. A row of that very name is always one of them."""
STAY = 2
"""Who has a label gives it up only for one that is so many times as large: else labels would come and go."""


class BoundedRows:
    """The rows of one kind, and what their counters have come to.

    A counter of a label never goes down, whatever becomes of the rows: what has become less was counted anew, or by
    another process, and is gone on from. The count of all others begins at 0 with the first look, and takes in what
    each of them grows by while it is one of them: it does not jump when a row gets a label, loses it or is deleted.

    Args:
        label: the field with the name. key: the field by which a row is known from look to look.
        counters: the fields that count.
        sizes: what makes a row large, each by itself: each chooses the same share of the labels.
        most: so many labels there are besides `OTHER`.
    """

    def __init__(
        self, label: str, key: str, counters: Iterable[str], sizes: Sequence[Callable[[Row], float]], most: int = MOST
    ) -> None:
        self._label, self._key, self._sizes, self._most = label, key, sizes, most
        self._columns = {counter: index for index, counter in enumerate(counters)}
        self._last: dict[str, tuple[float, ...]] = {}
        self._own: dict[str, tuple[float, ...]] = {}
        self._others: tuple[float, ...] | None = None
        self._first = True
        self._named: dict[str, Row] = {}
        self._hidden: list[Row] = []

    def take(self, rows: Iterable[Row], alike: bool = True) -> None:
        """Have all rows of a newer look.

        Args:
            alike: they were counted by the same processes as at the look before. If not, what lies between says
                nothing, and counters stand still for this look.
        """
        everyone = list(rows)
        chosen = self._chosen(everyone)
        self._named = {row[self._key]: row for row in everyone if row[self._key] in chosen}
        self._hidden = [row for row in everyone if row[self._key] not in chosen]
        if self._hidden and self._others is None:
            self._others = self._zeros()
        self._count(everyone, alike)
        self._first = self._first and not everyone

    def _chosen(self, rows: list[Row]) -> set[str]:
        may_be = [row for row in rows if row[self._label] != OTHER]
        chosen: set[str] = set()
        if len(may_be) <= self._most:
            return {row[self._key] for row in may_be}
        for index, size in enumerate(self._sizes):
            share = (self._most - len(chosen)) // (len(self._sizes) - index)
            left = [row for row in may_be if row[self._key] not in chosen]
            largest = heapq.nlargest(share, left, key=lambda row: self._rank(row, size))
            chosen |= {row[self._key] for row in largest}
        return chosen

    def _rank(self, row: Row, size: Callable[[Row], float]) -> tuple[float, bool]:
        named = row[self._key] in self._named
        return size(row) * (STAY if named else 1), named

    def _zeros(self) -> tuple[float, ...]:
        return (0,) * len(self._columns)

    def _count(self, rows: list[Row], alike: bool) -> None:
        last, own = {}, {}
        for row in rows:
            key = row[self._key]
            before = self._last.get(key)
            now: tuple[Any, ...] = tuple(map(row.get, self._columns))
            if None in now:  # what is not said is as it was
                now = tuple(old if new is None else new for new, old in zip(now, before or self._zeros(), strict=True))
            last[key] = now
            grown = self._grown(now, before if alike else before and now)
            if key in self._named:
                mine = self._own.get(key)
                own[key] = now if mine is None else _sum(mine, grown)
            else:
                self._others = _sum(self._others or self._zeros(), grown)
                if key in self._own:
                    own[key] = self._own[key]  # goes on from there, should it have a label again
        self._last, self._own = last, own

    def _grown(self, now: tuple[float, ...], before: tuple[float, ...] | None) -> tuple[float, ...]:
        """By how much since the look before; all of it for what was not there then."""
        if now == before or (before is None and self._first):
            return self._zeros()
        if before is None:
            return now
        grown = tuple(map(sub, now, before))
        return grown if min(grown) >= 0 else tuple(max(0, one) for one in grown)

    def labels(self) -> list[str]:
        """All labels there are now."""
        return [row[self._label] for row in self._named.values()] + ([OTHER] if self._others is not None else [])

    def counts(self, counter: str) -> Values:
        """What a counter has come to."""
        column = self._columns[counter]
        for key, row in self._named.items():
            yield row[self._label], self._own[key][column]
        if self._others is not None:
            yield OTHER, self._others[column]

    def gauges(self, field: str, combine: Combine = sum, scale: float = 1) -> Values:
        """A field now, times `scale`; nothing of a row that does not say it."""
        for row in self._named.values():
            if (value := row.get(field)) is not None:
                yield row[self._label], value * scale
        found = [value for row in self._hidden if (value := row.get(field)) is not None]
        if self._hidden:
            yield OTHER, combine(found or (0,)) * scale


def _sum(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(map(add, one, other))
