"""The page as a whole: a view, who feeds it, a connection, and a server. What hosts it gives it a way to look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ..protocol.status.cluster import ClusterStatus
from . import audit_log
from .announcements import Announcements
from .app import application
from .audit_rows import AuditRows
from .broker_link import BrokerLink
from .deeds import Audit, Deeds
from .event_feed import EventFeed, EventKeeper
from .http.access import Access
from .server import PageServer
from .view import ManagementView, Row
from .watcher import Watcher

LAST_S = 1.0
"""So long the last deeds are told while it stops."""


class PlaceOfPage(NamedTuple):
    """Where it listens. Attributes: host, port; elsewhere: another port will do as well."""

    host: str
    port: int
    elsewhere: bool = False


class Page:
    """
    Args:
        look: returns the status of the cluster; it blocks.
        brokers: client addresses that are asked before the first look.
        token: what clients must present, and who asks here.
        webhook: address that changes of alerts are posted to; "": none.
        looked: called with the view after each look.
        keeper: who keeps the event table, and can be asked for it; None: nobody can.
        dashboard: "host:port" of Ray's, which pages lead to; "": there is none.

    Raises:
        LocalError: the webhook is no address.
    """

    def __init__(
        self, look: Callable[[], ClusterStatus], brokers: Sequence[str], token: str, webhook: str = "",
        looked: Callable[[ManagementView], None] = lambda view: None, keeper: EventKeeper | None = None,
        dashboard: str = "",
    ) -> None:  # fmt: skip
        self._look = look
        self._brokers = brokers
        self._token = token
        self._tells_others = looked
        self._feed = EventFeed(keeper)
        self._audit_rows = AuditRows(keeper)
        self._announcements = Announcements(webhook)
        self._view = ManagementView()
        self._view.dashboard = dashboard
        self._link = BrokerLink(self._addresses, token)
        self._watcher = Watcher(self._view, self._status, self._statistics, looked=self._looked)
        self._server: PageServer | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, place: PlaceOfPage) -> str:
        """Begin to look and to serve; returns "host:port".

        Raises:
            LocalError: it cannot listen at that host, or may not without a token.
        """
        access, deeds = Access((place.host,), self._token), Deeds(self._link, self._audited, token=self._token)
        app = application(self._view, self._watcher, deeds, access, self._feed)
        server = PageServer(app, place.host, place.port, elsewhere=place.elsewhere)
        address = await server.start()
        self._server = server
        loop = asyncio.get_running_loop()
        self._tasks.append(loop.create_task(self._watcher.run(), name="looks at the cluster"))
        self._tasks.append(loop.create_task(self._audit_rows.run(), name="tells of deeds"))
        return address

    async def stop(self) -> None:
        """Look no more, and answer nobody. Can be called again."""
        for task in self._tasks:
            task.cancel()
        self._announcements.close()
        if self._server is not None:
            await self._server.stop()
        await self._link.close()
        await asyncio.wait([asyncio.ensure_future(self._audit_rows.tell())], timeout=LAST_S)

    def report(self) -> dict[str, Any]:
        """What it says of itself, with the fields of a `ManagementStatus`."""
        server, missed = self._server, dict(self._view.troubles)
        return {
            "address": server.address if server is not None else "", "looks": self._watcher.looks,
            "trouble": server.trouble if server is not None else "", "missed": missed,
        }  # fmt: skip

    def _audited(self, audit: Audit) -> None:
        audit_log.note(audit)
        self._audit_rows.note(audit)

    def _looked(self) -> None:
        self._announcements.looked(self._view)
        self._tells_others(self._view)

    def _addresses(self) -> list[str]:
        status = self._view.status
        return list(status.members.values()) if status is not None else list(self._brokers)

    async def _status(self) -> ClusterStatus:
        return await asyncio.to_thread(self._look)

    async def _statistics(self) -> Mapping[str, list[Row]]:
        # Of all parts that its broker has: one of an older version knows fewer.
        return await self._link.ask(lambda connection: connection.statistics())
