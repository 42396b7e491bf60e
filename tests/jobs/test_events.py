"""History and live tail as one DataFrame, while the writer goes on."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mantamq.jobs.events import DDL, events, read_stream, tail_frame
from mantamq.protocol.capture.event_table import TYPES, Row
from mantamq.store.events.event_parts import SCHEMA, EventWriter, WriterLimits, list_parts, read_parts, write_part

SECOND = 1_000_000
KINDS = ("enqueue", "acquire", "accept")


def fill(writer: EventWriter, first: int, last: int) -> None:
    for seq in range(first, last + 1):
        queue = f"q{seq % 2}#{seq % 2}"
        one = Row(term=1, seq=seq, time_us=seq * SECOND, kind=KINDS[seq % 3], queue=queue, position_first=seq)
        writer.append(queue, seq, [one])


def rows_of(df) -> list[int]:
    return sorted(row["row"] for row in df.select("row").collect())


@pytest.fixture
def writer(tmp_path: Path) -> EventWriter:
    return EventWriter(str(tmp_path), WriterLimits(block_rows=10))


def test_every_row_once_whatever_the_writer_does_meanwhile(spark, writer):
    """The tail is asked for, then the writer goes on, then the parts are listed."""
    fill(writer, 1, 30)
    writer.roll()
    fill(writer, 31, 55)
    before = writer.tail()
    fill(writer, 56, 70)
    writer.roll()  # the tail's rows are in a part too, now, and newer ones with them
    fill(writer, 71, 75)
    found = events(spark, tail=before)
    assert rows_of(found.df) == list(range(1, 56))
    assert found.missing == [] and found.tail_rows == 25
    now = events(spark, tail=writer.tail())
    assert rows_of(now.df) == list(range(1, 76))
    assert rows_of(events(spark, writer.directory).df) == list(range(1, 71))


def test_a_tail_that_begins_inside_a_part(spark, writer):
    fill(writer, 1, 20)
    writer.roll()
    fill(writer, 21, 30)
    tail = writer.tail()
    fill(writer, 31, 40)
    writer.roll()
    # As if the writer had put the tail's rows and some before them into one part.
    joined = read_parts(writer.directory, list_parts(writer.directory).parts).sort_by("row")
    for part in list_parts(writer.directory).parts:
        Path(part.path).unlink()
    write_part(writer.directory, joined, {})
    assert rows_of(events(spark, tail=tail).df) == list(range(1, 31))


def test_the_columns_are_the_tables(spark, writer):
    fill(writer, 1, 5)
    writer.roll()
    fill(writer, 6, 8)
    df = events(spark, tail=writer.tail()).df
    assert df.columns == list(TYPES)
    spark_types = {"bigint": "int64", "int": "int32", "string": "string", "boolean": "bool"}
    assert [spark_types[kind] for _, kind in df.dtypes] == list(TYPES.values())
    first = df.orderBy("row").first()
    assert Row(*first) == Row(row=1, term=1, seq=1, time_us=SECOND, kind="acquire", queue="q1#1", position_first=1)


def test_nothing_there_is_an_empty_frame(spark, tmp_path):
    for found in (events(spark, str(tmp_path / "none")), events(spark)):
        assert found.df.count() == 0
        assert found.df.columns == list(TYPES)


def test_only_a_tail(spark):
    writer = EventWriter("memory://only/a/tail", WriterLimits(block_rows=4))
    fill(writer, 1, 10)
    found = events(spark, tail=writer.tail())
    assert rows_of(found.df) == list(range(1, 11)) and found.parts == []


def test_filters(spark, writer):
    for n in range(4):
        fill(writer, 25 * n + 1, 25 * n + 25)
        if n < 3:
            writer.roll()
    tail = writer.tail()

    def found(**how) -> set[int]:
        return set(rows_of(events(spark, tail=tail, **how).df))

    whole = range(1, 101)
    assert found(since_us=60 * SECOND) == {n for n in whole if n >= 60}
    assert found(until_us=60 * SECOND) == {n for n in whole if n < 60}
    assert found(since_us=20 * SECOND, until_us=90 * SECOND) == set(range(20, 90))
    assert found(kinds=["accept"]) == {n for n in whole if n % 3 == 2}
    assert found(queues=["q1"]) == found(queues=["q1#1"]) == {n for n in whole if n % 2}
    assert found(queues=["q"]) == found(queues=["q1#"]) == set()
    assert found(queues=["q0", "q1#1"]) == set(whole)
    assert found(queues=["q1"], kinds=["acquire"], since_us=10 * SECOND) == {n for n in range(10, 101) if n % 6 == 1}


def test_filters_go_down_to_the_reader(spark, writer):
    for n in range(3):
        fill(writer, 100 * n + 1, 100 * n + 100)
        writer.roll()
    found = events(spark, writer.directory, since_us=150 * SECOND, queues=["q1"], kinds=["accept"])
    assert [part.row_first for part in found.parts] == [101, 201]  # the first is not even opened
    assert found.missing == []
    spark.spark.conf.set("spark.sql.maxMetadataStringLength", "10000")
    plan = found.df._jdf.queryExecution().executedPlan().toString()
    pushed = plan.partition("PushedFilters: [")[2].partition("]")[0]
    assert "GreaterThanOrEqual(time_us,150000000)" in pushed
    assert "EqualTo(kind,accept)" in pushed or "In(kind" in pushed
    assert "StringStartsWith(queue,q1#)" in pushed
    few = found.df.select("row")._jdf.queryExecution().executedPlan().toString()
    read = few.partition("ReadSchema: ")[2].partition(">")[0]
    assert read == "struct<row:bigint,time_us:bigint,kind:string,queue:string"


def test_damaged_parts_are_named_and_their_rows_missing(spark, writer):
    for n in range(3):
        fill(writer, 10 * n + 1, 10 * n + 10)
        writer.roll()
    middle = Path(list_parts(writer.directory).parts[1].path)
    middle.write_bytes(middle.read_bytes()[:100])
    Path(writer.directory, "stray.parquet").write_bytes(b"?")
    found = events(spark, writer.directory)
    assert rows_of(found.df) == [*range(1, 11), *range(21, 31)]
    assert found.missing == [(11, 20)]
    assert {Path(one.path).name for one in found.skipped} == {middle.name, "stray.parquet"}


def test_an_older_schema_is_skipped(spark, writer):
    fill(writer, 1, 10)
    part = writer.roll()
    assert part is not None
    old = pq.read_table(part.path).drop_columns(["detail"]).replace_schema_metadata({b"mantamq.schema_version": b"0"})
    pq.write_table(old, part.path)
    found = events(spark, writer.directory)
    assert found.df.count() == 0
    assert "schema version 0" in found.skipped[0].why


def test_a_part_that_retention_takes_meanwhile_is_no_failure(spark, writer):
    for n in range(2):
        fill(writer, 10 * n + 1, 10 * n + 10)
        writer.roll()
    found = events(spark, writer.directory)
    Path(found.parts[0].path).unlink()
    assert rows_of(found.df) == list(range(11, 21))


@pytest.mark.parametrize("name", ["with space", "a[1]{b}*?", "ümläut", "per%20cent"])
def test_any_directory_name(spark, tmp_path, name):
    writer = EventWriter(str(tmp_path / name))
    fill(writer, 1, 10)
    writer.roll()
    assert rows_of(events(spark, writer.directory).df) == list(range(1, 11))


def test_a_stream_over_the_same_directory(spark, writer, tmp_path):
    fill(writer, 1, 10)
    writer.roll()
    stream = read_stream(spark, writer.directory)
    assert stream.isStreaming and stream.columns == list(TYPES)
    query = (
        stream.select("row").writeStream.format("memory").queryName("streamed")
        .option("checkpointLocation", str(tmp_path.parent / f"{tmp_path.name}-checkpoint")).start()
    )  # fmt: skip
    try:
        query.processAllAvailable()
        assert rows_of(spark.spark.table("streamed")) == list(range(1, 11))
        Path(writer.directory, ".writing-torn").write_bytes(b"PAR1 torn")
        fill(writer, 11, 30)
        writer.roll()
        query.processAllAvailable()
        assert rows_of(spark.spark.table("streamed")) == list(range(1, 31))
    finally:
        query.stop()


def test_a_tail_of_no_blocks(spark, writer):
    assert tail_frame(spark, writer.tail()).count() == 0


def test_the_schema_maps_to_spark_and_back(spark):
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    wanted = spark.spark.createDataFrame([], DDL).schema
    assert from_arrow_schema(SCHEMA) == wanted
    assert to_arrow_schema(wanted).types == SCHEMA.types
    assert pa.schema(SCHEMA).names == list(TYPES)
