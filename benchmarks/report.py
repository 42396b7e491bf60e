"""The table people read: every figure, and every bar with its ratio."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from .kinds import REJECTED, beside
from .results import Collection, Figure

OURS = "manta"
RATE = "messages_per_s"


@dataclass(frozen=True)
class Bar:
    """A bar to clear: a figure of ours over a reference (None: the figure itself).

    Attributes:
        bar: None: no bar, the ratio is told for comparison.
        at_least: True: the ratio must not be below `bar`; False: not above.
        aim: where we want to be, None when there is no such.
        system: whose figure.
    """

    text: str
    ours: tuple[str, str]
    reference: tuple[str, str, str] | None
    bar: float | None
    aim: float | None
    at_least: bool
    system: str = OURS


BARS = [
    Bar("throughput / NATS R3 memory", ("throughput", RATE), ("nats-r3-memory", "throughput", RATE), 5, 8, True),
    Bar("throughput / RabbitMQ quorum", ("throughput", RATE), ("rabbitmq-quorum", "throughput", RATE), 30, 50, True),
    Bar("throughput / ray.util.queue", ("throughput", RATE), ("ray-queue", "throughput", RATE), 100, 150, True),
    Bar("throughput / bare pipeline", ("throughput", RATE), ("bare-pipeline", "throughput", RATE), 0.25, 0.4, True),
    Bar("p50 at 200/s / NATS", ("latency", "p50_ms"), ("nats-r3-memory", "latency", "p50_ms"), 0.8, None, False),
    Bar("p99 at 200/s / NATS", ("latency", "p99_ms"), ("nats-r3-memory", "latency", "p99_ms"), 1.5, None, False),
    Bar(
        "p50 at 200/s / bare pipeline that commits first",
        ("latency", "p50_ms"),
        ("bare-pipeline", "latency", "p50_committed_ms"),
        2,
        None,
        False,
    ),
    Bar(
        "p50 at 200/s of that bare pipeline / NATS",
        ("latency", "p50_committed_ms"),
        ("nats-r3-memory", "latency", "p50_ms"),
        None,
        None,
        False,
        "bare-pipeline",
    ),
    Bar(
        "p50 at 200/s of our links with nothing decided / NATS",
        ("latency", "p50_ms"),
        ("nats-r3-memory", "latency", "p50_ms"),
        None,
        None,
        False,
        "bare-links",
    ),
    Bar("contended / one consumer broker", ("contended", RATE), (OURS, "throughput", RATE), 0.5, 0.7, True),
    Bar("contended p50 / one consumer broker", ("contended", "p50_ms"), (OURS, "latency", "p50_ms"), 3, 2, False),
    Bar("eight queues / one queue", ("eight-queues", RATE), (OURS, "throughput", RATE), 1, None, True),
    Bar(
        "eight bare pipelines / one",
        ("eight-queues", RATE),
        ("bare-pipeline", "throughput", RATE),
        None,
        None,
        True,
        "bare-pipeline",
    ),
    Bar("looked at / not", ("seen", RATE), ("manta-unseen", "seen", RATE), 0.98, None, True, "manta-seen"),
    Bar("at rest with a page, % of a core", ("seen", "rest_cpu_percent"), None, 8, None, False, "manta-seen"),
    Bar(
        "at rest, as many empty Ray actors, % of a core",
        ("seen", "rest_cpu_percent"),
        None,
        None,
        None,
        False,
        "ray-empty-actors",
    ),
    Bar("with events / without", ("capture", RATE), ("manta-without-events", "capture", RATE), 0.9, None, True),
    Bar("durable / RabbitMQ quorum", ("durable", RATE), ("rabbitmq-quorum", "durable", RATE), 10, 25, True),
    Bar("durable / NATS R3 file, each flushed", ("durable", RATE), ("nats-r3-file", "durable", RATE), 3, 5, True),
    Bar("durable / transient beside it", ("durable", RATE), (OURS, "transient-with-store", RATE), 0.5, 0.7, True),
    Bar(
        "durable p50 at 200/s / RabbitMQ",
        ("durable", "p50_ms"),
        ("rabbitmq-quorum", "durable", "p50_ms"),
        1,
        None,
        False,
    ),
    Bar(
        "durable p99 at 200/s / RabbitMQ",
        ("durable", "p99_ms"),
        ("rabbitmq-quorum", "durable", "p99_ms"),
        1,
        None,
        False,
    ),
    Bar("eight durable queues / one", ("durable-eight-queues", RATE), (OURS, "durable", RATE), 0.9, None, True),
    Bar(
        "transient with a store / without",
        ("transient-with-store", RATE),
        ("manta-without-store", "transient-with-store", RATE),
        0.97,
        None,
        True,
    ),
    *(
        Bar(f"a {kind} queue / a plain one", (f"kind-{kind}", RATE), (OURS, beside(kind), RATE), 0.5, None, True)
        for kind in ("priority", "groups", "fair", "last-value", "ring", "full-ring", "limited", "held-back")
    ),
    Bar("dead-lettering all / a plain queue", ("kind-rejected", RATE), (OURS, beside(REJECTED), RATE), 0.3, None, True),
    *(
        Bar(f"a {kind} queue / a plain one", (f"kind-{kind}", RATE), (OURS, beside(kind), RATE), least, None, True)
        for kind, least in (("by-id", 0.6), ("by-name", 0.95))
    ),
    Bar("flow stops per second of a held-back queue", ("kind-held-back", "flow_stops_per_s"), None, 100, None, True),
    *(
        Bar(f"{what}, groups / plain", ("waiting-groups", metric), (OURS, "waiting-plain", metric), 1.5, None, False)
        for what, metric in (
            ("memory of a waiting message", "bytes_per_message"),
            ("depth of a million waiting", "depth_ms"),
            ("first of a million waiting", "first_delivery_ms"),
        )
    ),
    Bar(
        "a queue in which 100,000 delayed messages wait / one without",
        ("delays-waiting", RATE),
        (OURS, "delays-none", RATE),
        0.8,
        None,
        True,
    ),
    Bar("late p99 where 100,000 delayed messages wait, ms", ("delays-waiting", "late_p99_ms"), None, 50, None, False),
    Bar(
        "p99 of sends to a queue in which a million messages expire / one in which none do",
        ("expiring", "p99_ms"),
        (OURS, "expiring-none", "p99_ms"),
        2,
        None,
        False,
    ),
    Bar("a million messages that expire at one time", ("expiring", "expired_per_s"), None, 25_000, None, True),
    Bar("a move of 100,000 messages", ("moving", RATE), None, 100_000, None, True),
    Bar("declare p50, ms", ("declare", "p50_ms"), None, 50, None, False),
    Bar("memory of an idle connection, KB", ("connections", "kb_each"), None, 60, None, False),
    Bar("idle connections that were lost", ("connections", "lost"), None, 0, None, False),
    Bar("members lost meanwhile", ("connections", "members_lost"), None, 0, None, False),
    Bar("idle PSS of everything, MB", ("idle", "total_pss_mb"), None, 2048, None, False),
    Bar("idle CPU of our actors, % of a core", ("idle", "actors_cpu_percent"), None, 10, None, False),
]


@dataclass(frozen=True)
class Cleared:
    bar: Bar
    value: float
    ok: bool


def judge(collection: Collection, bars: list[Bar] = BARS) -> list[Cleared]:
    """Every bar of which both sides were measured; ratios are medians of the rounds' ratios."""
    cleared: list[Cleared] = []
    figures = {(f.system, f.workload, f.metric): f.median for f in collection.figures()}
    for bar in bars:
        ours = (bar.system, *bar.ours)
        if bar.reference is None:
            value = figures.get(ours)
        else:
            ratios = collection.ratios(ours, bar.reference)
            value = statistics.median(ratios) if ratios else None
        if value is not None:
            ok = bar.bar is None or (value >= bar.bar if bar.at_least else value <= bar.bar)
            cleared.append(Cleared(bar, value, ok))
    return cleared


