"""What delayed messages cost: plain traffic through a queue in which many wait for tomorrow, beside the same through a
queue with none, turn by turn; and how late those come that become due meanwhile, where so many wait.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ..client import connect, connect_async
from . import kinds, manta
from .processes import Consumed, Job, Produced, run
from .results import Collection

QUEUE = "with-delays"
TOMORROW_S = 86_400
RATE = 200
"""Messages a second that become due, for the figures of lateness."""


async def fill(address: str, count: int, ready: Any) -> Produced:
    """Have so many wait for tomorrow."""
    async with connect_async(address) as connection:
        session = connection.session()
        sender = await session.sender(QUEUE, capacity=manta.WINDOW)
        await ready()
        start = time.time()
        for number in range(count):
            await sender.send_later(b"tomorrow", TOMORROW_S + number % 1000)
        await session.sync()
        return Produced(start, time.time(), count)


async def put_off(address: str, count: int, ready: Any) -> Produced:
    """Send messages that are due one after the other, `RATE` a second, each with the time at which it is."""
    async with connect_async(address) as connection:
        session = connection.session()
        sender = await session.sender(QUEUE, capacity=manta.WINDOW)
        await ready()
        start = time.time()
        for number in range(count):
            due = start + 5 + number / RATE
            await sender.send_later(manta.STAMP.pack(due), at=due)
        await session.sync()
        return Produced(start, time.time(), count)


async def take_in_time(address: str, count: int, ready: Any) -> Consumed:
    """Take so many; the latencies are how long after its time each came."""
    async with connect_async(address) as connection:
        session = connection.session()
        receiver = await session.receiver(QUEUE, capacity=manta.WINDOW)
        late_s: list[float] = []
        await ready()
        while len(late_s) < count:
            message = await receiver.fetch(timeout=60)
            late_s.append(time.time() - manta.STAMP.unpack_from(message.body)[0])
            await session.acknowledge(message)
        await session.sync()
        return Consumed(time.time(), count, late_s)


def measure(addresses: list[str], count: int, into: Collection, say: Callable[[str], None]) -> None:
    """Add the figures, with `count` messages that wait and as many that pass, in a cluster with brokers there."""
    for waits in (0, count):
        name = "delays-waiting" if waits else "delays-none"
        say(f"delays: {waits} waiting")
        with connect(addresses[0]) as connection:
            connection.declare_queue(QUEUE)
        if waits:
            run([Job(__name__, "fill", (addresses[0], waits))])
        jobs = [
            Job(kinds.__name__, "produce", (addresses[0], QUEUE, count, manta.WINDOW, "")),
            Job(kinds.__name__, "consume", (addresses[1], QUEUE, count, False)),
        ]
        produced, consumed = run(jobs)
        took_s = max(produced.end, consumed.end) - produced.start
        into.add("manta", name, "messages_per_s", "messages/s", count / took_s)
        some = min(count, 10 * RATE)
        roles = [
            Job(__name__, "put_off", (addresses[0], some)),
            Job(__name__, "take_in_time", (addresses[1], some)),
        ]
        _, taken = run(roles)
        late_ms = sorted(late_s * 1e3 for late_s in taken.latencies)
        into.add("manta", name, "late_p50_ms", "ms", late_ms[len(late_ms) // 2])
        into.add("manta", name, "late_p99_ms", "ms", late_ms[len(late_ms) * 99 // 100])
        with connect(addresses[0]) as connection:
            connection.delete_queue(QUEUE)
