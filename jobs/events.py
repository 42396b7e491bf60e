"""The event table as one DataFrame: history from the parts, the live tail from the object store, each row once.

The tail is asked for first, the parts are listed after: whatever has left the tail by then is in a part, and what is in
both is read from the tail alone. So there is neither gap nor overlap, while the writer goes on.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..protocol.capture.event_table import TYPES, Tail, check_kinds
from ..protocol.errors import LocalError
from ..store.events.event_folders import newest_folder
from ..store.events.event_parts import SCHEMA, Skipped, TablePart, check_parts, filesystem, from_ipc, list_parts
from .session import Session

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_SPARK_TYPES = {"int64": "bigint", "int32": "int", "string": "string", "bool": "boolean"}
DDL = ", ".join(f"`{name}` {_SPARK_TYPES[kind]} not null" for name, kind in TYPES.items())
"""The table's schema as Spark says it."""
_HADOOP_SCHEMES = {"s3": "s3a", "file": "file", "local": "file", "gcs": "gs"}
FETCH_S = 30.0
"""How long Ray may take to bring the newest events here."""
STARTING_S = 0.2
"""A tap that is just starting is asked again after this time."""
SUPERVISOR_NAME = "manta/supervisor"


@dataclass(frozen=True)
class Events:
    """What `events` found.

    Attributes:
        df: the rows, with the columns of `protocol/capture/event_table.py`.
        parts: the parts it reads.
        skipped: files that are not read, and why.
        missing: ranges of rows that are in no part and not in the tail (skipped, or taken by retention in between).
        tail_rows: how many rows of the live tail there were.
    """

    df: DataFrame
    parts: list[TablePart]
    skipped: list[Skipped]
    missing: list[tuple[int, int]]
    tail_rows: int


def events(
    session: Session, directory: str = "", tail: Tail | None = None, since_us: int = 0, until_us: int = 0,
    queues: Sequence[str] = (), kinds: Sequence[str] = (),
) -> Events:  # fmt: skip
    """One DataFrame over history and live tail.

    Args:
        directory: where the parts are, or the folders of several clusters, of which the newest is meant; "" for the
            tail's.
        tail: what the tap's `tail()` answered just now (see `live_tail`); None: history only.
        since_us, until_us: only rows of this time (Unix microseconds, until exclusive); 0: open.
        queues: only these queues, by name ("orders") or id ("orders#3"); empty: all.
        kinds: only these kinds; empty: all.

    Parts outside the time are not opened; the rest of the filter goes down to the Parquet reader, which passes over row
    groups by their statistics.

    Raises:
        LocalError: there is no such kind.
    """
    check_kinds(kinds)
    directory = newest_folder(directory or (tail.directory if tail else ""))
    listing = list_parts(directory) if directory else None
    parts = listing.parts if listing else []
    skipped = list(listing.skipped) if listing else []
    before = tail.row_first if tail and tail.row_last >= tail.row_first else 0
    if before:
        parts = [part for part in parts if part.row_first < before]
    listed = parts
    parts = [
        part for part in parts if part.time_last_us >= since_us and (not until_us or part.time_first_us < until_us)
    ]
    passed_over = {part.row_first for part in listed} - {part.row_first for part in parts}
    checked = check_parts(directory, parts) if parts else None
    if checked:
        skipped += checked.skipped
        parts = checked.parts
    df = history(session, directory, parts)
    if before and parts and parts[-1].row_last >= before:
        df = df.where(df.row < before)
    if tail and before:
        df = df.unionAll(tail_frame(session, tail))
    there = [(part.row_first, part.row_last) for part in parts]
    there += [(part.row_first, part.row_last) for part in listed if part.row_first in passed_over]
    if tail and before:
        there.append((before, tail.row_last))
    condition = _condition(since_us, until_us, queues, kinds)
    if condition is not None:
        df = df.where(condition)
    return Events(df, parts, skipped, _holes(there), tail.row_last - before + 1 if tail and before else 0)


def history(session: Session, directory: str, parts: Sequence[TablePart]) -> DataFrame:
    """The rows of these parts; an empty frame with the schema if there are none."""
    if not parts:
        return session.spark.createDataFrame([], DDL)
    # A directory's name is no pattern, whatever is in it.
    reader = session.spark.read.schema(DDL).option("__globPaths__", "false")
    return reader.parquet(*(spark_path(directory, part.path) for part in parts))


def read_stream(session: Session, directory: str, parts_per_trigger: int = 16) -> DataFrame:
    """A streaming DataFrame over the same directory: each new part's rows as it appears (`spark.readStream`)."""
    directory = newest_folder(directory)
    filesystem(directory)[0].makedirs(filesystem(directory)[1], exist_ok=True)
    reader = session.spark.readStream.schema(DDL).option("maxFilesPerTrigger", parts_per_trigger)
    return reader.option("pathGlobFilter", "rows-*.parquet").parquet(spark_path(directory, filesystem(directory)[1]))


def spark_path(directory: str, path: str) -> str:
    """How Hadoop calls the fsspec path of a directory's file."""
    scheme = directory.partition("://")[0] if "://" in directory else "file"
    return f"{_HADOOP_SCHEMES.get(scheme, scheme)}://{path}"


