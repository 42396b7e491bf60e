"""Looks after the one who looks after everybody: when the Supervisor is gone for good, a broker starts another.

Every broker keeps a copy of what a Supervisor must know, and asks Ray now and then whether the named actor is there.
The cluster works on without one; only what dies is not replaced meanwhile. That two brokers may both start one does no
harm: Ray gives the name to one of them.
"""

from __future__ import annotations

import asyncio
import logging

from .placement import SUPERVISOR, Placement

log = logging.getLogger(__name__)

LOOK_S = 2.0


class Deputy:
    """Picklable until `begin`.

    Args:
        placement: where the cluster's actors are named.
        legacy: what the next Supervisor must know (`Legacy`, packed).
        rank: how many brokers look before this one.
    """

    def __init__(self, placement: Placement, legacy: bytes, rank: int) -> None:
        self.placement = placement
        self.legacy = legacy
        self.rank = rank
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._look(), name="deputy")

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _look(self) -> None:
        missed = 0
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                there = await asyncio.to_thread(self.placement.find, SUPERVISOR)
                missed = 0 if there is not None else missed + 1
                if missed > 1 + self.rank:
                    log.warning("there is no supervisor: starting one")
                    await self._replace()
                    missed = 0
            except Exception as error:
                log.warning("looking for the supervisor failed: %r", error)

    async def _replace(self) -> None:
        from .supervisor import Supervisor

        node = await asyncio.to_thread(_this_node)
        handle = await asyncio.to_thread(
            self.placement.actor, Supervisor, SUPERVISOR, node, self.placement, True
        )  # fmt: skip
        await handle.call("resume", self.legacy)


def _this_node() -> str:
    from .placement import current_place

    return current_place()["node"]
