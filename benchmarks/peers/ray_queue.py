"""`ray.util.queue.Queue`: what a Ray user has without a broker. One actor, no replication, put and get one by one."""

from __future__ import annotations

import logging
import time
from typing import Any

from ..processes import BODY_BYTES

NAME = "ray-queue"


def missing() -> str:
    """Why it cannot be measured here, or ""."""
    return ""


def measure(count: int, pings: int) -> dict[str, float]:
    """Messages/s put by this process and got by a task, one at a time; and put-to-get latency in milliseconds."""
    import ray
    from ray.util.queue import Queue

    ray.init(
        address="local", num_cpus=2, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False,
        object_store_memory=100 * 1024 * 1024,
    )  # fmt: skip
    try:
        queue: Any = Queue(actor_options={"num_cpus": 0})
        body = b"x" * BODY_BYTES

        @ray.remote(num_cpus=0)
        def drain(queue: Any, count: int) -> int:
            for _ in range(count):
                queue.get()
            return count

        ray.get(drain.remote(queue, 0))
        queue.put(body)
        queue.get()
        start = time.perf_counter()
        done = drain.remote(queue, count)
        for _ in range(count):
            queue.put(body)
        ray.get(done)
        rate = count / (time.perf_counter() - start)
        latencies: list[float] = []
        for _ in range(pings):
            start = time.perf_counter()
            queue.put(body)
            queue.get()
            latencies.append(time.perf_counter() - start)
        latencies.sort()
        return {
            "messages_per_s": rate,
            "p50_ms": latencies[pings // 2] * 1e3,
            "p99_ms": latencies[int(pings * 0.99)] * 1e3,
        }
    finally:
        ray.shutdown()
