"""Who keeps the events of a cluster that never ran."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mantamq.protocol.capture.event_table import Row
from mantamq.protocol.capture.newest_rows import NewestRows

from .. import made_up_status as made
from .made_up_view import NOW_S

US = int(NOW_S * 1_000_000)
EVIL = "<script>alert(1)</script>"
ROWS = (
    Row(kind="declare_queue", queue=made.ORDERS, broker="b1", detail='{"max_count":100000}'),
    Row(kind="put_policy", queue=EVIL, broker="b1", detail='{"pattern":"<b>"}'),
    Row(kind="connect", broker="b2", client=EVIL, part=-1),
    Row(kind="enqueue", queue=made.ORDERS, client="c1 orders", position_first=1, position_last=500, count=500, bytes=2048),
    Row(kind="own", queue=made.ORDERS, broker="b2", detail="b1", grant=4),
    Row(kind="acquire", queue=made.ORDERS, broker="b2", position_first=7, position_last=7, count=1, effective=False),
    Row(kind="hand_over", queue=made.ORDERS, broker="b2", detail="b1", value=3_400, part=-1),
    Row(kind="redelivery", queue="gone#4", broker="b1", position_first=3, position_last=3, count=1, value=2, part=-1),
    Row(kind="dropped", broker="events", value=1200, detail="orders#1", part=-1),
    Row(kind="disconnect", broker="b2", client="c1", detail=EVIL * 40, part=-1),
)  # fmt: skip


class MadeUpKeeper:
    """As an `EventKeeper`.

    Args:
        wrong: what it raises instead.

    Attributes:
        told: stream -> place -> the row that it was told.
        written: what it answers: up to which place all is on disk.
    """

    def __init__(self, wrong: Exception | None = None) -> None:
        self.wrong = wrong
        self.asked: list[tuple[tuple[str, ...], str, int]] = []
        self.written = 0
        self.told: dict[str, dict[int, Row]] = {}
        self._rows = NewestRows()
        self._count = 0
        self.happened(*ROWS)

    def happened(self, *rows: Row) -> None:
        """There are further rows."""
        self._rows.add(self._count + 1, [row._replace(time_us=US + self._count) for row in rows])
        self._count += len(rows)

    def newest(self, kinds: Sequence[str], queue: str, count: int) -> list[dict[str, Any]]:
        self.asked.append((tuple(kinds), queue, count))
        if self.wrong is not None:
            raise self.wrong
        return self._rows.find(kinds, queue, count)

    def note(self, stream: str, first: int, rows: list[list[Any]]) -> int:
        if self.wrong is not None:
            raise self.wrong
        there = self.told.setdefault(stream, {})
        for place, row in enumerate(rows, first):
            assert there.setdefault(place, Row(*row)) == Row(*row), "a place is one row"
        return self.written
