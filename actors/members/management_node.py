"""The page of a cluster: its process has a view of the cluster, looks at it again and again, and serves what asks.

It is no part of the cluster: it has no link to members, nobody waits for it, and it may die at any time. What it shows
is asked for as a program outside would ask.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any

from ...protocol.errors import LocalError
from ...protocol.status.cluster import ClusterStatus
from ...protocol.status.machines import ManagementStatus
from ...protocol.status.members import ManagementMember
from ..config import ManagementNodeConfig
from .member import MemberActor

log = logging.getLogger(__name__)


class ManagementNode(MemberActor):
    _page: Any = None  # a `Page`, once it has started

    async def start(self, config: ManagementNodeConfig, look: Callable[[], ClusterStatus]) -> dict[str, str]:
        """Look at the cluster, and serve what asks.

        Args:
            look: returns the status of the cluster; it blocks, and is called in a thread. It may be an `EventKeeper`
                as well.

        Returns:
            ``{"peers": "host:port"}``: where the page is.

        Raises:
            LocalError: it cannot listen.
        """
        from ...management.event_feed import keeper_in
        from ...management.page import Page, PlaceOfPage
        from ..ray_control.placement import dashboard
        from .ray_metrics import RayMetrics

        if self._page is not None:
            raise LocalError(f"{self!r} has been started already")
        self._log_as(config.member, config.token)
        chosen = config.management
        set_metrics = RayMetrics().set if self._fenced else lambda view: None
        there = dashboard() if self._fenced else ""
        page = Page(look, config.brokers, config.token, chosen.webhook, set_metrics, keeper_in(look), there)
        self.addresses = {"peers": await page.start(PlaceOfPage(chosen.host, chosen.port, chosen.elsewhere))}
        self._page = page
        log.info("the page is at http://%(address)s", {"address": self.addresses["peers"], "pid": os.getpid()})
        return self.addresses

    def report(self) -> ManagementMember:
        status = ManagementMember(name=self.name, role=type(self).__name__, pid=os.getpid())
        if self._page is not None:
            status.machine = ManagementStatus(**self._page.report())
        return status

    async def meet(self, peers: dict[str, str]) -> None:
        """It dials nobody."""

    async def part(self, names: list[str]) -> None:
        """It dials nobody."""

    async def hush(self) -> None:
        """The cluster stops: nothing is looked at any more."""
        await super().hush()
        if self._page is not None:
            await asyncio.wait([asyncio.ensure_future(self._page.stop())], timeout=2)
