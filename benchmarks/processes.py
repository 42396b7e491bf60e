"""Producers and consumers as processes of their own, let loose together."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import multiprocessing
import os
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

BODY_BYTES = 1024
TIMEOUT_S = 180.0
Ready = Callable[[], Awaitable[None]]


@dataclass
class Produced:
    """Attributes: start (first send) and end (last confirmed), as times; count."""

    start: float
    end: float
    count: int


@dataclass
class Consumed:
    """Attributes: end (last accept complete), as a time; count; latencies in seconds, unordered."""

    end: float
    count: int
    latencies: list[float]


@dataclass
class Job:
    """A role to run: `function` of module `module` with `arguments`, and then an awaitable barrier."""

    module: str
    function: str
    arguments: tuple[Any, ...]


def run(jobs: list[Job], timeout_s: float = TIMEOUT_S) -> list[Any]:
    """Run all jobs at once, each in a fresh process, started together; returns what each returned.

    Raises:
        RuntimeError: a job failed or took too long.
    """
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(len(jobs))
    results = spawn.Queue()
    workers = [
        spawn.Process(target=_work, args=(index, job, barrier, results), daemon=True) for index, job in enumerate(jobs)
    ]
    for worker in workers:
        worker.start()
    try:
        found: dict[int, Any] = {}
        for _ in jobs:
            index, value, error = results.get(timeout=timeout_s)
            if error:
                raise RuntimeError(f"{jobs[index].function} of {jobs[index].module} failed:\n{error}")
            found[index] = value
        return [found[index] for index in range(len(jobs))]
    finally:
        for worker in workers:
            worker.join(1)
            worker.kill()


def _work(index: int, job: Job, barrier: Any, results: Any) -> None:
    async def ready() -> None:
        await asyncio.to_thread(barrier.wait, 60)

    try:
        function = getattr(importlib.import_module(job.module), job.function)
        if inspect.iscoroutinefunction(function):
            value = asyncio.run(function(*job.arguments, ready))
        else:
            value = function(*job.arguments, lambda: barrier.wait(60))
        results.put((index, value, ""))
    except BaseException:
        results.put((index, None, traceback.format_exc()))


def padding() -> bytes:
    """What follows the eight bytes of the time stamp in a body."""
    return os.urandom(BODY_BYTES - 8)


def summary(produced: list[Produced], consumed: list[Consumed]) -> dict[str, float]:
    """Messages/s from the first send to the last accept complete, and latency percentiles in milliseconds."""
    start = min(p.start for p in produced)
    end = max([p.end for p in produced] + [c.end for c in consumed])
    latencies = sorted(latency for c in consumed for latency in c.latencies)
    count = len(latencies)
    return {
        "messages_per_s": sum(c.count for c in consumed) / (end - start),
        "p50_ms": latencies[count // 2] * 1e3,
        "p99_ms": latencies[min(count - 1, int(count * 0.99))] * 1e3,
    }
