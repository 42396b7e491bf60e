"""A cluster that ends with the program that started it, though no single actor of it does.

Ray could end actors with their creator, but then all would go with the Supervisor. So they are detached, and whatever
Supervisor there is looks whether the program, a job in Ray's words, is still there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import ray
from ray._private.state import jobs

log = logging.getLogger(__name__)

LOOK_S = 1.0


def this_program() -> str:
    """Ray's id of the job this process belongs to."""
    return ray.get_runtime_context().get_job_id()


def over(program: str) -> bool:
    """Whether a program has ended, or has left Ray. One that Ray does not know is taken to be there."""
    return any(job["IsDead"] for job in jobs() if job["JobID"] == program)


async def watch(program: str, end: Callable[[], Awaitable[None]]) -> None:
    """Call `end` when the program is over."""
    while True:
        await asyncio.sleep(LOOK_S)
        try:
            if await asyncio.to_thread(over, program):
                break
        except Exception as error:
            log.warning(
                "whether the program of this cluster is there cannot be told: %(reason)r",
                {"reason": error, "program": program},
            )
    log.info("the program of this cluster has ended, and so does the cluster", {"program": program})
    await end()