def live_tail(namespace: str = "mantamq", timeout_s: float = 10.0) -> Tail | None:
    """The newest rows, from the actor that keeps them; None when there is no cluster that keeps events. One that is
    just starting, or is replaced, is waited for.

    Raises:
        LocalError: it does not answer in time.
    """
    import ray
    from ray.exceptions import RayActorError, RayError

    from ..protocol.capture.event_table import TAP_NAME

    until_s = time.monotonic() + timeout_s
    while True:
        left_s = max(until_s - time.monotonic(), STARTING_S)
        try:
            tap = ray.get_actor(TAP_NAME, namespace)
            return Tail(*ray.get(tap.tail.remote(), timeout=left_s))
        except RayError as error:
            why = type(error).__name__
            # What the tap raises while it starts is both: Ray's error, and its own.
            if not isinstance(error, LocalError | RayActorError):
                until_s = 0.0
        except ValueError:  # none has this name: nobody keeps events here, or the one that did has been given up
            if not _keeps_events(namespace, left_s):
                return None
            why = "it is being replaced"
        if time.monotonic() > until_s:
            raise LocalError(f"the events' tap does not answer: {why}; try without --live")
        time.sleep(STARTING_S)


def fetched(blocks: list[Any], timeout_s: float = FETCH_S) -> list[Any]:
    """The blocks of a tail as bytes, brought here by Ray where they are not.

    Raises:
        LocalError: they do not come in time.
    """
    if not blocks or isinstance(blocks[0], bytes):
        return blocks
    import ray
    from ray.exceptions import GetTimeoutError

    try:
        return ray.get(blocks, timeout=timeout_s)
    except GetTimeoutError:
        raise LocalError(
            f"the newest events are on hosts from which none has come within {timeout_s:g} s: let Ray's object "
            "managers through between those hosts and this one, or leave --live out"
        ) from None


def _keeps_events(namespace: str, timeout_s: float) -> bool:
    """Whether there is a cluster that is to have a tap. A supervisor that does not say so now is being replaced."""
    import ray
    from ray.exceptions import RayError

    try:
        supervisor: Any = ray.get_actor(SUPERVISOR_NAME, namespace)
        book: Any = ray.get(supervisor.book_now.remote(), timeout=timeout_s)
        return bool(book.events)
    except RayError:
        return True
    except ValueError:
        return False


def tail_frame(session: Session, tail: Tail) -> DataFrame:
    """The tail's blocks as a DataFrame. On Ray the executors' JVMs read them from the object store; no row passes
    through Python. Blocks stay pinned until the session stops or `release` is called."""
    if session.on_ray:
        return _from_object_store(session, tail.blocks)
    return _from_bytes(session, tail.blocks)


def release(session: Session) -> None:
    """Let go of the blocks of all frames made so far; frames over them can no longer be computed."""
    session.pins.clear()


def _from_object_store(session: Session, blocks: list[Any]) -> DataFrame:
    import ray
    from pyspark.sql.types import StructType
    from raydp.spark import dataset

    # RayDP's own way for blocks that are Arrow bytes; `Dataset.to_spark` takes it only for those it made itself.
    refs = [block if isinstance(block, ray.ObjectRef) else ray.put(block) for block in blocks]
    session.pins += refs
    schema: StructType = session.spark.createDataFrame([], DDL).schema
    convert: Any = dataset._convert_by_rdd
    df: DataFrame = convert(session.spark, refs, dataset.get_locations(refs), schema)
    # A block is a task, and a task costs more than reading a block.
    return df.coalesce(2 * session.spark.sparkContext.defaultParallelism)


def _from_bytes(session: Session, blocks: list[Any]) -> DataFrame:
    """Without RayDP: by way of a file, which plain Spark reads many times faster than it takes rows from Python."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    blocks = fetched(blocks)
    path = session.folder / f"tail-{uuid.uuid4().hex}.parquet"
    table = pa.concat_tables([from_ipc(block) for block in blocks]) if blocks else SCHEMA.empty_table()
    pq.write_table(table, path, compression="none", use_dictionary=True)
    return session.spark.read.schema(DDL).parquet(f"file://{path}")


def of_queues(queues: Sequence[str]) -> Column:
    """Whether a row is of one of these queues, by name ("orders") or id ("orders#3")."""
    from pyspark.sql import functions as F

    wanted = F.col("queue").isin([*queues])
    for name in queues:
        if "#" not in name:
            wanted = wanted | F.col("queue").startswith(f"{name}#")
    return wanted


def _condition(since_us: int, until_us: int, queues: Sequence[str], kinds: Sequence[str]) -> Column | None:
    from pyspark.sql import functions as F

    found: Column | None = None
    wanted: list[Column] = []
    if since_us:
        wanted.append(F.col("time_us") >= since_us)
    if until_us:
        wanted.append(F.col("time_us") < until_us)
    if kinds:
        wanted.append(F.col("kind").isin(list(kinds)))
    if queues:
        wanted.append(of_queues(queues))
    for one in wanted:
        found = one if found is None else found & one
    return found


def _holes(there: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Rows between the first and the last that nobody has."""
    holes: list[tuple[int, int]] = []
    at = 0
    for first, last in sorted(there):
        if at and first > at + 1:
            holes.append((at + 1, first - 1))
        at = max(at, last)
    return holes
