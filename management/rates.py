"""How fast counters grow: per second, from one look to the next. The one place where rates are computed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]


class Rates:
    """The rates of one kind of rows.

    Args:
        counters: the fields that count.
        key: what a row is known by from look to look.
    """

    def __init__(self, counters: Iterable[str], key: Callable[[Row], str]) -> None:
        self._counters = tuple(counters)
        self._key = key
        self._at_s = 0.0
        self._counts: dict[str, tuple[int, ...]] = {}
        self._rates: dict[str, dict[str, float]] = {}

    def take(self, rows: Iterable[Row], at_s: float) -> None:
        """Look at all rows.

        Args:
            at_s: when they were true, by a clock that never goes back; a look at the same time as the last counts as
                that one.
        """
        passed_s = at_s - self._at_s
        if self._counts and passed_s <= 0:
            return
        before, counts, rates = self._counts, {}, {}
        for row in rows:
            key = self._key(row)
            now = counts[key] = tuple(row.get(counter, 0) for counter in self._counters)
            if (then := before.get(key)) is not None:
                # What has become less was counted by another: a process that has begun anew.
                rates[key] = {
                    counter: max(0, new - old) / passed_s
                    for counter, new, old in zip(self._counters, now, then, strict=True)
                }
        self._at_s, self._counts, self._rates = at_s, counts, rates

    def of(self, row: Row) -> dict[str, float]:
        """Counter -> how many a second; empty for what was not there at the look before."""
        return self._rates.get(self._key(row), {})
