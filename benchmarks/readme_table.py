"""The README's table of figures, from the run that is kept in `results/peers.json`.

    python -m mantamq.benchmarks --only throughput,latency,durable
    python -m mantamq.benchmarks.readme_table        # keeps that run, and prints the table

Medians of its rounds; what was not measured is a dash. A test compares the table with the README's.
"""

from __future__ import annotations

import json
from pathlib import Path

from .results import LATEST, Figure

PEERS = LATEST.with_name("peers.json")
RATE, P50, P99 = "messages_per_s", "p50_ms", "p99_ms"
SYSTEMS = {
    "Manta": ("manta", "manta"),
    "NATS JetStream R3": ("nats-r3-memory", "nats-r3-file"),
    "RabbitMQ quorum": ("rabbitmq-quorum", "rabbitmq-quorum"),
    "ray.util.queue": ("ray-queue", ""),
}
"""Column -> whose figures in memory, whose flushed; "": it keeps nothing."""
FLUSHES = ("rabbitmq-quorum",)
"""Systems that flush always: they have no figures in memory."""
ROWS = (
    ("in memory, messages/s", "throughput", (RATE,)),
    ("flushed at a majority, messages/s", "durable", (RATE,)),
    ("in memory, 200/s: p50 / p99, ms", "latency", (P50, P99)),
    ("flushed at a majority, 200/s: p50 / p99, ms", "durable", (P50, P99)),
)


def read(path: Path = PEERS) -> list[Figure]:
    """The figures of a run."""
    return [Figure(**one) for one in json.loads(path.read_text())]


def lines(figures: list[Figure]) -> list[str]:
    """The table in Markdown, line by line."""
    median = {(one.system, one.workload, one.metric): one.median for one in figures}
    table = [f"| three replicas, 1 KiB | {' | '.join(SYSTEMS)} |", f"|---|{'---|' * len(SYSTEMS)}"]
    for text, workload, metrics in ROWS:
        cells: list[str] = []
        for in_memory, flushed in SYSTEMS.values():
            durable = workload == "durable"
            system = flushed if durable else in_memory
            found = [median.get((system, workload, metric)) for metric in metrics]
            shown = durable or system not in FLUSHES
            cells.append(" / ".join(_number(one) for one in found if one is not None) if shown else "")
        table.append(f"| {text} | {' | '.join(cell or '–' for cell in cells)} |")
    return table


def _number(value: float) -> str:
    """Two digits that count: a third would be noise."""
    if value < 10:
        return f"{value:.1f}"
    digits = len(str(int(value))) - 2
    return f"{round(value, -digits):,.0f}"


def keep(latest: Path = LATEST, kept: Path = PEERS) -> None:
    """Keep of a run what the table shows.

    Raises:
        SystemExit: there is nothing of it in that run.
    """
    shown = [one for one in json.loads(latest.read_text()) if one["workload"] in {row[1] for row in ROWS}]
    if not shown:
        raise SystemExit(f"{latest} has none of its figures: run mantamq.benchmarks --only throughput,latency,durable")
    kept.write_text(json.dumps(shown, indent=1) + "\n")


if __name__ == "__main__":
    keep()
    print("\n".join(lines(read())))
