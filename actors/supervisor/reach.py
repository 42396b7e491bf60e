"""Which Ray nodes answer: asked before anything is started on one.

For up to a minute Ray holds a host that is cut off for alive, and what is to start there meanwhile does not. A node
with an actor that has answered a moment ago answers. Of another one that is not known: it is to run a trifle, and soon.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from ...protocol.supervisor.layout import Node

log = logging.getLogger(__name__)

FRESH_S = 3.0
"""An actor's answer speaks for its node for this long."""
TRIFLE_S = 3.0
"""A node that has no process to spare starts one first, which takes a second."""


class Reach:
    """
    Args:
        ask: runs a trifle on Ray nodes, and returns the ids of those on which it ran in time, in seconds. It blocks.
        now: the time, in seconds.
    """

    def __init__(self, ask: Callable[[list[str], float], set[str]], now: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._now = now
        self._heard: dict[str, float] = {}

    def heard(self, node: str) -> None:
        """Something on this Ray node has answered."""
        self._heard[node] = self._now()

    async def among(self, nodes: Sequence[Node]) -> list[Node]:
        """Those that answer, in the same order; all of them when none does: then Ray knows best."""
        since = self._now() - FRESH_S
        unsure = [node.id for node in nodes if self._heard.get(node.id, since) <= since]
        found = await asyncio.to_thread(self._ask, unsure, TRIFLE_S) if unsure else set[str]()
        for node in found:
            self.heard(node)
        silent = [node for node in nodes if node.id in unsure and node.id not in found]
        if silent:
            hosts = ", ".join(node.host for node in silent)
            log.warning("nothing is started on %(hosts)s: Ray's node does not answer", {"hosts": hosts})
        return [node for node in nodes if node not in silent] or list(nodes)
