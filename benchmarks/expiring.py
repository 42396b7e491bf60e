"""What it costs a queue's publishers when a million of its messages expire at one time: how long each send takes until
it is complete, beside the same with nothing to expire; and how long it takes until all are gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from ..client import connect, connect_async
from . import manta
from .processes import Consumed, Job, Produced, run
from .results import Collection

QUEUE = "expiring"
TTL_S = 90.0
"""They are sent meanwhile."""
LOOK_S = 0.1
QUIET_S = 10.0
"""So long nothing expires, for the other figure."""


async def fill(address: str, count: int, at: float, ready: Any) -> Produced:
    """Send messages that all expire at that time."""
    async with connect_async(address) as connection:
        session = connection.session()
        sender = await session.sender(QUEUE, capacity=manta.WINDOW)
        await ready()
        start = time.time()
        for _ in range(count):
            await sender.send(manta.Message(b"soon", ttl=at - time.time()))
        await session.sync()
        return Produced(start, time.time(), count)


async def publish(address: str, count: int, at: float, ready: Any) -> Consumed:
    """From that time on, send one message after the other until so many have expired, or for a while where none do: the
    latencies are until each was complete."""
    async with connect_async(address) as connection, connect_async(address) as looks:
        session = connection.session()
        sender = await session.sender(QUEUE)
        await ready()
        await asyncio.sleep(max(0.0, at - time.time()))
        watching = asyncio.create_task(_gone(looks, count) if count else asyncio.sleep(QUIET_S))
        took_s: list[float] = []
        while not watching.done():
            start = time.perf_counter()
            await sender.send(b"now")
            await sender.sync()
            took_s.append(time.perf_counter() - start)
            await asyncio.sleep(0.001)
        await watching
        return Consumed(time.time(), len(took_s), took_s)


async def _gone(connection: Any, count: int) -> None:
    while (await connection.queue(QUEUE))["expired"] < count:
        await asyncio.sleep(LOOK_S)


def measure(addresses: list[str], count: int, into: Collection, say: Callable[[str], None]) -> None:
    """Add the figures, with `count` messages that expire, in a cluster with brokers there.

    Raises:
        RuntimeError: the messages are not there in time.
    """
    with connect(addresses[0]) as connection:
        connection.declare_queue(QUEUE)
    for expire in (0, count):
        name = "expiring" if expire else "expiring-none"
        say(f"expiring: {expire} at one time")
        at = time.time() + (TTL_S if expire else 1.0)
        if expire:
            (filled,) = run([Job(__name__, "fill", (addresses[0], count, at))])
            if filled.end >= at:
                raise RuntimeError(f"{count} messages took {filled.end - filled.start:.0f} s, and live for {TTL_S:.0f}")
        (published,) = run([Job(__name__, "publish", (addresses[1], expire, at))])
        took_ms = sorted(one_s * 1e3 for one_s in published.latencies)
        into.add("manta", name, "p50_ms", "ms", took_ms[len(took_ms) // 2])
        into.add("manta", name, "p99_ms", "ms", took_ms[len(took_ms) * 99 // 100])
        if expire:
            into.add("manta", name, "expired_per_s", "messages/s", count / (published.end - at))
    with connect(addresses[0]) as connection:
        connection.delete_queue(QUEUE)
