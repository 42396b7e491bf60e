"""Ranges of messages, cut so that they can be joined by equality.

A row of the event table is about a run of positions, and the runs of an enqueue, its acquires and its accepts overlap
in any way. `aligned` cuts them at each other's ends. After that two runs of a queue are the same or have no message in
common, so a plain `groupBy("queue", "position_first")` brings a message's events together, at the cost of runs rather
than of messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

BLOCK = 1024
"""Runs are cut at multiples of this too: so work divides, and a block's list of cuts stays short."""


def aligned(df: DataFrame) -> DataFrame:
    """The same rows with their runs cut at each other's ends, per queue.

    Args:
        df: `queue`, `position_first`, `position_last` and any other columns; rows without positions are left out.

    Returns:
        The columns of `df`; `position_first` and `position_last` of the piece. (A `count` or `bytes` column would still
        be that of the whole run: leave it out.)
    """
    from pyspark.sql import functions as F

    columns = df.columns
    pieces = (
        df.where("position_first > 0")
        .withColumn("_block", F.expr(f"explode(sequence(position_first div {BLOCK}, position_last div {BLOCK}))"))
        .withColumn("position_first", F.expr(f"greatest(position_first, _block * {BLOCK})"))
        .withColumn("position_last", F.expr(f"least(position_last, _block * {BLOCK} + {BLOCK - 1})"))
    )
    single = pieces.where("position_first = position_last")
    long = pieces.where("position_first < position_last")
    cuts = (
        pieces.select("queue", "_block", F.expr("explode(array(position_first, position_last + 1))").alias("_cut"))
        .groupBy("queue", "_block")
        .agg(F.sort_array(F.collect_set("_cut")).alias("_cuts"))
    )
    # A run's own ends are among its block's cuts, so what it is cut into is the stretch between them.
    start = "array_position(_cuts, position_first)"
    size = f"(array_position(_cuts, position_last + 1) - {start})"
    stretch = f"arrays_zip(slice(_cuts, {start}, {size}), slice(_cuts, {start} + 1, {size}))"
    others = [name for name in columns if name not in ("position_first", "position_last")]
    cut = (
        long.join(cuts, ["queue", "_block"])
        .select(*others, F.expr(f"inline({stretch})").alias("position_first", "_next"))
        .withColumn("position_last", F.expr("_next - 1"))
    )
    return single.select(*columns).unionAll(cut.select(*columns))
