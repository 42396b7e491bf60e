"""The event table on Spark, against the ways there are without us: `make bench-spark`, or one part by name.

history: 10 million rows counted by queue and minute; against `spark.read.parquet` and `createDataFrame` of pandas.
tail: the first answer from a live tail of 1 million rows on Ray; against `Dataset.to_spark`.
lives: life cycles of 1 and 10 million messages, and how that grows.

The start of Spark is not in any figure; each way has answered a small question before it is measured.
"""

from __future__ import annotations

import json
import logging
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..protocol.capture.event_table import SCHEMA_VERSION, TYPES, Tail
from .results import Collection, Figure, write

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

RESULTS = Path(__file__).parent / "results" / "spark.json"
ROUNDS, WARM_ROUNDS = 3, 2
HISTORY_ROWS, PANDAS_ROWS, TAIL_ROWS = 10_000_000, 1_000_000, 1_000_000
BLOCK_ROWS, PEER_BLOCK_ROWS, PART_ROWS = 16 * 1024, 250_000, 256 * 1024
LIVES = (1_000_000, 10_000_000)
QUEUES = 20
START_US = 1_760_000_000_000_000
STEP_US = 100  # one message of a queue to the next


def rows_of_messages(messages: int, seed: int = 1) -> pa.Table:
    """Messages enqueued, acquired and accepted, in batches of 1 to 64 that do not match each other: the event table."""
    import numpy as np
    import pyarrow as pa

    chance = np.random.default_rng(seed)
    each = messages // QUEUES
    columns: dict[str, list[Any]] = {
        name: [] for name in ("queue", "kind", "position_first", "position_last", "time_us")
    }
    for queue in range(QUEUES):
        for kind, delay_us in enumerate((0, 5_000, 20_000)):
            ends = np.cumsum(chance.choice([1, 2, 4, 8, 16, 64], size=each))
            ends = np.append(ends[ends < each], each).astype(np.int64)
            columns["queue"].append(np.full(len(ends), queue))
            columns["kind"].append(np.full(len(ends), kind))
            columns["position_first"].append(np.append(0, ends[:-1]) + 1)
            columns["position_last"].append(ends)
            columns["time_us"].append(START_US + ends * STEP_US + delay_us + chance.integers(0, 3000, len(ends)))
    found = {name: np.concatenate(parts) for name, parts in columns.items()}
    order = np.argsort(found["time_us"], kind="stable")
    found = {name: values[order] for name, values in found.items()}
    count = len(order)
    numbers = np.arange(1, count + 1, dtype=np.int64)
    size = found["position_last"] - found["position_first"] + 1
    zero = np.zeros(count, dtype=np.int64)
    kinds = np.array(["enqueue", "acquire", "accept"])
    broker = np.where(found["kind"] == 0, "", np.char.add("b", (found["queue"] % 3 + 1).astype(str)))
    values: dict[str, Any] = {
        "row": numbers, "seq": numbers, "term": zero + 1, "time_us": found["time_us"], "kind": kinds[found["kind"]],
        "queue": np.array([f"queue-{n}#{n}" for n in range(QUEUES)])[found["queue"]], "broker": broker,
        "client": np.where(found["kind"] == 0, "sender/1", ""), "inc": zero + 1,
        "position_first": found["position_first"], "position_last": found["position_last"], "count": size,
        "bytes": np.where(found["kind"] == 0, size * 1024, 0), "grant": zero + 1,
        "acquisition": np.where(found["kind"] == 0, 0, found["position_first"]),
        "number_first": np.where(found["kind"] == 0, found["position_first"], 0),
        "number_last": np.where(found["kind"] == 0, found["position_last"], 0),
        "part": np.zeros(count, dtype=np.int32), "effective": np.ones(count, dtype=bool), "detail": np.full(count, ""),
    }  # fmt: skip
    from ..store.events.event_parts import SCHEMA

    return pa.Table.from_arrays(
        [pa.array(values.get(name, zero), SCHEMA.field(name).type) for name in TYPES], schema=SCHEMA
    )


def rows(count: int) -> pa.Table:
    """Just so many rows."""
    table = rows_of_messages(count * 6)
    assert table.num_rows >= count
    return table.slice(0, count)


def store(table: pa.Table, directory: str) -> None:
    """As the cluster writes it."""
    from ..store.events.event_parts import write_part

    for first in range(0, table.num_rows, PART_ROWS):
        write_part(directory, table.slice(first, PART_ROWS), {})


def by_queue_and_minute(df: DataFrame) -> list[Any]:
    """The question of the first two parts."""
    from pyspark.sql import functions as F

    minute = F.expr("time_us div 60000000").alias("minute")
    return df.groupBy("queue", minute).agg(F.count("*"), F.sum("count"), F.sum("bytes")).collect()


