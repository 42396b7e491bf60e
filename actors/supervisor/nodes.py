"""Where a process can start: the Ray nodes that may carry brokers and answer, by name or by how many brokers they have.

Which of them is best is decided in `../../protocol/supervisor/layout.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ...protocol.errors import LocalError
from ...protocol.supervisor.layout import Node, emptiest, for_broker
from ..ray_control.placement import alive_nodes, broker_nodes
from .reach import Reach
from .record import ClusterRecord


class Nodes:
    """
    Args:
        alive: all nodes that Ray holds for alive.
    """

    def __init__(self, record: ClusterRecord, reach: Reach, alive: Callable[[], list[Node]] = alive_nodes) -> None:
        self._record = record
        self._reach = reach
        self._alive = alive

    async def answering(self) -> list[Node]:
        """The nodes that may carry brokers and answer."""
        return await self._reach.among(broker_nodes(await asyncio.to_thread(self._alive)))

    async def for_broker(self, before: str) -> Node:
        """The node it was on, if that answers; else the one with the fewest brokers."""
        return for_broker(await self.answering(), before, self._record.book.places_of_brokers())

    async def for_newcomer(self, wanted: str) -> Node:
        """A Ray node by its name; "" for the one with the fewest brokers among those that answer.

        Raises:
            LocalError: there is none of that name, or several.
        """
        if wanted:
            return self.named(wanted)
        return emptiest(await self.answering(), self._record.book.places_of_brokers())

    def find(self, id: str) -> Node | None:
        """An alive Ray node by its id."""
        return next((node for node in self._alive() if node.id == id), None)

    def named(self, wanted: str) -> Node:
        """An alive Ray node by its id, how that begins, or its address.

        Raises:
            LocalError: there is none, or several.
        """
        nodes = self._alive()
        found = [node for node in nodes if node.host == wanted or node.id.startswith(wanted)]
        if len(found) == 1:
            return found[0]
        there = ", ".join(f"{node.id[:12]} at {node.host}" for node in found or nodes)
        raise LocalError(f"{'several' if found else 'no'} Ray nodes are called {wanted!r}: name one of {there}")
