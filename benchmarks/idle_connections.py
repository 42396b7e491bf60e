"""What a connection that does nothing costs its broker: 2,000 of them at one of three, by the ordinary client with
its heartbeats. The bars are 60 KB of the broker's memory each, and that none is lost.

A side that hears nothing for two heartbeats leaves, and no client here looks for another broker: so a beat that was
missed shows as a connection that is not there any more.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil

from ..client.aio.aio import AsyncConnection, connect_async
from ..protocol.status.members import BrokerMember
from . import manta
from .processes import Job, Ready, run
from .results import Collection

SYSTEM, WORKLOAD = "manta", "connections"
BROKER = "b1"
PROGRAMS = 2
AT_ONCE = 20
IDLE_S = 20.0
OPEN_S = 150.0
LOOK_S = 1.0


def measure(cluster: Any, count: int, into: Collection, say: Callable[[str], None]) -> None:
    """Add what `count` connections to one broker of a cluster cost it.

    Raises:
        RuntimeError: they are not all there when the time starts.
    """
    pids = cluster.actor_pids()
    process = psutil.Process(pids[BROKER])
    each = count // PROGRAMS
    jobs = [Job(__name__, "hold", (cluster.addresses[BROKER], each)) for _ in range(PROGRAMS)]
    idle_bytes = process.memory_info().rss
    with ThreadPoolExecutor(1) as pool:
        programs = pool.submit(run, jobs, OPEN_S + 2 * IDLE_S)
        least = _until_there(cluster, each * PROGRAMS, programs.done)
        say(f"connections: {least} are there")
        held_bytes, used_s, ends = process.memory_info().rss, manta.cpu_s(process.pid), time.monotonic() + IDLE_S
        while time.monotonic() < ends:
            time.sleep(LOOK_S)
            least = min(least, _there(cluster))
        held_bytes = max(held_bytes, process.memory_info().rss)
        used_s = manta.cpu_s(process.pid) - used_s
        programs.result()
    into.add(SYSTEM, WORKLOAD, "kb_each", "KB", (held_bytes - idle_bytes) / 1000 / (each * PROGRAMS))
    into.add(SYSTEM, WORKLOAD, "lost", "count", each * PROGRAMS - least)
    into.add(SYSTEM, WORKLOAD, "members_lost", "count", len(pids.items() - cluster.actor_pids().items()))
    into.add(SYSTEM, WORKLOAD, "broker_cpu_percent", "% of a core", 100 * used_s / IDLE_S)


def _until_there(cluster: Any, wanted: int, over: Callable[[], bool]) -> int:
    until = time.monotonic() + OPEN_S
    while (found := _there(cluster)) < wanted:
        if over() or time.monotonic() > until:
            raise RuntimeError(f"{found} of {wanted} connections are there within {OPEN_S:g} s")
        time.sleep(LOOK_S)
    return found


def _there(cluster: Any) -> int:
    """How many clients the broker has."""
    for actor in cluster.report().actors:
        if actor.name == BROKER and isinstance(actor, BrokerMember) and actor.machine:
            return actor.machine.connections
    return 0


async def hold(address: str, count: int, ready: Ready) -> None:
    """One program's connections: opened, a few at once, and held for longer than is measured."""

    async def opened() -> AsyncConnection:
        return await connect_async(address, reconnect_s=0, timeout=OPEN_S)

    await ready()
    held: list[AsyncConnection] = []
    while len(held) < count:
        held += await asyncio.gather(*(opened() for _ in range(min(AT_ONCE, count - len(held)))))
    await asyncio.sleep(2 * IDLE_S)
