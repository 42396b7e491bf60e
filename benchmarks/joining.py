"""`make bench-joining`: what a broker that joins costs the publishers, and how long it is until it has everything.

Eight queues of 25,000 messages of 1 KiB, and 2,000 messages a second flow through them, in and out: they stay as deep
as they are. Then a fourth broker joins. Measured: the publishers' p99 before and during the join (from the moment a
message was *due*, so that a stall counts for every message it holds up); the time until all eight queues are whole
there; the same for one such queue alone; and the most messages of one queue that the update put in front.

Needs `Cluster.add_broker()`: starts a broker and returns its id, at the latest when clients can connect there. A queue
is whole on it when its report there (`Connection.queue(name)`) no longer says `updating`; `update_front` there counts
the messages that came by the update. Until the cluster has that, this says so and measures nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from ..client import MantaError, Message, connect, connect_async
from .processes import padding
from .results import LATEST, Collection, Figure, write

RESULTS = LATEST.with_name("joining.json")
QUEUES, DEPTH, RATE = 8, 25_000, 2_000
TICK_S = 0.02
BEFORE_S, AFTER_S = 10.0, 2.0
JOIN_S = 300.0
LOOK_S = 0.05
BATCH = 500


class Cannot(Exception):
    """The cluster lacks what this measures."""


# ---- the flow


def publish(address: str, queues: list[str], rate: int, stop: Any, results: Any) -> None:
    """Send `rate` messages a second, over all queues by turns; puts [(due, done)] of every tick, monotonic times."""
    results.put(asyncio.run(_publish(address, queues, rate, stop)))


async def _publish(address: str, queues: list[str], rate: int, stop: Any) -> list[tuple[float, float]]:
    ticks: list[tuple[float, float]] = []
    pad = padding() + bytes(8)
    async with connect_async(address) as connection:
        session = connection.session()
        senders = [await session.sender(queue, capacity=1000) for queue in queues]
        each = max(1, round(rate * TICK_S / len(queues)))
        waiting: set[asyncio.Task[None]] = set()

        async def tick(due: float) -> None:
            for sender in senders:
                for _ in range(each):
                    await sender.send(Message(pad))
            for sender in senders:
                await sender.sync()
            ticks.append((due, time.monotonic()))

        due = time.monotonic()
        while not stop.is_set():
            task = asyncio.create_task(tick(due))
            waiting.add(task)
            task.add_done_callback(waiting.discard)
            due += TICK_S
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        await asyncio.gather(*waiting)
    return ticks


def consume(address: str, queues: list[str], rate: int, stop: Any) -> None:
    """Accept `rate` messages a second, over all queues by turns."""
    asyncio.run(_consume(address, queues, rate, stop))


async def _consume(address: str, queues: list[str], rate: int, stop: Any) -> None:
    async with connect_async(address) as connection:
        session = connection.session()
        receivers = [await session.receiver(queue, capacity=100) for queue in queues]
        each = max(1, round(rate * TICK_S / len(queues)))
        due = time.monotonic()
        while not stop.is_set():
            for receiver in receivers:
                for _ in range(each):
                    session.acknowledge(await receiver.fetch())
            due += TICK_S
            await asyncio.sleep(max(0.0, due - time.monotonic()))
        await session.sync()


class Flow:
    """A publisher and a consumer, in processes of their own, on different brokers."""

    def __init__(self, addresses: list[str], queues: list[str], rate: int) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._stop = spawn.Event()
        self._results = spawn.Queue()
        self._processes = [
            spawn.Process(target=publish, args=(addresses[0], queues, rate, self._stop, self._results), daemon=True),
            spawn.Process(target=consume, args=(addresses[1], queues, rate, self._stop), daemon=True),
        ]
        for process in self._processes:
            process.start()

    def stop(self) -> list[tuple[float, float]]:
        """End the flow; returns when each tick was due and when it was complete."""
        self._stop.set()
        try:
            return self._results.get(timeout=30)
        finally:
            for process in self._processes:
                process.join(5)
                process.kill()


# ---- one join


def fill(address: str, queues: list[str], depth: int) -> None:
    with connect(address) as connection:
        pad = padding() + bytes(8)
        for queue in queues:
            connection.declare_queue(queue)
            sender = connection.session().sender(queue)
            for _ in range(depth):
                sender.send(Message(pad))
            sender.sync()


def join(cluster: Any, queues: list[str]) -> tuple[float, float, int]:
    """Let a broker join; returns when it began, when it had all `queues`, and the most update-front messages of one.

    Raises:
        Cannot: the cluster cannot grow, or does not tell how far it is.
        RuntimeError: it was not done at the limit.
    """
    began = time.monotonic()
    broker = cluster.add_broker()
    address = cluster.status()["members"][broker]
    front = dict.fromkeys(queues, 0)
    with connect(address) as connection:
        missing = set(queues)
        while missing:
            for queue in sorted(missing):
                try:
                    report = connection.queue(queue)
                except MantaError:
                    continue  # it does not know the queue yet
                if "updating" not in report:
                    raise Cannot('a queue\'s report does not say whether it is "updating"')
                front[queue] = max(front[queue], report.get("update_front", 0))
                if not report["updating"]:
                    missing.discard(queue)
            if time.monotonic() - began > JOIN_S:
                raise RuntimeError(f"{broker} did not have {', '.join(sorted(missing))} within {JOIN_S:g} s")
            time.sleep(LOOK_S)
    return began, time.monotonic(), max(front.values())


def trial(queues: int, depth: int, rate: int, into: Collection, say: Callable[[str], None]) -> None:
    """Fill, let flow, join, and measure. `rate` is of all queues together, in messages a second."""
    from ..actors.cluster import start_cluster

    workload = f"join-{queues}-queues" if queues > 1 else "join-one-queue"
    names = [f"joining-{index}" for index in range(queues)]
    with start_cluster(brokers=3, address="local") as cluster:
        if not hasattr(cluster, "add_broker"):
            raise Cannot(
                "this cluster cannot grow: `Cluster.add_broker()` does not exist; nothing is measured until it does"
            )
        addresses = list(cluster.addresses.values())
        say(f"{workload}: filling")
        fill(addresses[0], names, depth)
        flow = Flow(addresses, names, rate)
        try:
            say(f"{workload}: flowing")
            time.sleep(BEFORE_S)
            say(f"{workload}: joining")
            began, ended, front = join(cluster, names)
            time.sleep(AFTER_S)
        finally:
            ticks = flow.stop()
    late = [(due, (done - due) * 1e3) for due, done in ticks]
    before = sorted(ms for due, ms in late if began - BEFORE_S * 0.7 < due < began)
    during = sorted(ms for due, ms in late if began <= due < ended)
    for metric, values in (("before_p99_ms", before), ("during_p99_ms", during)):
        if values:
            into.add("manta", workload, metric, "ms", values[int((len(values) - 1) * 0.99)])
    into.add("manta", workload, "during_max_ms", "ms", max(during, default=0.0))
    into.add("manta", workload, "join_s", "s", ended - began)
    into.add("manta", workload, "update_front_most", "messages", float(front))


def show(console: Console, figures: list[Figure]) -> None:
    table = Table(title="A broker joins")
    for name in ("workload", "metric"):
        table.add_column(name)
    for name in ("median", "min", "max", "unit"):
        table.add_column(name, justify="right")
    for figure in figures:
        values = (f"{value:,.1f}" for value in (figure.median, figure.min, figure.max))
        table.add_row(figure.workload, figure.metric, *values, figure.unit)
    console.print(table)


def main() -> int:
    """Exit code 2 when the cluster lacks what this measures."""
    parser = argparse.ArgumentParser(prog="make bench-joining", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--depth", type=int, default=DEPTH, help="messages in each queue")
    parser.add_argument("--rate", type=int, default=RATE, help="messages a second")
    parser.add_argument("--out", default=str(RESULTS), help="where the figures go")
    parser.add_argument("--json", action="store_true", help="figures as JSON instead of the table")
    arguments = parser.parse_args()
    console = Console(stderr=arguments.json)
    into = Collection()
    try:
        for number in range(arguments.rounds):
            for queues in (QUEUES, 1):
                trial(
                    queues, arguments.depth, arguments.rate // QUEUES * queues, into,
                    lambda text, number=number: console.print(f"round {number + 1}: {text}"),
                )  # fmt: skip
    except Cannot as error:
        console.print(str(error), markup=False, soft_wrap=True)
        return 2
    figures = into.figures()
    write(figures, Path(arguments.out))
    if arguments.json:
        print(json.dumps([asdict(figure) for figure in figures]))
    else:
        show(console, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
