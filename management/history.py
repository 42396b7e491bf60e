"""What charts show: the last minutes of a queue, or of the whole cluster, a point for each look. Bounded."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Any

Row = Mapping[str, Any]
POINTS = 180
SERIES = ("time_s", "messages", "acquired", "enqueued", "dequeued", "age_s")
"""Unix time in seconds; two depths, in messages; two rates, in messages a second; age of the oldest, in seconds."""


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


class Histories:
    """The histories of many queues: of those in which something happens, and of no more than a bound.

    Args:
        most: so many queues have one; whose last point is the oldest loses it to a new one.
    """

    def __init__(self, most: int = 1000, points: int = POINTS) -> None:
        self._most = most
        self._points = points
        self._of: dict[str, History] = {}

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
            history = self._of.pop(key, None) or History(self._points)
            self._of[key] = history  # the last in the dictionary: its last point is the newest
            history.add(point_of(queue, rate, time_s))
        for key in [key for key in self._of if key not in there]:
            del self._of[key]
        while len(self._of) > self._most:
            del self._of[next(iter(self._of))]

    def of(self, key: str) -> dict[str, list[float]]:
        """The series of a queue, by its id; empty ones for one without a history."""
        return self._of.get(key, _NONE).series()


def point_of(row: Row, rate: Mapping[str, float], time_s: float) -> tuple[float, ...]:
    """A point, from a queue's row or the sums of all queues."""
    return (
        time_s, row.get("messages", 0), row.get("acquired", 0),
        rate.get("enqueued", 0.0), rate.get("dequeued", 0.0), row.get("age_ms", 0) / 1000,
    )  # fmt: skip


_NONE = History(1)
