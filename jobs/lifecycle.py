"""What became of each message: enqueue, acquires, end. And how long that took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .load import MINUTE_US
from .spans import aligned

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FATES = {1: "accept", 2: "discard", 3: "expire", 4: "purge", 5: "dead_letter", 6: "moved"}
_CODES = """
    case when kind = 'enqueue' then 10 when kind = 'acquire' then 11 when kind = 'release' or kind = 'evict' then 12
         when kind = 'reject' then 13 when kind = 'accept' then 1 when kind = 'expire' then 3 when kind = 'purge' then 4
         when kind = 'dead_letter' then 5 when kind = 'moved' then 6 when kind = 'discard' then 2 end"""
KINDS = ("enqueue", "acquire", "release", "evict", "reject", "accept", "expire", "purge", "dead_letter",
         "moved", "discard")  # fmt: skip
PHASES = {
    "wait": ("enqueued_us", "acquired_us"),
    "process": ("acquired_last_us", "ended_us"),
    "total": ("enqueued_us", "ended_us"),
}
"""Phase -> from, to. wait: enqueue to the first acquire; process: the last acquire to its accept; total: enqueue to
accept."""


def lifecycle(events: DataFrame) -> DataFrame:
    """One row per run of messages that shared all their events.

    Args:
        events: the event table.

    Returns:
        queue, position_first, position_last, messages; enqueued_us, acquired_us, acquired_last_us, ended_us (Unix
        microseconds, null when it has not happened or is not in the table); fate ("accept", "discard", "expire",
        "purge", "dead_letter", "moved", null while the message is there); deliveries (how often it was acquired);
        returns (how often it came back after a consumer may have seen it).
    """
    from pyspark.sql import functions as F

    steps = aligned(
        events.where(F.col("effective") & F.col("kind").isin(list(KINDS))).select(
            "queue", "position_first", "position_last", "time_us", "value", F.expr(_CODES).alias("code")
        )
    )
    ended = "code < 10 or (code = 11 and value = 1) or (code = 13 and value = 0)"
    found = steps.groupBy("queue", "position_first").agg(
        F.max("position_last").alias("position_last"),
        F.expr("min(case when code = 10 then time_us end)").alias("enqueued_us"),
        F.expr("min(case when code = 11 then time_us end)").alias("acquired_us"),
        F.expr("max(case when code = 11 then time_us end)").alias("acquired_last_us"),
        F.expr(f"min(case when {ended} then time_us end)").alias("ended_us"),
        F.expr(f"min(case when {ended} then case when code = 11 then 1 when code = 13 then 2 else code end end)").alias(
            "_fate"
        ),
        F.expr("count(case when code = 11 then 1 end)").alias("deliveries"),
        F.expr("count(case when code = 12 and value = 1 then 1 end)").alias("returns"),
    )
    names = "map(" + ", ".join(f"{code}, '{name}'" for code, name in FATES.items()) + ")"
    return found.select(
        "queue", "position_first", "position_last",
        F.expr("position_last - position_first + 1").alias("messages"),
        "enqueued_us", "acquired_us", "acquired_last_us", "ended_us",
        F.expr(f"{names}[_fate]").alias("fate"), "deliveries", "returns",
    )  # fmt: skip


def per_message(lives: DataFrame) -> DataFrame:
    """`lifecycle` with one row per message: `position` instead of the run."""
    from pyspark.sql import functions as F

    rest = [name for name in lives.columns if name not in ("queue", "position_first", "position_last", "messages")]
    position = F.expr("explode(sequence(position_first, position_last))").alias("position")
    return lives.select("queue", position, *rest)


def latencies(lives: DataFrame, bucket_us: int = MINUTE_US) -> DataFrame:
    """How often each latency occurred.

    Returns:
        queue, bucket_us (start of the minute in which the phase ended), phase (see `PHASES`), us (rounded down to 8
        binary digits, so within 0.8 %), messages. Phases that have not ended are left out; process and total are of
        accepted messages.
    """
    from pyspark.sql import functions as F

    phases = ", ".join(
        f"struct('{name}' as phase, {until} as at_us, greatest({until} - {since}, 0L) as exact, "
        + ("true" if name == "wait" else "coalesce(fate = 'accept', false)")
        + " as fit)"
        for name, (since, until) in PHASES.items()
    )
    shift = "greatest(length(bin(exact)) - 8, 0)"
    return (
        lives.select("queue", "messages", F.expr(f"inline(array({phases}))"))
        .where("fit and exact is not null")
        .groupBy("queue", F.expr(f"at_us - at_us % {int(bucket_us)}").alias("bucket_us"), "phase",
                 F.expr(f"shiftleft(shiftright(exact, {shift}), {shift})").alias("us"))
        .agg(F.sum("messages").alias("messages"))
    )  # fmt: skip


def percentiles(
    latencies: DataFrame, of: Sequence[float] = (0.5, 0.9, 0.99, 0.999), by_minute: bool = True
) -> DataFrame:
    """Latency percentiles per queue, phase and minute.

    Returns:
        queue, bucket_us (if `by_minute`), phase, messages, p50_us, p90_us, ... (one per element of `of`), max_us.
    """
    from pyspark.sql import functions as F

    keys = ["queue", "bucket_us", "phase"] if by_minute else ["queue", "phase"]
    wanted = ", ".join(f"{one}D" for one in of)
    found = latencies.groupBy(*keys).agg(
        F.sum("messages").alias("messages"),
        F.expr(f"percentile(us, array({wanted}), messages)").alias("_p"),
        F.max("us").alias("max_us"),
    )
    names = [f"p{f'{one * 100:g}'.replace('.', '')}_us" for one in of]
    named = [F.col("_p")[i].cast("bigint").alias(name) for i, name in enumerate(names)]
    return found.select(*keys, "messages", *named, "max_us")


def redeliveries(lives: DataFrame) -> DataFrame:
    """How often messages had to be given out again.

    Returns:
        queue, messages (acquired at least once), redelivered (acquired more than once), redeliveries (how many times
        in all), most (of one message).
    """
    from pyspark.sql import functions as F

    return (
        lives.where("deliveries > 0")
        .groupBy("queue")
        .agg(
            F.sum("messages").alias("messages"),
            F.expr("coalesce(sum(case when deliveries > 1 then messages end), 0L)").alias("redelivered"),
            F.expr("sum((deliveries - 1) * messages)").alias("redeliveries"),
            F.max("deliveries").alias("most"),
        )
    )


def poison_suspects(lives: DataFrame, at_least: int = 3) -> DataFrame:
    """Messages that consumers took and gave back again and again.

    Returns:
        queue, position_first, position_last, messages, returns, deliveries, fate; worst first.
    """
    columns = ("queue", "position_first", "position_last", "messages", "returns", "deliveries", "fate")
    return lives.where(f"returns >= {int(at_least)}").select(*columns).orderBy("returns", "messages", ascending=False)
