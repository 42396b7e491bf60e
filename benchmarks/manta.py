"""Our workloads, through the ordinary one-message-at-a-time client."""

from __future__ import annotations

import asyncio
import struct
import time
from pathlib import Path
from typing import Any

import psutil

from ..client import Message, connect, connect_async
from .processes import Consumed, Job, Produced, padding, run, summary

NAME = "manta"
STAMP = struct.Struct("!d")
WINDOW = 1000
IDLE_QUEUES = 5
IDLE_S = 10.0


async def produce(address: str, queues: list[str], count: int, rate: int, ready: Any) -> Produced:
    """`count` messages to each queue, in turn."""
    async with connect_async(address) as connection:
        session = connection.session()
        senders = [await session.sender(queue, capacity=WINDOW) for queue in queues]
        pad = padding()
        pack, now = STAMP.pack, time.time
        await ready()
        start = now()
        for number in range(count):
            for sender in senders:
                await sender.send(Message(pack(now()) + pad))
            if rate:
                await asyncio.sleep(max(0.0, start + (number + 1) / rate - now()))
        await session.sync()
        return Produced(start, now(), count * len(queues))


async def consume(address: str, queue: str, count: int, ready: Any) -> Consumed:
    async with connect_async(address) as connection:
        session = connection.session()
        receiver = await session.receiver(queue, capacity=WINDOW)
        latencies: list[float] = []
        unpack, now = STAMP.unpack_from, time.time
        await ready()
        for _ in range(count):
            message = await receiver.fetch()
            latencies.append(now() - unpack(message.body)[0])
            await session.acknowledge(message)
        await session.sync()
        return Consumed(now(), count, latencies)


async def consume_shared(address: str, queue: str, total: int, counter_address: str, ready: Any) -> Consumed:
    """One of several consumers of a queue: goes on until the queue has had `total` accepts."""
    async with connect_async(address) as connection:
        session = connection.session()
        receiver = await session.receiver(queue, capacity=WINDOW)
        latencies: list[float] = []
        unpack, now = STAMP.unpack_from, time.time
        await ready()
        last = now()
        while True:
            try:
                message = await receiver.fetch(timeout=0.1)
            except Exception:
                if (await connection.queue(queue))["accepted"] >= total:
                    break
                continue
            last = now()
            latencies.append(last - unpack(message.body)[0])
            await session.acknowledge(message)
            if receiver.available == 0:
                await session.sync()
                last = now()
        await session.sync()
        return Consumed(last, len(latencies), latencies)


def produce_sync(address: str, queue: str, count: int, ready: Any) -> Produced:
    with connect(address) as connection:
        session = connection.session()
        sender = session.sender(queue, capacity=WINDOW)
        pad = padding()
        ready()
        start = time.time()
        for _ in range(count):
            sender.send(Message(STAMP.pack(time.time()) + pad))
        sender.sync()
        return Produced(start, time.time(), count)


def consume_sync(address: str, queue: str, count: int, ready: Any) -> Consumed:
    with connect(address) as connection:
        session = connection.session()
        receiver = session.receiver(queue, capacity=WINDOW)
        latencies: list[float] = []
        ready()
        for _ in range(count):
            message = receiver.fetch()
            latencies.append(time.time() - STAMP.unpack_from(message.body)[0])
            session.acknowledge(message)
        session.sync()
        return Consumed(time.time(), count, latencies)


