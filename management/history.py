"""What charts show: the last minutes, hour and day of a queue, or of the whole cluster. Bounded."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
POINTS = 180
MINUTES = ""
SPANS_S = {MINUTES: 0, "hour": 20, "day": 480}
"""Span -> of how many seconds a point is the mean; 0: it is one look."""
SERIES = ("time_s", "messages", "acquired", "enqueued", "delivered", "dequeued", "age_s")
"""Unix time in seconds; two depths, in messages; three rates, in messages a second; age of the oldest, in seconds."""


class History:
    """A ring of points.

    Args:
        points: so many are kept.
    """

    __slots__ = ("_first", "_points", "_values")

    def __init__(self, points: int = POINTS) -> None:
        self._points = points
        self._values = array("d")
        self._first = 0

    def add(self, point: Iterable[float]) -> None:
        """Add one, with a value for each of `SERIES`; the oldest goes when there are too many."""
        values = array("d", point)
        if len(self._values) < self._points * len(SERIES):
            self._values += values
            return
        at = self._first * len(SERIES)
        self._values[at : at + len(SERIES)] = values
        self._first = (self._first + 1) % self._points

    def series(self) -> dict[str, list[float]]:
        """Series -> its values, from the oldest."""
        width, at = len(SERIES), self._first * len(SERIES)
        values = self._values[at:] + self._values[:at]
        return {name: list(values[number::width]) for number, name in enumerate(SERIES)}


class _Mean:
    """The mean of the points of so many seconds, and then of the next ones."""

    __slots__ = ("_count", "_number", "_step_s", "_sums")

    def __init__(self, step_s: float) -> None:
        self._step_s = step_s
        self._number = -1
        self._count = 0
        self._sums = [0.0] * len(SERIES)

    def add(self, point: Sequence[float]) -> list[float] | None:
        """With this point; that of the seconds before, if these have just ended."""
        number, ended = int(point[0] // self._step_s), None
        if number != self._number:
            ended = self.now()
            self._number, self._count, self._sums = number, 0, [0.0] * len(SERIES)
        self._count += 1
        self._sums = [one + more for one, more in zip(self._sums, point, strict=True)]
        return ended

    def now(self) -> list[float] | None:
        """That of the points that there are; None where there is none."""
        return [one / self._count for one in self._sums] if self._count else None


class LongHistory:
    """One for each of `SPANS_S`, of as many points each: every look, and means of many.

    Args:
        points: so many are kept of each.
    """

    __slots__ = ("_means", "_rings")

    def __init__(self, points: int = POINTS) -> None:
        self._rings = {span: History(points) for span in SPANS_S}
        self._means = {span: _Mean(step_s) for span, step_s in SPANS_S.items() if step_s}

    def add(self, point: Sequence[float]) -> None:
        """Add one, with a value for each of `SERIES`."""
        self._rings[MINUTES].add(point)
        for span, mean in self._means.items():
            if (ended := mean.add(point)) is not None:
                self._rings[span].add(ended)

    def series(self, span: str = MINUTES) -> dict[str, list[float]]:
        """Series -> its values, from the oldest; the last one of a longer span is of what there is of it."""
        told = self._rings[span].series()
        if span in self._means and (last := self._means[span].now()) is not None:
            for name, value in zip(SERIES, last, strict=True):
                told[name].append(value)
        return told


class Histories:
    """The histories of many queues: of those in which something happens, and of no more than a bound.

    Args:
        most: so many queues have one; whose last point is the oldest loses it to a new one.
    """

    def __init__(self, most: int = 1000, points: int = POINTS) -> None:
        self._most = most
        self._points = points
        self._of: dict[str, LongHistory] = {}

    def take(self, queues: Iterable[Row], rates: Mapping[str, Mapping[str, float]], time_s: float) -> None:
        """A look at all queues.

        Args:
            queues: rows with id, messages, acquired, age_ms.
            rates: queue id -> its rates.
        """
        there: set[str] = set()
        for queue in queues:
            key = queue["id"]
            there.add(key)
            rate = rates.get(key, {})
            known = key in self._of
            if not known and not queue.get("messages") and not any(rate.values()):
                continue
            history = self._of.pop(key, None) or LongHistory(self._points)
            self._of[key] = history  # the last in the dictionary: its last point is the newest
            history.add(point_of(queue, rate, time_s))
        for key in [key for key in self._of if key not in there]:
            del self._of[key]
        while len(self._of) > self._most:
            del self._of[next(iter(self._of))]

    def of(self, key: str, span: str = MINUTES) -> dict[str, list[float]]:
        """The series of a queue, by its id; empty ones for one without a history."""
        return self._of.get(key, _NONE).series(span)


def point_of(row: Row, rate: Mapping[str, float], time_s: float) -> tuple[float, ...]:
    """A point, from a queue's row or the sums of all queues."""
    return (
        time_s, row.get("messages", 0), row.get("acquired", 0),
        rate.get("enqueued", 0.0), rate.get("acquires", 0.0), rate.get("dequeued", 0.0), row.get("age_ms", 0) / 1000,
    )  # fmt: skip


_NONE = LongHistory(1)
