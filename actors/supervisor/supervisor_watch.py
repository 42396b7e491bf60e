"""When the supervisor is gone, or out of reach, a broker starts another.

Every broker keeps a copy of what a Supervisor must know. It asks Ray now and then whether there is a supervisor by
name; and it knows how long ago the one in office has asked it for confirmation. When the name is gone, or a majority of
the brokers has not been asked for a while (the supervisor's host is cut off: Ray holds it for alive for a minute yet),
one of them starts the next, under another name if the old one is still taken. That two may do so at once does no harm:
the brokers give the number to one of them (`../../protocol/supervisor/office.py`), and the others, like the one that
was cut off, end themselves. The cluster works on without any; only what dies is not replaced meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import time
from typing import Any, Protocol

from ...protocol.supervisor.office import Office
from ..config import Config
from ..ray_control.placement import SUPERVISOR, Placement, is_supervisor
from ..ray_control.ray_handles import Handle

log = logging.getLogger(__name__)

LOOK_S = 2.0
ASK_S = 1.5


class Broker(Protocol):
    """The broker that looks."""

    name: str
    office: Office

    async def supervisor_silent(self) -> tuple[int, int]: ...


class WatchConfig(Config, frozen=True, kw_only=True):
    """Attributes:
    placement: where the cluster's actors are named.
    state: what the next Supervisor must know (`SupervisorState`, packed).
    rank: how many brokers look before this one.
    brokers: all of them.
    successor: the class of the next Supervisor, pickled: unpacking it imports all that a Supervisor needs.
    """

    placement: Placement
    state: bytes
    rank: int
    brokers: tuple[str, ...]
    successor: bytes


class SupervisorWatch:
    """Looks from its making on, until it is closed."""

    def __init__(self, config: WatchConfig, broker: Broker) -> None:
        self.config = config
        self._broker = broker
        self._task = asyncio.get_running_loop().create_task(self._look(), name="watch")

    def close(self) -> None:
        self._task.cancel()

    async def _look(self) -> None:
        missed = 0
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                there = await asyncio.to_thread(self._there)
                missed = 0 if there else missed + 1
                if missed > 1 + self.config.rank:
                    log.warning("there is no supervisor: starting one")
                    await self._replace(SUPERVISOR)
                    missed = 0
                elif there and await self._out_of_reach():
                    log.warning("a majority of the brokers hears nothing of the supervisor: starting another")
                    await self._replace(f"{SUPERVISOR}{self._broker.office.holder.number + 1}")
            except Exception as error:
                log.warning("looking for the supervisor failed: %(reason)r", {"reason": error})

    def _there(self) -> bool:
        return any(is_supervisor(name) for name in self.config.placement.names())

    async def _out_of_reach(self) -> bool:
        """Whether the supervisor has been silent here, and at so many others that they are a majority with us."""
        broker, config = self._broker, self.config
        _, silent_ms = await broker.supervisor_silent()
        if silent_ms < broker.office.timing.supervisor_silent_ms:
            return False
        others = [name for name in config.brokers if name != broker.name]
        answers = await asyncio.gather(*(self._ask(name) for name in others), return_exceptions=True)
        found: list[tuple[int, int]] = [answer for answer in answers if isinstance(answer, tuple)]
        return broker.office.out_of_reach(int(time.time() * 1000), config.rank, found, len(config.brokers))

    async def _ask(self, name: str) -> Any:
        handle: Handle | None = await asyncio.to_thread(self.config.placement.find, name)
        return await handle.call("supervisor_silent", timeout_s=ASK_S) if handle is not None else None

    async def _replace(self, name: str) -> None:
        placement = self.config.placement
        successor: type = pickle.loads(self.config.successor)
        node = await asyncio.to_thread(_this_node)
        handle = await asyncio.to_thread(placement.actor, successor, name, node, placement, True)
        await handle.call("resume", self.config.state)


def _this_node() -> str:
    from ..ray_control.placement import current_place

    return current_place()["node"]
