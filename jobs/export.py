"""The event table out of its directory into one file, without Spark or Java."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from ..protocol.capture.event_table import Tail, check_kinds
from ..protocol.errors import LocalError
from ..store.events.event_folders import newest_folder
from ..store.events.event_parts import SCHEMA, Skipped, check_parts, from_ipc, list_parts, read_parts

pc: Any = pyarrow.compute  # its functions are made when it loads, unknown to type checkers
FORMATS = ("parquet", "csv", "jsonl")


def export(
    path: Path, form: str, directory: str = "", tail: Tail | None = None, since_us: int = 0, until_us: int = 0,
    queues: Sequence[str] = (), kinds: Sequence[str] = (), say: Callable[[int, int], None] | None = None,
) -> tuple[int, list[Skipped]]:  # fmt: skip
    """Write the rows that fit, in the table's order, part by part.

    Args:
        form: one of `FORMATS`.
        directory, tail, since_us, until_us, queues, kinds: as of `jobs.events.events`.
        say: told which part out of how many is done.

    Returns:
        How many rows; what was not read.

    Raises:
        LocalError: unknown format or kind, or there are neither parts nor a tail.
    """
    if form not in FORMATS:
        raise LocalError(f"events are exported as {', '.join(FORMATS)}, not {form!r}")
    check_kinds(kinds)
    directory = newest_folder(directory or (tail.directory if tail else ""))
    listing = list_parts(directory)
    if not listing.parts and tail is None:
        raise LocalError(
            f"there are no events in {directory}: is it the directory the cluster writes them to? It writes them once "
            "a minute; --live asks it for the others"
        )
    before = tail.row_first if tail and tail.row_last >= tail.row_first else 0
    wanted = [
        part
        for part in listing.parts
        if part.time_last_us >= since_us
        and (not until_us or part.time_first_us < until_us)
        and (not before or part.row_first < before)
    ]
    checked = check_parts(directory, wanted)

    def tables() -> Iterator[pa.Table]:
        for i, part in enumerate(checked.parts):
            table = read_parts(directory, [part]).sort_by("row")
            yield table.filter(pc.field("row") < before) if before else table
            if say:
                say(i + 1, len(checked.parts))
        if tail and before:
            yield from (from_ipc(block) for block in tail.blocks)

    count = 0
    temporary = path.with_name(f".{path.name}.writing")
    try:
        with _writer(temporary, form) as write:
            for table in tables():
                table = fitting(table, since_us, until_us, queues, kinds)
                count += table.num_rows
                write(table)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return count, listing.skipped + checked.skipped


class _writer:
    """A file that takes tables, one after another."""

    def __init__(self, path: Path, form: str) -> None:
        if form == "jsonl":
            file = path.open("w", encoding="utf-8")
            self._close, self._write = file.close, lambda table: _json_lines(file, table)
            return
        made: Any = pyarrow.csv.CSVWriter(str(path), SCHEMA) if form == "csv" else _parquet(path)
        self._close, self._write = made.close, made.write_table

    def __enter__(self) -> Callable[[pa.Table], Any]:
        return self._write

    def __exit__(self, *_: object) -> None:
        self._close()


def _parquet(path: Path) -> Any:
    return pyarrow.parquet.ParquetWriter(str(path), SCHEMA, compression="zstd")


def _json_lines(file: Any, table: pa.Table) -> None:
    import json

    for batch in table.to_batches(16 * 1024):
        file.writelines(json.dumps(row) + "\n" for row in batch.to_pylist())


def fitting(table: pa.Table, since_us: int, until_us: int, queues: Sequence[str], kinds: Sequence[str]) -> pa.Table:
    """The rows of these times, queues and kinds; of all, where none are named."""
    fit: Any = pc.scalar(True)
    if since_us:
        fit = fit & (pc.field("time_us") >= since_us)
    if until_us:
        fit = fit & (pc.field("time_us") < until_us)
    if kinds:
        fit = fit & pc.field("kind").isin(list(kinds))
    if queues:
        any_of = pc.field("queue").isin(list(queues))
        for name in queues:
            if "#" not in name:
                any_of = any_of | pc.starts_with(pc.field("queue"), pattern=f"{name}#")
        fit = fit & any_of
    return table.filter(fit)
