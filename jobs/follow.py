"""The events as they come: of each look at the tail the rows that were not there at the last one. Without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow.compute

from ..protocol.capture.event_table import Tail, check_kinds
from ..store.events.event_parts import from_ipc
from .export import fitting

pc: Any = pyarrow.compute  # its functions are made when it loads, unknown to type checkers


class Newer(NamedTuple):
    """Attributes: rows, those that fit, in the table's order; last, the number of the last row that there is; missing,
    how many rows have come and gone since, and are only in the directory."""

    rows: list[dict[str, Any]]
    last: int
    missing: int


def newer(tail: Tail, after: int | None, queues: Sequence[str] = (), kinds: Sequence[str] = ()) -> Newer:
    """The rows behind row `after` that the tail has; None: none yet, only where it ends.

    Raises:
        LocalError: there is no such kind.
    """
    check_kinds(kinds)
    if after is None or tail.row_last <= after:
        return Newer([], max(tail.row_last, after or 0), 0)
    rows: list[dict[str, Any]] = []
    for block in tail.blocks:
        table = from_ipc(block)
        table = table.filter(pc.field("row") > after)
        rows += fitting(table, 0, 0, queues, kinds).to_pylist()
    return Newer(rows, tail.row_last, max(0, tail.row_first - 1 - after))
