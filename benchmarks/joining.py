"""`make bench-joining`: what a broker that joins costs the publishers, and how long it is until it has everything.

Eight queues of 25,000 messages of 1 KiB, and 2,000 messages a second flow through them, in and out: they stay as deep
as they are. Then a fourth broker joins. Measured: the publishers' p99 before and during the join (from the moment a
message was *due*, so that a stall counts for every message it holds up), and apart while the newcomer's processes
start and while it is brought up to date; the time until it has a vote in everything; the same for one such queue
alone; and of each queue how many messages its update brought, which is at most its depth when the update began.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from ..client import Message, connect, connect_async
from ..protocol.status.cluster import ClusterStatus
from ..protocol.status.members import ReplicaMember
from .processes import padding
from .report import OURS, Bar, judge, show
from .results import LATEST, Collection, write

RESULTS = LATEST.with_name("joining.json")
QUEUES, DEPTH, RATE = 8, 25_000, 2_000
TICK_S = 0.02
BEFORE_S, AFTER_S = 10.0, 2.0
SETTLE_S = 3.0
"""Of the time before the join this much is not counted: connections open, and warm replicas start."""
JOIN_S = 120.0
TOGETHER, ALONE = f"join-{QUEUES}-queues", "join-one-queue"
BEFORE = (OURS, TOGETHER, "before_p99_ms")
BARS = [
    Bar("publishers' p99 during the join / before", (TOGETHER, "during_p99_ms"), BEFORE, 2, None, False),
    Bar("the same while it is brought up to date", (TOGETHER, "updating_p99_ms"), BEFORE, 2, None, False),
    Bar("eight queues together / one alone", (TOGETHER, "update_s"), (OURS, ALONE, "update_s"), 4, None, False),
    Bar("messages of an update / depth when it began", (TOGETHER, "front_share"), None, 1, None, False),
]  # fmt: skip


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
                    await session.acknowledge(await receiver.fetch())
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


@dataclass(frozen=True)
class Joined:
    """When a join began and when it was done, when its updates began and ended (monotonic, seconds); of each queue, how
    many messages its update brought, and how deep it was when the update began."""

    began: float
    ended: float
    update_began: float
    update_ended: float
    fronts: list[tuple[int, int]]


def join(cluster: Any) -> Joined:
    """Let a broker join.

    Raises:
        LocalError: it was not done at the limit.
    """
    began = time.monotonic()
    broker = cluster.add_broker(timeout_s=JOIN_S)
    ended = time.monotonic()
    status: ClusterStatus = cluster.report()
    replicas = [a for a in status.actors if isinstance(a, ReplicaMember) and a.name.startswith(f"{broker}.r")]
    queues = [queue for replica in replicas for queue in (replica.machine or {}).values()]
    updates = [queue.update for queue in queues if queue.update is not None]
    back_s = time.time() - time.monotonic()  # the replicas' clock is the machine's
    first, last = min(update.began_ms for update in updates), max(update.ended_ms for update in updates)
    fronts = [(update.messages, update.depth) for update in updates]
    return Joined(began, ended, first / 1e3 - back_s, last / 1e3 - back_s, fronts)


def trial(queues: int, depth: int, rate: int, into: Collection, say: Callable[[str], None]) -> None:
    """Fill, let flow, join, and measure. `rate` is of all queues together, in messages a second."""
    from ..actors.cluster import start_cluster

    workload = TOGETHER if queues > 1 else ALONE
    names = [f"joining-{index}" for index in range(queues)]
    with start_cluster(brokers=3, address="local") as cluster:
        addresses = list(cluster.addresses.values())
        say(f"{workload}: filling")
        fill(addresses[0], names, depth)
        flow = Flow(addresses, names, rate)
        try:
            say(f"{workload}: flowing")
            time.sleep(BEFORE_S)
            say(f"{workload}: joining")
            joined = join(cluster)
            time.sleep(AFTER_S)
        finally:
            ticks = flow.stop()
    assert len(joined.fronts) == queues, f"the newcomer keeps {len(joined.fronts)} of {queues} queues"
    spans = {
        "before": (ticks[0][0] + SETTLE_S, joined.began),
        "during": (joined.began, joined.ended),
        "starting": (joined.began, joined.update_began),
        "updating": (joined.update_began, joined.update_ended),
    }
    for span, (first, last) in spans.items():
        late = sorted((done - due) * 1e3 for due, done in ticks if first <= due < last)
        if late:
            into.add(OURS, workload, f"{span}_p50_ms", "ms", late[len(late) // 2])
            into.add(OURS, workload, f"{span}_p99_ms", "ms", late[int((len(late) - 1) * 0.99)])
            into.add(OURS, workload, f"{span}_max_ms", "ms", late[-1])
    into.add(OURS, workload, "join_s", "s", joined.ended - joined.began)
    into.add(OURS, workload, "update_s", "s", joined.update_ended - joined.update_began)
    into.add(OURS, workload, "update_front_most", "messages", float(max(front for front, _ in joined.fronts)))
    into.add(OURS, workload, "front_share", "ratio", max(front / depth for front, depth in joined.fronts))


def main() -> int:
    """Exit code 1 with --strict when a bar is missed."""
    parser = argparse.ArgumentParser(prog="make bench-joining", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--depth", type=int, default=DEPTH, help="messages in each queue")
    parser.add_argument("--rate", type=int, default=RATE, help="messages a second")
    parser.add_argument("--out", default=str(RESULTS), help="where the figures go")
    parser.add_argument("--strict", action="store_true", help="exit code 1 when a bar is missed")
    parser.add_argument("--json", action="store_true", help="figures as JSON instead of the table")
    arguments = parser.parse_args()
    console = Console(stderr=arguments.json)
    into = Collection()
    for number in range(arguments.rounds):
        for queues in (QUEUES, 1):
            trial(
                queues, arguments.depth, arguments.rate // QUEUES * queues, into,
                lambda text, number=number: console.print(f"round {number + 1}: {text}"),
            )  # fmt: skip
    figures, cleared = into.figures(), judge(into, BARS)
    write(figures, Path(arguments.out))
    if arguments.json:
        print(json.dumps([asdict(figure) for figure in figures]))
    else:
        show(console, figures, cleared, {})
    return 1 if arguments.strict and not all(each.ok for each in cleared) else 0


if __name__ == "__main__":
    sys.exit(main())
