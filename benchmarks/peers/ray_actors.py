"""Ray actors that do nothing: what a core has to do for a process that Ray keeps, whoever wrote it."""

from __future__ import annotations

import logging
import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import ray


@contextmanager
def empty_actors(count: int) -> Generator[list[int]]:
    """So many actors with an event loop, in a Ray of their own: their processes' ids."""
    ray.init(address="local", include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    try:
        kind: Any = ray.remote(Empty)
        actors: list[Any] = [kind.options(num_cpus=0, max_concurrency=1000).remote() for _ in range(count)]
        yield ray.get([actor.pid.remote() for actor in actors])
    finally:
        ray.shutdown()


class Empty:
    """It has an event loop, and nothing to do there."""

    async def pid(self) -> int:
        return os.getpid()
