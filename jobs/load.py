"""How much went through, how much waits, who took it, and who was held back."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_GONE = """
    (kind in ('accept', 'expire', 'purge', 'dead_letter', 'moved', 'discard') or (kind = 'acquire' and value = 1)
     or (kind = 'reject' and value = 0))"""
MINUTE_US = 60_000_000


def throughput(events: DataFrame, bucket_us: int = MINUTE_US) -> DataFrame:
    """Messages per queue and minute.

    Returns:
        queue, bucket_us (start of the minute, Unix microseconds), enqueued, acquired, accepted, rejected, expired,
        enqueued_bytes, rows (of the table).
    """
    from pyspark.sql import functions as F

    def messages(condition: str) -> str:
        return f"coalesce(sum(case when {condition} then `count` end), 0L)"

    return (
        events.where("effective and position_first > 0")
        .groupBy("queue", F.expr(f"time_us - time_us % {int(bucket_us)}").alias("bucket_us"))
        .agg(
            F.expr(messages("kind = 'enqueue'")).alias("enqueued"),
            F.expr(messages("kind = 'acquire'")).alias("acquired"),
            F.expr(messages("kind = 'accept' or (kind = 'acquire' and value = 1)")).alias("accepted"),
            F.expr(messages("kind = 'reject'")).alias("rejected"),
            F.expr(messages("kind = 'expire'")).alias("expired"),
            F.sum("bytes").alias("enqueued_bytes"),
            F.count("*").alias("rows"),
        )
    )


def depth(events: DataFrame, bucket_us: int = MINUTE_US) -> DataFrame:
    """How many messages each queue held at the end of each minute in which something happened.

    Args:
        events: from the queue's beginning. If the beginning is not in the table any more, what waited then counts only
            as far as it is seen to leave.

    Returns:
        queue, bucket_us, depth (messages that are not gone, acquired ones among them), acquired.
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    given = "kind = 'acquire' and value = 0"
    back = "kind in ('accept', 'release', 'reject', 'evict') or (kind = 'discard' and value = 1)"
    changes = (
        events.where("effective and position_first > 0")
        .groupBy("queue", F.expr(f"time_us - time_us % {int(bucket_us)}").alias("bucket_us"))
        .agg(
            F.expr(f"sum(case when kind = 'enqueue' then `count` when {_GONE} then -`count` else 0L end)").alias("_in"),
            F.expr(f"sum(case when {given} then `count` when {back} then -`count` else 0L end)").alias("_held"),
        )
    )
    until = Window.partitionBy("queue").orderBy("bucket_us")
    whole = Window.partitionBy("queue")
    sums = changes.select("queue", "bucket_us", F.sum("_in").over(until).alias("_in"),
                          F.sum("_held").over(until).alias("_held"))  # fmt: skip
    unseen = {name: F.least(F.lit(0), F.min(name).over(whole)) for name in ("_in", "_held")}
    return sums.select(
        "queue", "bucket_us",
        (F.col("_in") - unseen["_in"]).alias("depth"), (F.col("_held") - unseen["_held"]).alias("acquired"),
    )  # fmt: skip


def oldest(lives: DataFrame, at_us: int) -> DataFrame:
    """The oldest message that was still there at `at_us`.

    Args:
        lives: what `lifecycle` made.
        at_us: Unix microseconds.

    Returns:
        queue, position (of the oldest), age_us, waiting (messages there at the time).
    """
    from pyspark.sql import functions as F

    there = lives.where((F.col("enqueued_us") <= at_us) & (F.col("ended_us").isNull() | (F.col("ended_us") > at_us)))
    found = there.groupBy("queue").agg(
        F.min(F.struct("enqueued_us", "position_first")).alias("_oldest"), F.sum("messages").alias("waiting")
    )
    return found.select(
        "queue", F.col("_oldest.position_first").alias("position"),
        (F.lit(at_us) - F.col("_oldest.enqueued_us")).alias("age_us"), "waiting",
    )  # fmt: skip


def oldest_over_time(lives: DataFrame, bucket_us: int = MINUTE_US) -> DataFrame:
    """Age of the oldest message, at the end of every minute from the first enqueue to the last event.

    Returns:
        queue, bucket_us, age_us; no row for a minute at whose end the queue was empty.
    """
    from pyspark.sql import functions as F

    step = int(bucket_us)
    last = lives.groupBy("queue").agg(F.expr("max(greatest(enqueued_us, acquired_last_us, ended_us))").alias("_last"))
    # A message of age a at a bucket's end was there at the ends of all buckets since: only the oldest per first and
    # last bucket matters, which keeps what is exploded small.
    spans = (
        lives.where("enqueued_us is not null")
        .join(F.broadcast(last), "queue")
        .select("queue", "enqueued_us", F.expr(f"enqueued_us div {step}").alias("_from"),
                F.expr(f"(coalesce(ended_us, _last + {step}) div {step}) - 1").alias("_to"))
        .where("_from <= _to")
        .groupBy("queue", "_from", "_to")
        .agg(F.min("enqueued_us").alias("enqueued_us"))
    )  # fmt: skip
    return (
        spans.select("queue", "enqueued_us", F.expr("explode(sequence(_from, _to))").alias("_bucket"))
        .groupBy("queue", F.expr(f"_bucket * {step}").alias("bucket_us"))
        .agg(F.min("enqueued_us").alias("_first"))
        .select("queue", "bucket_us", F.expr(f"bucket_us + {step} - _first").alias("age_us"))
    )


def consumer_share(events: DataFrame) -> DataFrame:
    """Which broker's consumers took how much of each queue.

    Returns:
        queue, broker, acquired, accepted (messages), share (of the queue's acquired messages, 0 to 1).
    """
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    taken = (
        events.where("effective and kind in ('acquire', 'accept')")
        .groupBy("queue", "broker")
        .agg(
            F.expr("coalesce(sum(case when kind = 'acquire' then `count` end), 0L)").alias("acquired"),
            F.expr(
                "coalesce(sum(case when kind = 'accept' or (kind = 'acquire' and value = 1) then `count` end), 0L)"
            ).alias("accepted"),
        )
    )
    total = F.sum("acquired").over(Window.partitionBy("queue"))
    return taken.select("queue", "broker", "acquired", "accepted", (F.col("acquired") / total).alias("share"))


def flow_control(events: DataFrame) -> DataFrame:
    """How long senders and receivers were held back.

    Returns:
        queue, broker, kind ("flow_control": senders were stopped; "credit_stall": a receiver had no credit), times,
        total_us, longest_us. A stop that has not ended is not in it.
    """
    from pyspark.sql import functions as F

    return (
        events.where("kind in ('flow_off', 'credit_stall')")
        .groupBy("queue", "broker", F.expr("if(kind = 'flow_off', 'flow_control', kind)").alias("kind"))
        .agg(F.count("*").alias("times"), F.sum("value").alias("total_us"), F.max("value").alias("longest_us"))
    )
