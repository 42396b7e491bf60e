"""`make bench`: ours, the installed peers and the bare pipeline, interleaved, round after round.

One system runs at a time: two cores hold no more. Every round measures every system, so that a ratio compares runs a
few minutes apart on the same machine.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rich.console import Console

from . import (
    capture,
    delays,
    disk,
    durable,
    expiring,
    idle_connections,
    kinds,
    links_limit,
    manta,
    moving,
    pipeline_limit,
    report,
    seen,
    waiting,
)
from .peers import nats, rabbitmq, ray_queue
from .processes import Job, run, summary
from .results import Collection, write

WORKLOADS = ("throughput", "latency", "contended", "eight-queues", "declare", "idle", "capture", "durable", "kinds",
             "waiting", "delays", "expiring", "moving", "seen", "connections")  # fmt: skip
ALONE = {"capture", "durable", "kinds", "waiting", "delays", "expiring", "moving", "seen", "connections"}
"""Workloads with clusters of their own."""
UNITS = {"messages_per_s": "messages/s", "p50_ms": "ms", "p99_ms": "ms"}
RATE = 200


@dataclass
class Bench:
    """One run: which workloads, how large, where figures go, and where durable queues are kept."""

    workloads: set[str]
    scale: float
    into: Collection
    say: Callable[[str], None]
    data: str
    beside: list[str] = field(default_factory=list[str])
    """What else is to be known of the figures, a line each."""

    def count(self, full: int) -> int:
        return max(16, int(full * self.scale)) // 8 * 8

    def add(self, system: str, workload: str, found: dict[str, float], *metrics: str) -> None:
        for metric in metrics:
            self.into.add(system, workload, metric, UNITS[metric], found[metric])

    # ---- one round of each system

    def manta(self) -> None:
        if self.workloads <= ALONE:
            return
        from ..actors.cluster import start_cluster

        self.say("manta: starting")
        with start_cluster(brokers=3, address="local") as cluster:
            ours = manta.Workloads(cluster)
            ours.throughput(self.count(20_000))  # what is loaded once is loaded now
            if "throughput" in self.workloads:
                self.say("manta: throughput")
                self.add("manta", "throughput", ours.throughput(self.count(200_000)), "messages_per_s")
                found = ours.throughput_sync(self.count(100_000))
                self.into.add("manta", "throughput", "messages_per_s_sync", "messages/s", found["messages_per_s"])
            if "latency" in self.workloads:
                self.say("manta: latency")
                self.add("manta", "latency", ours.throughput(self.count(2000), RATE), "p50_ms", "p99_ms")
            if "contended" in self.workloads:
                self.say("manta: contended")
                found = ours.contended(self.count(200_000))
                self.add("manta", "contended", found, "messages_per_s")
                self.into.add("manta", "contended", "handovers", "count", found["handovers"])
                self.into.add("manta", "contended", "least_share", "of 1", found["least_share"])
                self.add("manta", "contended", ours.contended(self.count(2000), RATE), "p50_ms", "p99_ms")
            if "eight-queues" in self.workloads:
                self.say("manta: eight queues")
                self.add("manta", "eight-queues", ours.eight_queues(self.count(200_000)), "messages_per_s")
            if "declare" in self.workloads:
                self.say("manta: declare")
                took = ours.declare(50)
                self.into.add("manta", "declare", "p50_ms", "ms", took[len(took) // 2])
                self.into.add("manta", "declare", "max_ms", "ms", took[-1])
            if "idle" in self.workloads:
                self.say("manta: idle")
                found = ours.idle()
                for metric, unit in (("actors_pss_mb", "MB"), ("ray_pss_mb", "MB"), ("actors", "count")):
                    self.into.add("manta", "idle", metric, unit, found[metric])
                self.into.add("manta", "idle", "total_pss_mb", "MB", found["actors_pss_mb"] + found["ray_pss_mb"])
                self.into.add("manta", "idle", "actors_cpu_percent", "% of a core", found["actors_cpu_percent"])

    def capture(self) -> None:
        if "capture" in self.workloads:
            capture.measure(self.count(100_000), self.into, self.say)

    def look_at_disk(self) -> None:
        """Which disk durable figures are of, and which peers.

        Raises:
            RuntimeError: they would be kept in memory.
        """
        if "durable" in self.workloads:
            found = disk.look(self.data)
            self.beside.append(found.text())
            for metric, value in (("flush_p50_ms", found.p50_ms), ("flush_p99_ms", found.p99_ms)):
                self.into.add("disk", "durable", metric, "ms", value)
            for module in (nats, rabbitmq):
                self.beside.append(f"{module.NAME.partition('-')[0]}: {module.about()}")

    def durable(self) -> None:
        if "durable" in self.workloads:
            durable.measure(self.count, self.data, self.into, self.say)

    def kinds(self) -> None:
        if "kinds" in self.workloads:
            from ..actors.cluster import start_cluster

            self.say("kinds: starting")
            with start_cluster(brokers=3, address="local") as cluster:
                kinds.measure(list(cluster.addresses.values()), self.count(100_000), self.into, self.say)

    def delays(self) -> None:
        if "delays" in self.workloads:
            from ..actors.cluster import start_cluster

            self.say("delays: starting")
            with start_cluster(brokers=3, address="local") as cluster:
                delays.measure(list(cluster.addresses.values()), self.count(100_000), self.into, self.say)

    def waiting(self) -> None:
        if "waiting" in self.workloads:
            waiting.measure(self.count(1_000_000), self.into, self.say)

    def expiring(self) -> None:
        if "expiring" in self.workloads:
            from ..actors.cluster import start_cluster

            self.say("expiring: starting")
            with start_cluster(brokers=3, address="local") as cluster:
                expiring.measure(list(cluster.addresses.values()), self.count(1_000_000), self.into, self.say)

    def moving(self) -> None:
        if "moving" in self.workloads:
            from ..actors.cluster import start_cluster

            self.say("moving: starting")
            with start_cluster(brokers=3, address="local") as cluster:
                moving.measure(list(cluster.addresses.values()), self.count(100_000), self.into)

    def seen(self) -> None:
        if "seen" in self.workloads:
            seen.measure(self.count(400_000), self.into, self.say)

    def connections(self) -> None:
        if "connections" in self.workloads:
            from ..actors.cluster import start_cluster

            self.say("connections: starting")
            with start_cluster(brokers=3, address="local") as cluster:
                idle_connections.measure(cluster, self.count(2000), self.into, self.say)

    def pipeline(self) -> None:
        if "eight-queues" in self.workloads:
            self.say("bare pipeline: eight of them")
            found = pipeline_limit.trial(self.count(400_000) // 800 * 800, 100, 30, pipelines=8)
            self.add("bare-pipeline", "eight-queues", found, "messages_per_s")
        if "throughput" in self.workloads:
            self.say("bare pipeline: throughput")
            found = pipeline_limit.trial(self.count(400_000) // 100 * 100, 100, 30)
            self.add("bare-pipeline", "throughput", found, "messages_per_s")
        if "latency" in self.workloads:
            self.say("bare pipeline: latency")
            found = pipeline_limit.trial(self.count(2000), 1, 100, RATE, committed=True)
            self.into.add("bare-pipeline", "latency", "p50_committed_ms", "ms", found["p50_ms"])
            self.into.add("bare-pipeline", "latency", "p99_committed_ms", "ms", found["p99_ms"])
            self.add(
                "bare-pipeline", "latency", pipeline_limit.trial(self.count(2000), 1, 100, RATE), "p50_ms", "p99_ms"
            )

    def links(self) -> None:
        if "latency" in self.workloads:
            self.say("bare links: latency")
            self.add(links_limit.NAME, "latency", links_limit.trial(self.count(2000), RATE), "p50_ms", "p99_ms")

    def peer(
        self, module: object, servers: AbstractContextManager[list[str]], full: int, fetch: tuple[int, int],
        name: str = "", only: str = "",
    ) -> None:  # fmt: skip
        """Args:
        only: its figures of both kinds count as this workload's.
        """
        name = name or module.NAME  # type: ignore[attr-defined]
        if not self.workloads & ({only} if only else {"throughput", "latency"}):
            return
        self.say(f"{name}: starting")
        with servers as addresses:
            for workload, count, rate, prefetch in (
                ("throughput", self.count(full), 0, fetch[0]),
                ("latency", self.count(2000), RATE, fetch[1]),
            ):
                if only or workload in self.workloads:
                    self.say(f"{name}: {only} {workload}".replace("  ", " "))
                    jobs = [
                        Job(module.__name__, "produce", (addresses[0], count, rate, 1000)),  # type: ignore[attr-defined]
                        Job(module.__name__, "consume", (addresses[1], count, prefetch)),  # type: ignore[attr-defined]
                    ]
                    produced, consumed = run(jobs)
                    metrics = ("p50_ms", "p99_ms") if rate else ("messages_per_s",)
                    self.add(name, only or workload, summary([produced], [consumed]), *metrics)

    def nats(self) -> None:
        self.peer(nats, nats.servers(), 40_000, (500, 1))

    def nats_durable(self) -> None:
        self.peer(nats, nats.servers(True, self.data), 10_000, (500, 1), nats.DURABLE_NAME, "durable")

    def rabbitmq(self) -> None:
        self.peer(rabbitmq, rabbitmq.servers(), 6_000, (1000, 1000))

    def rabbitmq_durable(self) -> None:
        """The same queues: they are durable anyway. Beside ours, and on the same disk."""
        self.peer(rabbitmq, rabbitmq.servers(self.data), 6_000, (1000, 1000), only="durable")

    def ray_queue(self) -> None:
        if self.workloads & {"throughput", "latency"}:
            self.say("ray.util.queue")
            found = ray_queue.measure(self.count(1600), 300)
            if "throughput" in self.workloads:
                self.add("ray-queue", "throughput", found, "messages_per_s")
            if "latency" in self.workloads:
                self.add("ray-queue", "latency", found, "p50_ms", "p99_ms")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description="Ours, the peers and the limit, in one run.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default=",".join(WORKLOADS), help="workloads, with commas")
    parser.add_argument("--systems", default="", help="systems, with commas")
    parser.add_argument("--quick", action="store_true", help="a tenth of the messages; nothing is written")
    parser.add_argument("--json", action="store_true", help="figures as JSON instead of tables")
    parser.add_argument("--strict", action="store_true", help="exit 1 when a bar is missed")
    parser.add_argument("--data", default=tempfile.gettempdir(), help="a folder on the disk for what is durable")
    return parser.parse_args()


def _systems(bench: Bench) -> dict[str, tuple[Callable[[], None], str]]:
    """Name -> what measures a round of it, and why that cannot be done here, "" if it can."""
    return {
        "manta": (bench.manta, ""),
        "manta-capture": (bench.capture, ""),
        "manta-kinds": (bench.kinds, ""),
        "manta-waiting": (bench.waiting, ""),
        "manta-delays": (bench.delays, ""),
        "manta-expiring": (bench.expiring, ""),
        "manta-moving": (bench.moving, ""),
        "manta-seen": (bench.seen, ""),
        "manta-connections": (bench.connections, ""),
        "manta-durable": (bench.durable, durable.missing() if "durable" in bench.workloads else ""),
        "nats-r3-memory": (bench.nats, nats.missing()),
        "bare-pipeline": (bench.pipeline, ""),
        links_limit.NAME: (bench.links, ""),
        "rabbitmq-quorum": (bench.rabbitmq, rabbitmq.missing()),
        "ray-queue": (bench.ray_queue, ray_queue.missing()),
        nats.DURABLE_NAME: (bench.nats_durable, nats.missing(durable=True)),
        "rabbitmq-quorum-durable": (bench.rabbitmq_durable, rabbitmq.missing()),
    }


def main() -> int:
    arguments = _arguments()
    console = Console(stderr=arguments.json)
    collection = Collection()
    with console.status("benchmarks") as status:
        prefix = ""

        def say(text: str) -> None:
            status.update(prefix + text)
            if not console.is_terminal:
                console.print(prefix + text)

        workloads = set(arguments.only.split(","))
        bench = Bench(workloads, 0.1 if arguments.quick else 1.0, collection, say, str(Path(arguments.data).resolve()))
        systems = _systems(bench)
        wanted = arguments.systems.split(",") if arguments.systems else list(systems)
        missing = {name: why for name, (_, why) in systems.items() if name in wanted and why}
        bench.look_at_disk()
        for number in range(1, arguments.rounds + 1):
            prefix = f"round {number} of {arguments.rounds}: "
            for name in wanted:
                if name not in missing:
                    systems[name][0]()
    figures = collection.figures()
    cleared = report.judge(collection)
    if not arguments.quick:
        write(figures)
    if arguments.json:
        print(json.dumps([asdict(figure) for figure in figures]))
    else:
        report.show(Console(width=120 if not console.is_terminal else None), figures, cleared, missing)
        for line in bench.beside:
            console.print(line, markup=False, highlight=False)
    return 1 if arguments.strict and not all(each.ok for each in cleared) else 0


if __name__ == "__main__":
    sys.exit(main())
