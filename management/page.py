"""The page as a whole: a view, who feeds it, a connection, and a server. What hosts it gives it a way to look."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..protocol.status.cluster import ClusterStatus
from .app import application
from .broker_link import BrokerLink
from .server import PageServer
from .view import PARTS, ManagementView, Row
from .watcher import Watcher


class Page:
    """
    Args:
        look: returns the status of the cluster; it blocks.
        brokers: client addresses that are asked before the first look.
        token: what clients must present.
    """

    def __init__(self, look: Callable[[], ClusterStatus], brokers: Sequence[str], token: str) -> None:
        self._look = look
        self._brokers = brokers
        self._view = ManagementView()
        self._link = BrokerLink(self._addresses, token)
        self._watcher = Watcher(self._view, self._status, self._statistics)
        self._server: PageServer | None = None
        self._looking: asyncio.Task[None] | None = None

    async def start(self, host: str, port: int, elsewhere: bool = False) -> str:
        """Begin to look and to serve; returns "host:port".

        Args:
            elsewhere: another port will do as well.

        Raises:
            LocalError: it cannot listen at that host.
        """
        server = PageServer(application(self._view, self._watcher), host, port, elsewhere=elsewhere)
        address = await server.start()
        self._server = server
        self._looking = asyncio.get_running_loop().create_task(self._watcher.run(), name="looks at the cluster")
        return address

    async def stop(self) -> None:
        """Look no more, and answer nobody. Can be called again."""
        if self._looking is not None:
            self._looking.cancel()
        if self._server is not None:
            await self._server.stop()
        await self._link.close()

    def report(self) -> dict[str, Any]:
        """What it says of itself, with the fields of a `ManagementStatus`."""
        server, missed = self._server, dict(self._view.troubles)
        return {
            "address": server.address if server is not None else "", "looks": self._watcher.looks,
            "trouble": server.trouble if server is not None else "", "missed": missed,
        }  # fmt: skip

    def _addresses(self) -> list[str]:
        status = self._view.status
        return list(status.members.values()) if status is not None else list(self._brokers)

    async def _status(self) -> ClusterStatus:
        return await asyncio.to_thread(self._look)

    async def _statistics(self) -> Mapping[str, list[Row]]:
        return await self._link.ask(lambda connection: connection.statistics(*PARTS))
