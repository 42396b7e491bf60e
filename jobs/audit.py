"""The six guarantees, asked of the event table itself.

Each queue's events are cut so that a message's own history is one group (see `spans.py`). Every event leaves a
message in a known state, so each pair of neighbours in that history is right or wrong by itself: no state has to be
carried, and Spark checks all messages at once. The audit shares no code with the machines it checks.

1. a completed transfer is on the cluster: enqueued once, at a place of its own, never lost
2. an acquired message is given to nobody else
3. an accepted message is forgotten everywhere
4. a released message is there again, at its old place
5. a rejected message is dead-lettered or discarded, once
6. what a broker held when it was evicted is there again, and the evicted has no say

And, as 0: the consume lock (nobody acquires without the current grant) and the table itself (no row twice).
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from .spans import aligned

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

GUARANTEES = {
    0: "one grant at a time, one order",
    1: "a transfer that is complete is on the cluster, once",
    2: "what is acquired is given to nobody else",
    3: "what is accepted is forgotten",
    4: "what is released is there again",
    5: "what is rejected is dead-lettered or discarded once",
    6: "what an evicted broker held is there again",
}
_KINDS = ("enqueue", "acquire", "accept", "release", "reject", "expire", "purge", "dead_letter", "evict",
          "discard", "set_aside", "delay", "due", "moved", "move_back")  # fmt: skip
GRACE_US = 10_000_000

# What an event leaves a message as.
_STATE = """
    case when kind in ('enqueue', 'release', 'evict', 'due', 'move_back') then 'available'
         when kind = 'delay' then 'delayed'
         when kind = 'acquire' and value = 0 then 'acquired'
         when kind = 'set_aside' or (kind = 'reject' and value = 1) then 'dead_lettering'
         else 'gone' end"""
_SAME_HOLDER = "broker = before_broker and inc = before_inc and acquisition = before_acquisition"
# (guarantee, rule, when): the first that fits names what is wrong with a pair of neighbours.
_PAIRS = [
    (1, "enqueued at a place that was taken", "kind = 'enqueue' and before is not null"),
    (1, "concerns a message that was never enqueued", "kind <> 'enqueue' and before is null"),
    (3, "accepted twice", "kind = 'accept' and before = 'accept'"),
    (3, "acquired after it was accepted", "kind = 'acquire' and before = 'accept'"),
    (3, "accepted, and then not forgotten",
     "(before = 'accept' or (before = 'acquire' and state = 'gone')) and kind <> 'enqueue'"),
    (5, "dead-lettered twice", "kind = 'dead_letter' and before = 'dead_letter'"),
    (5, "set aside, but not available",  # what a deleted queue held goes with it, and nobody's settlement counts
     "kind = 'set_aside' and state not in ('available', 'delayed') "
     "and not (state = 'acquired' and detail = 'deleted')"),
    (5, "dead-lettered, but neither rejected nor set aside",  # from an exchange's own queue they go on by themselves
     "kind = 'dead_letter' and state <> 'dead_lettering' and queue not like 'manta.exchange.%'"),
    (5, "rejected twice", "kind = 'reject' and before in ('reject', 'dead_letter')"),
    (5, "rejected or set aside, and then something else",
     "before in ('reject', 'set_aside', 'dead_letter') and kind not in ('dead_letter', 'moved', 'move_back')"),
    (5, "moved, but not set aside", "kind in ('moved', 'move_back') and state <> 'dead_lettering'"),
    (2, "acquired before it was due", "kind = 'acquire' and state = 'delayed'"),
    (4, "due, but not delayed", "kind = 'due' and state <> 'delayed'"),
    (2, "acquired by two at once", "kind = 'acquire' and state = 'acquired'"),
    (2, "gone while acquired", "kind in ('expire', 'purge') and state = 'acquired'"),
    (6, "requeued, but the evicted did not hold it",
     "kind = 'evict' and not (state = 'acquired' and broker = before_broker and before_inc <= inc)"),
    (4, "settled by one who had given it back",
     "kind in ('accept', 'release', 'reject') and before = 'release'"),
    (6, "settled by one who was evicted", "kind in ('accept', 'release', 'reject') and before = 'evict'"),
    (2, "settled by one who does not hold it",
     f"kind in ('accept', 'release', 'reject') and not (state = 'acquired' and {_SAME_HOLDER})"),
    (3, "gone, and then something else", "state = 'gone' and kind <> 'enqueue'"),
]  # fmt: skip


def audit(events: DataFrame, grace_us: int = GRACE_US) -> DataFrame:
    """Violations of the guarantees; none, if all is well.

    Args:
        events: the event table, unfiltered. It may begin anywhere: messages enqueued before that are left out. So are,
            of a queue of which events were dropped, those before the gap. Rows missing in the middle
            (`Events.missing`) make false alarms.
        grace_us: what is still on its way at the end of the table (a rejected message whose copy is not committed, a
            released one that nobody has taken yet) is no violation so long.

    Returns:
        guarantee (see `GUARANTEES`), rule, queue, position_first, position_last (0: of no message), seq, kind, broker:
        of the event that broke it; before: the kind of the event before it in the message's life.
    """
    events = _behind_gaps(events)
    found = [
        _histories(events, grace_us),
        _gaps(events),
        _numbers(events),
        _grants(events),
        _evicted_acts(events),
        _twice(events),
    ]
    return reduce(lambda a, b: a.unionAll(b), found)


def _behind_gaps(events: DataFrame) -> DataFrame:
    """Of each queue what is behind the last gap that the tap has left in it."""
    from pyspark.sql import functions as F

    gaps = events.where("kind = 'dropped' and queue <> ''").groupBy("queue").agg(F.max("seq").alias("_behind"))
    known = events.join(F.broadcast(gaps), "queue", "left")
    return known.where("_behind is null or seq >= _behind").drop("_behind").select(*events.columns)


def _finding(guarantee: int, rule: str, df: DataFrame, position_last: str = "position_last") -> DataFrame:
    from pyspark.sql import functions as F

    before = F.col("before") if "before" in df.columns else F.lit("")
    return df.select(
        F.lit(guarantee).alias("guarantee"), F.lit(rule).alias("rule"), "queue", "position_first",
        F.expr(position_last).alias("position_last"), "seq", "kind", "broker",
        F.coalesce(before, F.lit("")).alias("before"),
    )  # fmt: skip


def _histories(events: DataFrame, grace_us: int) -> DataFrame:
    """Rules about the neighbours in a message's life, and about its last event."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    about = events.where(F.col("effective") & F.col("kind").isin(list(_KINDS)) & (F.col("position_first") > 0))
    begin = about.where("kind = 'enqueue'").groupBy("queue").agg(F.min("position_first").alias("_begin"))
    columns = ("queue", "position_first", "position_last", "seq", "part", "time_us", "kind", "broker", "inc",
               "acquisition", "value", "detail")  # fmt: skip
    pieces = aligned(about.select(*columns)).join(F.broadcast(begin), "queue").where("position_first >= _begin")
    life = Window.partitionBy("queue", "position_first").orderBy("seq", "part")
    steps = pieces.select(
        *columns,
        F.lag("kind").over(life).alias("before"),
        F.lag(F.expr(_STATE)).over(life).alias("state"),
        F.lag("broker").over(life).alias("before_broker"),
        F.lag("inc").over(life).alias("before_inc"),
        F.lag("acquisition").over(life).alias("before_acquisition"),
        F.lead("seq").over(life).alias("after_seq"),
        F.expr(_STATE).alias("now"),
    )
    # What each of these needs beside the step itself is small, so all of them are asked in one pass.
    end = events.agg(F.max("time_us").alias("_end"))
    newest = about.where("kind = 'acquire'").groupBy("queue").agg(
        F.max("time_us").alias("_taken_us"), F.max_by("position_last", "seq").alias("_taken")
    )  # fmt: skip
    evictions = (
        events.where("kind = 'evict' and queue <> '' and part = 0")
        .groupBy("queue", "broker")
        .agg(F.collect_list(F.struct("inc", "seq")).alias("_evictions"))
    )
    known = (
        steps.crossJoin(F.broadcast(end))
        .join(F.broadcast(newest), "queue", "left")
        .join(F.broadcast(evictions), ["queue", "broker"], "left")
    )
    pairs = " ".join(f"when {when} then {_named(guarantee, rule)}" for guarantee, rule, when in _PAIRS)
    late = f"time_us < _end - {int(grace_us)}"
    passed_over = f"after_seq is null and _taken > position_last and _taken_us > time_us + {int(grace_us)}"
    spans_eviction = "inc <= e.inc and seq < e.seq and (after_seq is null or after_seq > e.seq)"
    others = [
        (5, "set aside, and never dead-lettered", f"after_seq is null and now = 'dead_lettering' and {late}"),
        (4, "released or due, and passed over since", f"kind in ('release', 'due') and {passed_over}"),
        (6, "requeued, and passed over since", f"kind = 'evict' and {passed_over}"),
        (6, "still held by one who was evicted", f"now = 'acquired' and exists(_evictions, e -> {spans_eviction})"),
    ]
    each = [f"case {pairs} end"]
    each += [f"case when {when} then {_named(guarantee, rule)} end" for guarantee, rule, when in others]
    return known.select(
        F.expr(f"explode(filter(array({', '.join(each)}), one -> one is not null))").alias("_one"),
        "queue", "position_first", "position_last", "seq", "kind", "broker",
        F.coalesce("before", F.lit("")).alias("before"),
    ).select(
        F.col("_one.guarantee"), F.col("_one.rule"), "queue", "position_first", "position_last", "seq", "kind",
        "broker", "before",
    )  # fmt: skip