def timed(ask: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = ask()
    return time.perf_counter() - began, found


def history(to: Collection, say: Callable[[str], None]) -> None:
    from ..jobs import events, session

    table = rows(HISTORY_ROWS)
    with tempfile.TemporaryDirectory() as directory, session.start("local", memory="4g") as running:
        say(f"writing {HISTORY_ROWS:,} rows")
        store(table, directory)
        size = sum(path.stat().st_size for path in Path(directory).iterdir())
        messages = table.select(["count"]).column(0).to_numpy().sum()
        to.add("manta", "history", "bytes_per_message", "B", size / messages)
        frame = table.slice(0, PANDAS_ROWS).to_pandas()
        running.spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
        ways: dict[str, tuple[int, Callable[[], Any]]] = {
            "manta": (HISTORY_ROWS, lambda: by_queue_and_minute(events.events(running, directory).df)),
            "read-parquet": (
                HISTORY_ROWS, lambda: by_queue_and_minute(running.spark.read.parquet(f"file://{directory}"))),
            "create-dataframe": (PANDAS_ROWS, lambda: by_queue_and_minute(running.spark.createDataFrame(frame))),
        }  # fmt: skip
        answers: dict[str, int] = {}
        for number in range(-WARM_ROUNDS, ROUNDS):
            for name, (count, ask) in ways.items():
                seconds, found = timed(ask)
                answers[name] = sum(row[2] for row in found)
                say(f"{'round' if number >= 0 else 'warm-up'}, {name}: {count / seconds:,.0f} rows/s")
                if number >= 0:
                    to.add(name, "history", "rows_per_s", "rows/s", count / seconds)
        assert answers["manta"] == answers["read-parquet"] == HISTORY_ROWS, answers
    _ratio(to, "history", "rows_per_s", "manta", "create-dataframe", "over_create_dataframe")
    _ratio(to, "history", "rows_per_s", "read-parquet", "manta", "time_over_read_parquet")


def tail(to: Collection, say: Callable[[str], None]) -> None:
    import ray

    from ..jobs import events, session
    from ..store.events.event_parts import to_ipc

    table = rows(TAIL_ROWS)
    # CPUs are only counted by Ray: two would leave `to_spark` none beside Spark's own.
    ray.init(address="local", num_cpus=4, include_dashboard=False, logging_level=logging.ERROR, log_to_driver=False)
    with session.start("ray", memory="1500m") as running:

        def ours(size: int) -> list[Any]:
            tables = [table.slice(i, BLOCK_ROWS) for i in range(0, size, BLOCK_ROWS)]
            blocks = [ray.put(to_ipc(one)) for one in tables]  # as the keeper of the tail holds them already
            now = Tail("", 1, size, blocks)
            seconds, found = timed(lambda: by_queue_and_minute(events.events(running, tail=now).df))
            events.release(running)
            return [seconds, found]

        def theirs(size: int) -> list[Any]:
            # In few large blocks, which it likes best; the tail comes in many small ones.
            tables = [table.slice(i, PEER_BLOCK_ROWS) for i in range(0, size, PEER_BLOCK_ROWS)]
            dataset = ray.data.from_arrow(tables).materialize()
            return [*timed(lambda: by_queue_and_minute(dataset.to_spark(running.spark)))]

        for name, ask in (("manta", ours), ("to-spark", theirs)):
            ask(BLOCK_ROWS)
            say(f"{name}: warm")
        for number in range(ROUNDS):
            for name, ask in (("manta", ours), ("to-spark", theirs)):
                seconds, found = ask(TAIL_ROWS)
                assert sum(row[2] for row in found) == TAIL_ROWS
                say(f"round {number + 1}, {name}: {seconds:.2f} s")
                to.add(name, "tail", "first_answer_s", "s", seconds)
    ray.shutdown()
    _ratio(to, "tail", "first_answer_s", "to-spark", "manta", "over_to_spark")


def lives(to: Collection, say: Callable[[str], None]) -> None:
    from pyspark.sql import functions as F

    from ..jobs import events, session
    from ..jobs.lifecycle import lifecycle

    with tempfile.TemporaryDirectory() as base, session.start("local", memory="6g") as running:
        frames: dict[int, DataFrame] = {}
        for messages in LIVES:
            directory = f"{base}/{messages}"
            store(rows_of_messages(messages), directory)
            frames[messages] = lifecycle(events.events(running, directory).df)
        question = [F.sum("messages"), F.count("*"), F.expr("avg(ended_us - enqueued_us)")]
        plan: Any = frames[LIVES[0]]
        python = sum(word in plan._jdf.queryExecution().toString() for word in ("Python", "BatchEval", "MapInPandas"))
        to.add("manta", "lives", "python_operators_in_plan", "count", python)
        frames[LIVES[0]].agg(*question).collect()
        for number in range(ROUNDS):
            took: dict[int, float] = {}
            for messages, frame in frames.items():
                took[messages], found = timed(lambda frame=frame: frame.agg(*question).collect())
                assert found[0][0] == messages
                say(f"round {number + 1}, {messages:,} messages, {found[0][1]:,} runs: {took[messages]:.2f} s")
                to.add("manta", f"lives-{messages}", "messages_per_s", "messages/s", messages / took[messages])
            growth = took[LIVES[1]] / took[LIVES[0]] / (LIVES[1] / LIVES[0])
            to.add("manta", "lives", "growth_over_linear", "ratio", growth)


def _ratio(to: Collection, workload: str, metric: str, above: str, below: str, name: str) -> None:
    for value in to.ratios((above, workload, metric), (below, workload, metric)):
        to.add("manta", workload, name, "ratio", value)


PARTS: dict[str, Callable[[Collection, Callable[[str], None]], None]] = {
    "history": history,
    "tail": tail,
    "lives": lives,
}


def main(wanted: list[str]) -> None:
    """Measure the parts named (all, if none is) and put them into the results file beside the others."""
    unknown = set(wanted) - set(PARTS)
    if unknown:
        sys.exit(f"bench-spark has {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")
    for name in wanted or PARTS:
        print(f"== {name} (schema {SCHEMA_VERSION})", flush=True)
        to = Collection()
        PARTS[name](to, lambda text: print(f"  {text}", flush=True))
        figures = to.figures()
        for one in figures:
            print(f"{one.system:18} {one.workload:16} {one.metric:26} {one.median:14,.3f} {one.unit}")
        before = [Figure(**one) for one in json.loads(RESULTS.read_text())] if RESULTS.exists() else []
        kept = [one for one in before if one.workload.partition("-")[0] != name]
        write(sorted([*kept, *figures], key=lambda one: (one.workload, one.system, one.metric)), RESULTS)


if __name__ == "__main__":
    main(sys.argv[1:])
