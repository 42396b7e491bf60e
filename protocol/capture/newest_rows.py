"""The newest rows of the event table, for who looks on: of each kind some, so that rare ones are not swept away.

They are kept as they come, whether they are in a part already or not, and cost a row little. Pure.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import Any

from .event_table import Row

OF_A_KIND = 500
"""So many rows of each kind are kept."""


class NewestRows:
    """
    Args:
        of_a_kind: so many rows of each kind are kept.
    """

    def __init__(self, of_a_kind: int = OF_A_KIND) -> None:
        self._of_a_kind = of_a_kind
        self._kept: dict[str, deque[tuple[int, Row]]] = {}

    def add(self, number: int, rows: Iterable[Row]) -> None:
        """The next rows of the table, the first of which has this number."""
        for at, row in enumerate(rows, number):
            kept = self._kept.get(row.kind)
            if kept is None:
                kept = self._kept[row.kind] = deque(maxlen=self._of_a_kind)
            kept.append((at, row))

    def find(self, kinds: Collection[str], queue: str, count: int) -> list[dict[str, Any]]:
        """The newest that fit, the newest first, by the names of their columns.

        Args:
            kinds: of these alone; none: of all.
            queue: what is in the name of their queue, exchange or policy, in capitals or not; "": of any.
            count: so many at most.
        """
        wanted = [kept for kind, kept in self._kept.items() if not kinds or kind in kinds]
        newest = heapq.merge(*map(reversed, wanted), key=lambda one: -one[0])
        fitting = filter(_named(queue.casefold()), newest)
        return [row._replace(row=number)._asdict() for number, row in islice(fitting, max(0, count))]


def _named(text: str) -> Callable[[tuple[int, Row]], bool]:
    return lambda one: text in name_of(one[1].queue).casefold()


def name_of(queue: str) -> str:
    """The name in what a row has for its queue: that of an id, "name#number"; else it is the name."""
    name, _, number = queue.rpartition("#")
    return name if name and number.isascii() and number.isdecimal() else queue