class Workloads:
    """Runs our workloads on a started cluster.

    Args:
        cluster: from `start_cluster`; needs `addresses` and `actor_pids`.
        durable: its queues are.
    """

    def __init__(self, cluster: Any, durable: bool = False) -> None:
        self._cluster = cluster
        self._durable = durable
        self._addresses: list[str] = list(cluster.addresses.values())
        self._queues = 0

    def _queue(self) -> str:
        """A fresh queue for each run."""
        self._queues += 1
        name = f"{'durable' if self._durable else 'bench'}-{self._queues}"
        with connect(self._addresses[0]) as connection:
            connection.declare_queue(name, durable=self._durable)
        return name

    def _drop(self, *names: str) -> None:
        with connect(self._addresses[0]) as connection:
            for name in names:
                connection.delete_queue(name)

    def throughput(self, count: int, rate: int = 0) -> dict[str, float]:
        """One producer and one consumer on different brokers; flat out, or at `rate` a second."""
        queue = self._queue()
        produced, consumed = run(
            [
                Job(__name__, "produce", (self._addresses[0], [queue], count, rate)),
                Job(__name__, "consume", (self._addresses[1], queue, count)),
            ]
        )
        self._drop(queue)
        return summary([produced], [consumed])

    def throughput_sync(self, count: int) -> dict[str, float]:
        queue = self._queue()
        produced, consumed = run(
            [
                Job(__name__, "produce_sync", (self._addresses[0], queue, count)),
                Job(__name__, "consume_sync", (self._addresses[1], queue, count)),
            ]
        )
        self._drop(queue)
        return summary([produced], [consumed])

    def contended(self, count: int, rate: int = 0) -> dict[str, float]:
        """One producer, and a consumer on every broker, on one queue."""
        queue = self._queue()
        produced, *consumed = run(
            [
                Job(__name__, "produce", (self._addresses[0], [queue], count, rate)),
                *(
                    Job(__name__, "consume_shared", (address, queue, count, self._addresses[0]))
                    for address in self._addresses
                ),
            ]
        )
        with connect(self._addresses[0]) as connection:
            handovers = connection.queue(queue)["handovers"]
        self._drop(queue)
        shares = sorted(c.count for c in consumed)
        return summary([produced], consumed) | {
            "handovers": float(handovers),
            "least_share": shares[0] / max(1, sum(shares)),
        }

    def eight_queues(self, count: int) -> dict[str, float]:
        """Eight queues, each with a producer and a consumer process of its own, on brokers by turns."""
        queues = [self._queue() for _ in range(8)]
        brokers = len(self._addresses)
        jobs = [
            Job(__name__, "produce", (self._addresses[i % brokers], [queue], count // 8, 0))
            for i, queue in enumerate(queues)
        ]
        jobs += [
            Job(__name__, "consume", (self._addresses[(i + 1) % brokers], queue, count // 8))
            for i, queue in enumerate(queues)
        ]
        results = run(jobs)
        self._drop(*queues)
        return summary(results[:8], results[8:])

    def declare(self, count: int) -> list[float]:
        """Milliseconds of each of `count` declares, spares refilled in between as they are in life."""
        took: list[float] = []
        with connect(self._addresses[0]) as connection:
            for number in range(count):
                start = time.perf_counter()
                connection.declare_queue(f"declared-{number}")
                took.append((time.perf_counter() - start) * 1e3)
                connection.delete_queue(f"declared-{number}")
        return sorted(took)

    def idle(self) -> dict[str, float]:
        """Memory (PSS) and CPU of the cluster's actors, and of Ray's own processes apart, doing nothing."""
        names = [self._queue() for _ in range(IDLE_QUEUES)]
        time.sleep(2.0)
        pids = list(self._cluster.actor_pids().values())
        daemons = [p.pid for p in psutil.Process().children(recursive=True) if p.pid not in pids]
        before = sum(cpu_s(pid) for pid in pids)
        time.sleep(IDLE_S)
        used = sum(cpu_s(pid) for pid in pids) - before
        found = {
            "actors_pss_mb": sum(map(pss_mb, pids)),
            "ray_pss_mb": sum(map(pss_mb, daemons)),
            "actors": float(len(pids)),
            "actors_cpu_percent": 100 * used / IDLE_S,
        }
        self._drop(*names)
        return found


def pss_mb(pid: int) -> float:
    """Memory of a process, of what it shares its part, in MB; 0 if it is gone."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def cpu_s(pid: int) -> float:
    """Processor time of a process so far, in seconds; 0 if it is gone."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return times.user + times.system
