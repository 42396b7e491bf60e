"""What being looked at costs: the same load with a page open and without, turn by turn, in one Ray.

Two clusters are there all the time, and one of them works, as in `capture.py`. That with a page has three callers who
ask for what an open page asks for, each second, and one who scrapes metrics each second, as a process of their own.
Then it is at rest, and looked at by nobody: how much of a core its actors take, and how much as many actors take that
do nothing at all, since Ray looks for signals a hundred times a second in each.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any

from ..protocol.status.members import ManagementMember
from . import manta
from .peers.ray_actors import empty_actors
from .results import Collection

WITH, WITHOUT, EMPTY = "manta-seen", "manta-unseen", "ray-empty-actors"
PAIRS = 6
REST_S = 20.0
SETTLED_S = 20.0
PATHS = ("/", "/queues", "/replication", "/metrics")
"""Three open pages, and a scrape."""


def measure(count: int, into: Collection, say: Callable[[str], None], pairs: int = PAIRS) -> None:
    """Add the figures of `pairs` pairs of runs of `count` messages each, and of a rest."""
    from ..actors.cluster import start_cluster

    with ExitStack() as stack:
        say("seen: starting two clusters")
        unseen = stack.enter_context(start_cluster(brokers=3, address="local"))
        seen = stack.enter_context(start_cluster(brokers=3, address="local", namespace="mantamq-seen", management=0))
        page = _page_of(seen)
        ours = {WITHOUT: manta.Workloads(unseen), WITH: manta.Workloads(seen)}
        for workloads in ours.values():
            workloads.throughput(count)  # what is loaded once is loaded now
        for pair in range(pairs):
            for system in (WITH, WITHOUT) if pair % 2 else (WITHOUT, WITH):
                say(f"seen: {system}, {pair + 1} of {pairs}")
                with _looking(page) if system == WITH else ExitStack():
                    found = ours[system].throughput(count)
                into.add(system, "seen", "messages_per_s", "messages/s", found["messages_per_s"])
        say("seen: at rest, with a page that nobody looks at")
        time.sleep(SETTLED_S)
        pids = list(seen.actor_pids().values())
        into.add(WITH, "seen", "rest_cpu_percent", "% of a core", _percent(pids))
    into.add(EMPTY, "seen", "rest_cpu_percent", "% of a core", _empty(len(pids), say))


def _percent(pids: list[int]) -> float:
    """Of a core: what these processes take of it in a while."""
    before_s = sum(map(manta.cpu_s, pids))
    time.sleep(REST_S)
    return 100 * (sum(map(manta.cpu_s, pids)) - before_s) / REST_S


def _empty(count: int, say: Callable[[str], None]) -> float:
    say(f"seen: {count} empty actors at rest")
    with empty_actors(count) as pids:
        time.sleep(SETTLED_S)
        return _percent(pids)


def _page_of(cluster: Any, timeout_s: float = 20.0) -> str:
    until = time.monotonic() + timeout_s
    while True:
        for actor in cluster.report().actors:
            if isinstance(actor, ManagementMember) and actor.machine:
                return actor.machine.address
        if time.monotonic() > until:
            raise RuntimeError(f"there is no page within {timeout_s:g} s")
        time.sleep(0.2)


@contextmanager
def _looking(page: str) -> Generator[None]:
    """Callers look at it meanwhile."""
    spawn = multiprocessing.get_context("spawn")
    begun = spawn.Event()
    process = spawn.Process(target=_look, args=(page, begun), daemon=True)
    process.start()
    try:
        if not begun.wait(20):
            raise RuntimeError("nobody has looked at the page within 20 s")
        yield
    finally:
        process.kill()
        process.join()


def _look(page: str, begun: Any) -> None:
    asyncio.run(_look_each_second(page, begun))


async def _look_each_second(page: str, begun: Any) -> None:
    async def caller(path: str) -> None:
        host, _, port = page.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        request = f"GET {path} HTTP/1.1\r\nHost: {page}\r\nHX-Request: true\r\n\r\n".encode()
        while True:
            began_s = time.monotonic()
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head.partition(b"\r\n")[0]:
                raise RuntimeError(f"{path} is answered {head!r}")
            length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
            begun.set()
            await asyncio.sleep(max(0.0, began_s + 1 - time.monotonic()))

    await asyncio.gather(*map(caller, PATHS))