def show(console: Console, figures: list[Figure], cleared: list[Cleared], missing: dict[str, str]) -> None:
    table = Table(title="Measured in this run (median of rounds)")
    for name, side in (("workload", "left"), ("system", "left"), ("metric", "left"), ("median", "right"),
                       ("min", "right"), ("max", "right"), ("unit", "left")):  # fmt: skip
        table.add_column(name, justify=side)  # pyright: ignore[reportArgumentType]
    for figure in sorted(figures, key=lambda f: (f.workload, f.metric, f.system)):
        table.add_row(
            figure.workload, figure.system, figure.metric, _number(figure.median), _number(figure.min),
            _number(figure.max), figure.unit,
        )  # fmt: skip
    console.print(table)
    bars = Table(title="Bars")
    for name in ("what", "measured", "bar", "aim", ""):
        bars.add_column(name, justify="left" if name in ("what", "") else "right")
    for each in cleared:
        sign = ">=" if each.bar.at_least else "<="
        bar, aim = (f"{sign} {edge:g}" if edge is not None else "" for edge in (each.bar.bar, each.bar.aim))
        verdict = "[green]ok[/green]" if each.ok else "[red]missed[/red]"
        bars.add_row(each.bar.text, f"{each.value:.2f}", bar, aim, verdict if bar else "the limit")
    console.print(bars)
    for system, why in missing.items():
        console.print(f"{system}: not measured, {why}")


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.2f}"
