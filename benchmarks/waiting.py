"""What a million waiting messages cost in a queue of message groups, beside a plain queue with the same messages.

Each kind has a cluster of its own, since a process that has held much is another one afterwards. Measured are the
memory of all actors per message and replica, how long the question for the depth takes, and how long a new receiver
waits for its first message.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from ..client import Message, connect, connect_async
from . import manta
from .processes import Job, Produced, run
from .results import Collection

KINDS: dict[str, dict[str, Any]] = {"plain": {}, "groups": {"group_key": "key"}}
KEYS = 1_000
BODY = bytes(100)
QUEUE = "waiting"
TIMES = 20
CAPACITY = 100


async def produce(address: str, count: int, ready: Any) -> Produced:
    async with connect_async(address) as connection:
        session = connection.session()
        sender = await session.sender(QUEUE, capacity=manta.WINDOW)
        properties = [{"key": f"key {number}"} for number in range(KEYS)]
        await ready()
        start = time.time()
        for number in range(count):
            await sender.send(Message(BODY, properties=properties[number % KEYS]))
        await session.sync()
        return Produced(start, time.time(), count)


def measure(count: int, into: Collection, say: Callable[[str], None]) -> None:
    """Add the figures of each kind, with `count` messages waiting in three replicas."""
    from ..actors.cluster import start_cluster

    for kind, arguments in KINDS.items():
        say(f"waiting: {kind}")
        with start_cluster(brokers=3, address="local") as cluster:
            addresses = list(cluster.addresses.values())
            with connect(addresses[0]) as connection:
                connection.declare_queue(QUEUE, **arguments)
                before_mb = _memory_mb(cluster)
                run([Job(__name__, "produce", (addresses[0], count))])
                after_mb = _memory_mb(cluster)
            with connect(addresses[1]) as connection:
                depths_ms, firsts_ms = _depths_ms(connection, count), _firsts_ms(connection)
        add = into.add
        add("manta", f"waiting-{kind}", "bytes_per_message", "bytes", (after_mb - before_mb) * 2**20 / 3 / count)
        add("manta", f"waiting-{kind}", "depth_ms", "ms", statistics.median(depths_ms))
        add("manta", f"waiting-{kind}", "first_delivery_ms", "ms", statistics.median(firsts_ms))


def _memory_mb(cluster: Any) -> float:
    return sum(map(manta.pss_mb, cluster.actor_pids().values()))


def _depths_ms(connection: Any, count: int) -> list[float]:
    took_ms: list[float] = []
    for _ in range(TIMES):
        start = time.perf_counter()
        messages = connection.queue(QUEUE)["messages"]
        took_ms.append((time.perf_counter() - start) * 1e3)
        if messages != count:
            raise RuntimeError(f"{count} messages were sent and completed, and the queue has {messages}")
    return took_ms


def _firsts_ms(connection: Any) -> list[float]:
    """From the wish for a receiver to its first message; what it holds goes back to its place before the next one."""
    took_ms: list[float] = []
    session = connection.session()
    for _ in range(TIMES):
        start = time.perf_counter()
        receiver = session.receiver(QUEUE, capacity=CAPACITY)
        receiver.fetch(timeout=60)
        took_ms.append((time.perf_counter() - start) * 1e3)
        receiver.close()
    return took_ms
