"""Deeds on their way into the event table: each is a row of kind `operated` there, once, whoever dies meanwhile.

The rows of one life of this process are a stream with places, as those of a broker are. What is not said to be on disk
is told again, and who keeps the table passes over what it has. A cluster that keeps no events has only the log's lines.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from contextlib import suppress
from typing import Any

from ..protocol.capture.event_table import NOTES, OPERATED, Row
from ..protocol.errors import LocalError
from .deeds import DONE, Audit
from .event_feed import EventKeeper, first_line

GATHER_S, AGAIN_S = 0.5, 10.0
"""So long deeds gather before they are told; after so long those that are not on disk are told again."""
MOST = 1000
"""So many deeds wait at most; beyond, the oldest go."""
WHO_CHARS, DETAIL_CHARS = 200, 16_000

log = logging.getLogger(__name__)


class AuditRows:
    """
    Args:
        keeper: who keeps the event table; None: nobody can be told.
        gather_s, again_s, most: as the constants.
    """

    def __init__(
        self, keeper: EventKeeper | None, gather_s: float = GATHER_S, again_s: float = AGAIN_S, most: int = MOST
    ) -> None:
        self._keeper = keeper
        self._gather_s = gather_s
        self._again_s = again_s
        self._most = most
        self._stream = f"{NOTES}{time.time_ns()}"
        self._first = 1  # the place of the first that waits
        self._waiting: deque[Row] = deque()
        self._news = asyncio.Event()
        self.lost = 0

    def note(self, audit: Audit) -> None:
        """A deed is over, done or refused."""
        if self._keeper is None:
            return
        if len(self._waiting) >= self._most:
            self._waiting.popleft()
            self._first += 1
            self.lost += 1
            if self.lost == 1:
                log.warning("who keeps the events takes no deeds: the oldest will be lines of this log alone")
        self._waiting.append(audit_row(audit))
        self._news.set()

    async def run(self) -> None:
        """Tell of them until this is cancelled."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), self._again_s if self._waiting else None)
            await asyncio.sleep(self._gather_s)
            await self.tell()

    async def tell(self) -> None:
        """Tell of those that are not on disk, as far as is known. Nobody is harmed where that fails: they wait."""
        self._news.clear()
        if self._keeper is None or not self._waiting:
            return
        try:
            rows = [list(row) for row in self._waiting]
            written = await asyncio.to_thread(self._keeper.note, self._stream, self._first, rows)
        except (LocalError, OSError) as error:
            log.info("deeds are not in the event table yet: %(reason)s", {"reason": first_line(error)})
            return
        while self._waiting and self._first <= written:
            self._waiting.popleft()
            self._first += 1


def audit_row(audit: Audit) -> Row:
    """The row of a deed: whatever is in it, its columns can hold it."""
    given = audit.arguments
    name = next((given[key] for key in ("name", "queue", "exchange", "key", "client") if given.get(key)), "")
    told: dict[str, Any] = {"what": audit.what, "from": audit.address, "outcome": audit.outcome, "arguments": given}
    detail = _held(json.dumps(told, ensure_ascii=False, default=str), DETAIL_CHARS)
    return Row(
        part=-1, time_us=int(audit.time_s * 1e6), kind=OPERATED, queue=_held(name, WHO_CHARS),
        client=_held(audit.who, WHO_CHARS), effective=audit.outcome.startswith(DONE), detail=detail,
    )  # fmt: skip


def _held(value: object, chars: int) -> str:
    """A text that a column can hold: JSON may bring halves of characters."""
    return str(value).encode("utf-8", "replace").decode()[:chars]
