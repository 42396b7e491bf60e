"""Timelines of the consume lock's owner, of the cluster's members, and of the leading sequencer."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def ownership(events: DataFrame) -> DataFrame:
    """The consume lock of each queue, as one row per time somebody held it.

    Returns:
        queue, broker, grant, from_us, until_us (null: still held), how ("hand_over", "released", "evicted", null), next
        (broker; "" for nobody), acquired (messages acquired under this grant).
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    changes = events.where("effective and kind in ('own', 'evict') and queue <> '' and part = 0").select(
        "queue", "seq", "time_us", "kind", "broker", "grant"
    )
    order = Window.partitionBy("queue").orderBy("seq")
    # Eviction of somebody who does not hold the lock changes nothing.
    holder = F.last(F.when(F.col("kind") == "own", F.col("broker")), ignorenulls=True).over(
        order.rowsBetween(Window.unboundedPreceding, -1)
    )
    changes = changes.withColumn("_holder", holder).where("kind = 'own' or broker = _holder")
    spans = changes.select(
        "queue", "kind", "broker", "grant", F.col("time_us").alias("from_us"),
        F.lead("time_us").over(order).alias("until_us"),
        F.lead("kind").over(order).alias("_next_kind"),
        F.lead("broker").over(order).alias("_next"),
    ).where("kind = 'own' and broker <> ''")  # fmt: skip
    taken = (
        events.where("effective and kind = 'acquire'").groupBy("queue", "grant").agg(F.sum("count").alias("acquired"))
    )
    how = """case when _next_kind is null then null when _next_kind = 'evict' then 'evicted'
             when _next = '' then 'released' else 'hand_over' end"""
    return spans.join(taken, ["queue", "grant"], "left").select(
        "queue", "broker", "grant", "from_us", "until_us", F.expr(how).alias("how"),
        F.expr("case when _next_kind = 'evict' then '' else coalesce(_next, '') end").alias("next"),
        F.expr("coalesce(acquired, 0L)").alias("acquired"),
    )  # fmt: skip


def lock_fairness(ownership: DataFrame, until_us: int) -> DataFrame:
    """How fairly the consume lock was shared.

    Args:
        ownership: what `ownership` made.
        until_us: the end of the table's time, for locks that are still held.

    Returns:
        queue, broker, times, held_us, share (of the time anybody held it), acquired, acquired_per_s; fairness (Jain's
        index of the brokers' held times: 1 is even, 1/n is all for one).
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    held = (
        ownership.withColumn("_us", F.coalesce("until_us", F.lit(until_us)) - F.col("from_us"))
        .groupBy("queue", "broker")
        .agg(F.count("*").alias("times"), F.sum("_us").alias("held_us"), F.sum("acquired").alias("acquired"))
    )
    whole = Window.partitionBy("queue")
    total = F.sum("held_us").over(whole)
    squares = F.sum(F.col("held_us") * F.col("held_us").cast("double")).over(whole)
    return held.select(
        "queue", "broker", "times", "held_us", (F.col("held_us") / total).alias("share"), "acquired",
        F.expr("acquired / (held_us / 1e6)").alias("acquired_per_s"),
        (total * total.cast("double") / (F.count("*").over(whole) * squares)).alias("fairness"),
    )  # fmt: skip


def handover_cost(events: DataFrame) -> DataFrame:
    """What it costs to pass the consume lock on.

    The gap is from the last acquire under the old grant to the first one under the new: no message moved in between.

    Returns:
        queue, handovers, gap_p50_us, gap_p99_us, gap_total_us, messages_per_slice (acquired per grant, mean).
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    grants = (
        events.where("effective and kind = 'acquire'")
        .groupBy("queue", "grant", "broker")
        .agg(F.min("time_us").alias("first_us"), F.max("time_us").alias("last_us"), F.sum("count").alias("messages"))
    )
    order = Window.partitionBy("queue").orderBy("grant")
    gaps = grants.select(
        "queue", "messages",
        F.when(F.lag("broker").over(order) != F.col("broker"), F.col("first_us") - F.lag("last_us").over(order))
        .alias("gap_us"),
    )  # fmt: skip
    return gaps.groupBy("queue").agg(
        F.count("gap_us").alias("handovers"),
        F.expr("cast(percentile(gap_us, 0.5D) as bigint)").alias("gap_p50_us"),
        F.expr("cast(percentile(gap_us, 0.99D) as bigint)").alias("gap_p99_us"),
        F.sum("gap_us").alias("gap_total_us"),
        F.avg("messages").alias("messages_per_slice"),
    )


def membership(events: DataFrame) -> DataFrame:
    """Members that came and went, in order.

    Returns:
        time_us, seq, kind ("join", "leave", "evict", "rejoin"), broker, inc.
    """
    return (
        events.where("kind in ('join', 'leave', 'rejoin') or (kind = 'evict' and part = 0)")
        .groupBy("kind", "broker", "inc")
        .agg({"time_us": "min", "seq": "min"})
        .selectExpr("`min(time_us)` as time_us", "`min(seq)` as seq", "kind", "broker", "inc")
        .orderBy("seq")
    )


def dropped(events: DataFrame) -> DataFrame:
    """Where the table lacks events, because its keeper was away or too slow.

    Returns:
        stream (a queue's id, "cluster", or of what a process saw itself), times, events, from_us, until_us.
    """
    from pyspark.sql import functions as F

    return (
        events.where("kind = 'dropped'")
        .groupBy(F.col("detail").alias("stream"))
        .agg(
            F.count("*").alias("times"), F.sum("value").alias("events"),
            F.min("time_us").alias("from_us"), F.max("time_us").alias("until_us"),
        )
        .orderBy("stream")
    )  # fmt: skip


def failovers(events: DataFrame) -> DataFrame:
    """The sequencer's terms: when each began and what that cost.

    Returns:
        term, sequencer (uid), started_us, stopped_us (the last event of the term before; null for the first), gap_us
        (nothing was committed for so long), first_us (the first event after the start), evicted (brokers, comma
        separated), events (rows of the term).
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    terms = events.where("term > 0 and part >= 0").groupBy("term").agg(
        F.expr("max(case when kind = 'start' then value end)").alias("sequencer"),
        F.min("time_us").alias("started_us"),
        F.max("time_us").alias("_last"),
        F.expr("min(case when kind <> 'start' then time_us end)").alias("first_us"),
        F.expr("array_join(array_sort(collect_set(case when kind = 'evict' then broker end)), ', ')").alias("evicted"),
        F.count("*").alias("events"),
    )  # fmt: skip
    order = Window.orderBy("term")
    return terms.select(
        "term", "sequencer", "started_us", F.lag("_last").over(order).alias("stopped_us"),
        (F.col("started_us") - F.lag("_last").over(order)).alias("gap_us"), "first_us", "evicted", "events",
    ).orderBy("term")  # fmt: skip
