"""Looks at a cluster again and again: more often while somebody watches, and less often where looks take long."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from ..client.errors import MantaError
from ..protocol.errors import LocalError
from ..protocol.status.cluster import ClusterStatus
from .view import ManagementView, Row, Sample

WATCHED_S, QUIET_S = 1.0, 10.0
"""From look to look: while somebody watches, and else."""
MEMBERS_S = 2.0
"""Members are asked how they are at most so often: each of them is asked alone, and answers beside its work. What moves
each second, queues, connections and locks, the brokers tell in one answer."""
WATCHED_FOR_S = 15.0
SHARE = 0.05
"""Looks take this part of the time at most: a large cluster is looked at less often, but after ten seconds anyway, for
what is shown and `/health` go by the last look. Of two looks the shorter one says how long they take: one that was held
up, by a member that does not answer, says nothing of the next."""
PATIENCE_S = 10.0
FRESH_S = 2.0
"""So long somebody waits for a look."""

log = logging.getLogger(__name__)

AskStatus = Callable[[], Awaitable[ClusterStatus]]
AskStatistics = Callable[[], Awaitable[Mapping[str, list[Row]]]]


class Watcher:
    """Feeds a view.

    Args:
        view: that of this process.
        status: asks for the status of the members.
        statistics: asks for the statistics of all parts.
        clock: never goes back; seconds.
        patience_s: so long an answer is waited for.
        looked: called after each look; what it raises is logged.
    """

    def __init__(
        self, view: ManagementView, status: AskStatus, statistics: AskStatistics,
        clock: Callable[[], float] = time.monotonic, patience_s: float = PATIENCE_S,
        looked: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        self._view = view
        self._status = status
        self._statistics = statistics
        self._clock = clock
        self._patience_s = patience_s
        self._looked = looked
        self._watched_s = -WATCHED_FOR_S
        self._wanted = asyncio.Event()
        self._next_s = 0.0
        self._took_s = 0.0, 0.0  # of the last two looks that asked members
        self._looking = asyncio.Lock()
        self._began_s = -WATCHED_FOR_S
        self._members_s = -MEMBERS_S
        self._asked_for: asyncio.Task[None] | None = None
        self.looks = 0

    def watched(self) -> None:
        """Somebody has looked: for some seconds there is a look each second, from now on."""
        self._watched_s = self._clock()
        self._wanted.set()

    async def fresh(self) -> None:
        """Somebody looks, and is to see what is so now: wait for a look where the last one is older than a second, but
        not for long, and not where looks take so long that they are rare. How members are is older by a second more."""
        self.watched()
        now_s = self._clock()
        if now_s - self._began_s < WATCHED_S or now_s < self._next_s:
            return
        if self._asked_for is None or self._asked_for.done():
            self._asked_for = asyncio.get_running_loop().create_task(self.look(), name="a look that somebody waits for")
        await asyncio.wait([self._asked_for], timeout=FRESH_S)

    async def run(self) -> None:
        """Look until this is cancelled."""
        while True:
            await self.look()
            await self._rest()

    async def look(self) -> None:
        """Look once, after a look that is under way: a view never gets an older look than it has. What is not to be
        had is a trouble of the view, and no error."""
        async with self._looking:
            await self._look()

    async def _look(self) -> None:
        began_s = self._began_s = self._clock()
        troubles: dict[str, str] = {}
        members = began_s - self._members_s > MEMBERS_S - WATCHED_S / 2
        rows = self._asked("statistics", self._statistics, troubles)
        if members:
            self._members_s = began_s
            statistics, status = await asyncio.gather(rows, self._asked("status", self._status, troubles))
        else:
            statistics, status = await rows, None
        if "status" in troubles:
            self._members_s = -MEMBERS_S  # whoever was not heard is asked at each look
        ended_s = self._clock()
        self._view.take(Sample(ended_s, time.time(), status, statistics or {}, troubles))
        self.looks += 1
        try:
            self._looked()
        except Exception:
            log.exception("what was seen could not be told on")
        if members:
            self._took_s = self._took_s[1], ended_s - began_s
        self._next_s = ended_s + min(min(self._took_s) * (1 / SHARE - 1), QUIET_S)

    async def _asked(self, what: str, ask: Callable[[], Awaitable[Any]], troubles: dict[str, str]) -> Any:
        try:
            return await asyncio.wait_for(ask(), self._patience_s)
        except TimeoutError:
            troubles[what] = f"no answer within {self._patience_s:g} s"
        except (MantaError, LocalError, OSError) as error:
            troubles[what] = str(error) or type(error).__name__
        except Exception as error:  # it would end all looks, and what was seen last would be shown as what is
            log.exception("%(what)s could not be asked for", {"what": what})
            troubles[what] = f"{type(error).__name__}: {error}"
        return None

    async def _rest(self) -> None:
        """Until the next look is due: sooner, once somebody watches."""
        began_s = self._clock()
        while True:
            now_s = self._clock()
            every_s = WATCHED_S if now_s - self._watched_s < WATCHED_FOR_S else QUIET_S
            left_s = max(began_s + every_s, self._next_s) - now_s
            if left_s <= 0:
                return
            self._wanted.clear()
            try:
                await asyncio.wait_for(self._wanted.wait(), left_s)
            except TimeoutError:
                return