def _named(guarantee: int, rule: str) -> str:
    return f"named_struct('guarantee', {guarantee}, 'rule', '{rule}')"


def _gaps(events: DataFrame) -> DataFrame:
    """Places among the enqueues that nobody took: a message that was given one is not there."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    order = Window.partitionBy("queue").orderBy("seq", "part")
    enqueues = events.where("effective and kind = 'enqueue'").withColumn(
        "_expected", F.lag("position_last").over(order) + 1
    )
    lost = enqueues.where("position_first > _expected").withColumn("position_last", F.expr("position_first - 1"))
    lost = lost.withColumn("position_first", F.col("_expected"))
    return _finding(1, "lost: a place in the queue without its message", lost)


def _numbers(events: DataFrame) -> DataFrame:
    """A client's numbered message in the same queue a second time."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    order = Window.partitionBy("queue", "client").orderBy("seq", "part")
    highest = F.max("number_last").over(order.rowsBetween(Window.unboundedPreceding, -1))
    numbered = events.where("effective and kind = 'enqueue' and client <> '' and number_first > 0")
    again = numbered.withColumn("_highest", highest).where("number_first <= _highest")
    return _finding(1, "a client's message enqueued twice", again)


def _grants(events: DataFrame) -> DataFrame:
    """Acquires by others than the holder of the current grant, and grants out of turn."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    order = Window.partitionBy("queue").orderBy("seq", "part")
    before = order.rowsBetween(Window.unboundedPreceding, -1)

    def latest(column: Column) -> Column:
        return F.last(F.when(F.col("kind") == "own", column), ignorenulls=True).over(before)

    turns = events.where("effective and queue <> '' and kind in ('own', 'acquire', 'evict')").select(
        "queue", "position_first", "position_last", "seq", "part", "kind", "broker", "grant",
        latest(F.col("broker")).alias("_holder"), latest(F.col("grant")).alias("_grant"),
    )  # fmt: skip
    # An eviction of the holder takes the grant away; nobody may acquire until the next own.
    evicted = F.last(
        F.when(F.col("kind") == "own", F.lit("")).when(F.col("kind") == "evict", F.col("broker")), ignorenulls=True
    ).over(before)
    turns = turns.withColumn("_evicted", F.coalesce(evicted, F.lit("")))
    unheld = turns.where(
        "kind = 'acquire' and _grant is not null and (grant <> _grant or broker <> _holder or _evicted = _holder)"
    )
    out_of_turn = turns.where("kind = 'own' and grant <= _grant")
    return _finding(0, "acquired without the consume lock", unheld).unionAll(
        _finding(0, "a grant that does not rise", out_of_turn)
    )


def _evicted_acts(events: DataFrame) -> DataFrame:
    """Events of an evicted incarnation that had an effect all the same."""
    from pyspark.sql import functions as F

    evictions = events.where("kind = 'evict' and queue <> '' and part = 0").select(
        "queue", "broker", F.col("inc").alias("_inc"), F.col("seq").alias("_evicted")
    )
    acts = events.where("effective and kind in ('acquire', 'accept', 'release', 'reject')")
    late = acts.join(F.broadcast(evictions), ["queue", "broker"]).where("inc <= _inc and seq > _evicted")
    return _finding(6, "an evicted broker acted", late)


def _twice(events: DataFrame) -> DataFrame:
    """One event of a stream twice. (Of different streams two may have the same `seq`: a sequencer that takes over
    learns how far each stream has come one after the other.)"""
    from pyspark.sql import functions as F

    one = F.first
    doubled = (
        events.where("part >= 0")
        .groupBy("queue", "kind", "seq", "part")
        .agg(F.count("*").alias("_n"), *(one(c).alias(c) for c in ("position_first", "position_last", "broker")))
        .where("_n > 1")
    )  # fmt: skip
    return _finding(0, "an event of the table twice", doubled)


def verdict(found: DataFrame) -> DataFrame:
    """Violations counted.

    Returns:
        guarantee, rule, times, queue and position of one example, seq of the first.
    """
    from pyspark.sql import functions as F

    return (
        found.groupBy("guarantee", "rule")
        .agg(F.count("*").alias("times"), F.min(F.struct("seq", "queue", "position_first")).alias("_one"))
        .select("guarantee", "rule", "times", F.col("_one.queue").alias("queue"),
                F.col("_one.position_first").alias("position"), F.col("_one.seq").alias("seq"))
        .orderBy("guarantee", "rule")
    )  # fmt: skip
