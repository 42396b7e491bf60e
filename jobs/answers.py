"""All questions asked at once, and the answers small enough to carry: what a report is made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import audit, lifecycle, load, members
from .charts import bucket
from .events import of_queues

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PIXELS = 900
MOST_POISON, MOST_LOCKED = 20, 8
BINS_PER_OCTAVE = 2
Rows = list[dict[str, Any]]


@dataclass
class Answers:
    """Attributes:
    from_us, until_us: the time the table covers; 0 and 0 when it is empty.
    step_us: width of the time steps of all series.
    rows: rows of the table (of the queues asked for).
    queues: only these were asked for; empty: all.
    Further: the rows of the functions of the same name, collected; `lock_bars` is `ownership` thinned out to what can
    be drawn, of the queues whose lock moved most; `heat` counts messages by (bucket_us, bin), `BINS_PER_OCTAVE` bins to
    a doubling of the latency, from 1 µs.
    """

    from_us: int = 0
    until_us: int = 0
    step_us: int = 60_000_000
    rows: int = 0
    queues: list[str] = field(default_factory=list)
    throughput: Rows = field(default_factory=list)
    depth: Rows = field(default_factory=list)
    oldest: Rows = field(default_factory=list)
    latency: Rows = field(default_factory=list)
    heat: Rows = field(default_factory=list)
    curves: Rows = field(default_factory=list)
    fates: Rows = field(default_factory=list)
    redeliveries: Rows = field(default_factory=list)
    poison: Rows = field(default_factory=list)
    shares: Rows = field(default_factory=list)
    fairness: Rows = field(default_factory=list)
    handovers: Rows = field(default_factory=list)
    lock_bars: Rows = field(default_factory=list)
    flow: Rows = field(default_factory=list)
    membership: Rows = field(default_factory=list)
    failovers: Rows = field(default_factory=list)
    dropped: Rows = field(default_factory=list)
    violations: Rows = field(default_factory=list)


def gather(
    events: DataFrame, queues: Sequence[str] = (), say: Callable[[int, int, str], None] | None = None
) -> Answers:
    """Ask everything.

    Args:
        events: the event table, filtered by time alone: what concerns the cluster is in rows of no queue.
        queues: only these queues, by name or id; empty: all.
        say: told which step out of how many begins, and its name.
    """
    from pyspark.sql import functions as F

    found = Answers(queues=list(queues))
    ours = events.where(of_queues(queues)) if queues else events
    edges = events.agg(F.min("time_us"), F.max("time_us")).first()
    if edges is None or edges[0] is None:
        return found
    found.from_us, found.until_us = edges
    found.step_us = step = bucket(found.until_us - found.from_us)
    lives = lifecycle.lifecycle(ours).cache()
    owned = members.ownership(ours).cache()
    latencies = lifecycle.latencies(lives, step).cache()
    steps: list[tuple[str, str, Callable[[], DataFrame]]] = [
        ("throughput", "throughput", lambda: load.throughput(ours, step)),
        ("depth", "depth", lambda: load.depth(ours, step)),
        ("life cycles", "fates", lambda: lives.groupBy("fate").agg(F.sum("messages").alias("messages"))),
        ("latency", "latency", lambda: lifecycle.percentiles(latencies, by_minute=False).orderBy("queue", "phase")),
        ("latency over time", "heat", lambda: _heat(latencies)),
        ("latency over time", "curves", lambda: _curves(latencies)),
        ("age of the oldest", "oldest", lambda: load.oldest_over_time(lives, step)),
        ("redeliveries", "redeliveries", lambda: lifecycle.redeliveries(lives)),
        ("poison", "poison", lambda: lifecycle.poison_suspects(lives).limit(MOST_POISON)),
        ("consumers' shares", "shares", lambda: load.consumer_share(ours).orderBy("queue", "broker")),
        ("consume locks", "fairness", lambda: members.lock_fairness(owned, found.until_us).orderBy("queue", "broker")),
        ("consume locks", "lock_bars", lambda: _lock_bars(owned, found.from_us, found.until_us)),
        ("hand-overs", "handovers", lambda: members.handover_cost(ours).orderBy("queue")),
        ("flow control", "flow", lambda: load.flow_control(ours).orderBy("queue", "broker", "kind")),
        ("members", "membership", lambda: members.membership(events)),
        ("failovers", "failovers", lambda: members.failovers(events)),
        ("missing events", "dropped", lambda: members.dropped(events)),
        ("guarantees", "violations", lambda: audit.verdict(audit.audit(ours))),
    ]
    for i, (name, attribute, ask) in enumerate(steps):
        if say:
            say(i, len(steps), name)
        setattr(found, attribute, [row.asDict() for row in ask().collect()])
    found.rows = ours.count() if queues else sum(row["events"] for row in found.failovers) or events.count()
    for df in (latencies, owned, lives):
        df.unpersist()
    return found


def _heat(latencies: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    octave = F.expr(f"cast(floor(log2(greatest(us, 1)) * {BINS_PER_OCTAVE}) as int)").alias("bin")
    total = latencies.where("phase = 'total'")
    return total.groupBy("bucket_us", octave).agg(F.sum("messages").alias("messages"))


def _curves(latencies: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    total = latencies.where("phase = 'total'").groupBy("bucket_us")
    return total.agg(F.expr("percentile(us, array(0.5D, 0.99D), messages)").alias("us")).orderBy("bucket_us")


def _lock_bars(owned: DataFrame, from_us: int, until_us: int) -> DataFrame:
    """Locks that move many times in what is one pixel of the plot become one bar, as strong as they were held long."""
    from pyspark.sql import functions as F

    pixel = max((until_us - from_us) // PIXELS, 1)
    most = owned.groupBy("queue").agg(F.count("*").alias("_n")).orderBy(F.desc("_n"), "queue").limit(MOST_LOCKED)
    return (
        owned.join(F.broadcast(most), "queue")
        .withColumn("until_us", F.coalesce("until_us", F.lit(until_us)))
        .groupBy("queue", "broker", F.expr(f"from_us div {pixel}").alias("_pixel"))
        .agg(
            F.min("from_us").alias("from_us"), F.max("until_us").alias("until_us"),
            F.expr("sum(until_us - from_us)").alias("held_us"), F.count("*").alias("times"),
            F.sum("acquired").alias("acquired"), F.max("how").alias("how"),
        )
        .orderBy("queue", "broker", "from_us")
    )  # fmt: skip
