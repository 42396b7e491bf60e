"""The event table on disk: Parquet parts, each named by the rows and the time it covers.

A part is written under a hidden temporary name and renamed when it is whole, so a reader meets whole parts only, and
what a killed writer leaves behind has a hidden name. Which rows are there is told by the names alone: listing reads
nothing. A part's footer also says how far into each stream of the log it goes, so a writer that starts again goes on
there, and rows are neither repeated nor left out.

Any directory will do that fsspec can write to (``/path``, ``s3://bucket/path``, ...).
"""

from __future__ import annotations

import io
import json
import os
import re
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet

from ...protocol.capture.event_table import SCHEMA_VERSION, TYPES, Row, Tail
from ...protocol.errors import LocalError

pc: Any = pyarrow.compute  # its functions are made when it loads, unknown to type checkers
pq: Any = pyarrow.parquet

SCHEMA = pa.schema([pa.field(name, pa.type_for_alias(kind), nullable=False) for name, kind in TYPES.items()])
_VERSION_KEY = b"mantamq.schema_version"
_RESUME_KEY = b"mantamq.resume"
_NAME = re.compile(r"^rows-(\d{19})-(\d{19})\.us-(\d{16})-(\d{16})\.parquet$")
_TEMPORARY = ".writing-"
ROW_GROUP_ROWS = 128 * 1024
STRINGS = [name for name, kind in TYPES.items() if kind == "string"]
NUMBERS = [name for name, kind in TYPES.items() if kind.startswith("int")]


@dataclass(frozen=True, order=True)
class TablePart:
    """A part, as its name tells.

    Attributes:
        row_first, row_last: the rows it holds, inclusive.
        time_first_us, time_last_us: least and greatest `time_us` in it.
        path: full path, without the protocol.
        bytes: size of the file.
    """

    row_first: int
    row_last: int
    time_first_us: int
    time_last_us: int
    path: str
    bytes: int


@dataclass(frozen=True)
class Skipped:
    """A file that is not read, and why."""

    path: str
    why: str


@dataclass(frozen=True)
class Listing:
    """The parts of a directory, oldest first, and what else is there."""

    parts: list[TablePart]
    skipped: list[Skipped]


def filesystem(directory: str) -> tuple[Any, str]:
    """The fsspec file system of a directory, and the path on it.

    Raises:
        LocalError: no such kind of file system here.
    """
    try:
        return fsspec.core.url_to_fs(directory)
    except (ImportError, ValueError) as error:
        raise LocalError(f"events cannot be kept at {directory}: {error}") from None


def part_name(row_first: int, row_last: int, time_first_us: int, time_last_us: int) -> str:
    return f"rows-{row_first:019d}-{row_last:019d}.us-{time_first_us:016d}-{time_last_us:016d}.parquet"


def list_parts(directory: str) -> Listing:
    """What is in `directory` (nothing, if it does not exist). Opens no file.

    Hidden files (a writer's temporary ones) are passed over; of two parts that overlap the older one is kept.
    """
    fs, path = filesystem(directory)
    fs.invalidate_cache()
    try:
        found = fs.ls(path, detail=True)
    except FileNotFoundError:
        return Listing([], [])
    parts: list[TablePart] = []
    skipped: list[Skipped] = []
    for one in found:
        name = one["name"].rstrip("/").rpartition("/")[2]
        if name.startswith((".", "_")):
            continue
        match = _NAME.match(name)
        if match is None or one["type"] != "file":
            skipped.append(Skipped(one["name"], "foreign: not named as a part"))
        else:
            first, last, since, until = map(int, match.groups())
            parts.append(TablePart(first, last, since, until, one["name"], int(one["size"] or 0)))
    parts.sort()
    kept: list[TablePart] = []
    for part in parts:
        if kept and part.row_first <= kept[-1].row_last:
            skipped.append(Skipped(part.path, f"overlaps {kept[-1].path.rpartition('/')[2]}"))
        else:
            kept.append(part)
    return Listing(kept, skipped)


def check_parts(directory: str, parts: Iterable[TablePart]) -> Listing:
    """Those of `parts` that can be read by this program, by their footers; and those that cannot, with why."""
    fs, _ = filesystem(directory)

    def check(part: TablePart) -> str:
        try:
            with fs.open(part.path, "rb") as file:
                return _unfit(pq.read_metadata(file), part)
        except FileNotFoundError:
            return "gone: retention took it"
        except (pa.ArrowException, OSError) as error:
            return f"truncated or no Parquet file: {str(error).splitlines()[0][:120]}"

    parts = list(parts)
    with ThreadPoolExecutor(8) as pool:
        verdicts = list(pool.map(check, parts))
    good = [part for part, why in zip(parts, verdicts, strict=True) if not why]
    return Listing(good, [Skipped(part.path, why) for part, why in zip(parts, verdicts, strict=True) if why])


def _unfit(footer: Any, part: TablePart) -> str:
    metadata = footer.metadata or {}
    if _VERSION_KEY not in metadata:
        return "foreign: no event table"
    version = metadata[_VERSION_KEY].decode()
    if version != str(SCHEMA_VERSION):
        return f"schema version {version}, this program reads {SCHEMA_VERSION}"
    if [footer.schema.column(i).name for i in range(footer.num_columns)] != list(TYPES):
        return "foreign: other columns"
    if footer.num_rows != part.row_last - part.row_first + 1:
        return f"has {footer.num_rows} rows, its name says {part.row_last - part.row_first + 1}"
    return ""


def read_parts(directory: str, parts: Iterable[TablePart]) -> pa.Table:
    """The rows of `parts`, without Spark."""
    fs, _ = filesystem(directory)
    tables: list[pa.Table] = []
    for part in parts:
        with fs.open(part.path, "rb") as file:
            tables.append(pq.read_table(file, columns=list(TYPES)).replace_schema_metadata(None).cast(SCHEMA))
    return pa.concat_tables(tables) if tables else SCHEMA.empty_table()


def to_table(rows: list[Row], row_first: int = 0) -> pa.Table:
    """Rows as Arrow, numbered from `row_first` on unless that is 0.

    Raises:
        LocalError: a field has a wrong type or is out of its range.
    """
    columns = zip(*rows, strict=True) if rows else ([] for _ in TYPES)
    try:
        arrays = [pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)]
        if row_first:
            arrays[0] = pa.array(range(row_first, row_first + len(rows)), pa.int64())
    except (pa.ArrowException, OverflowError, ValueError) as error:
        raise LocalError(f"a row of events has a field that its column cannot hold: {error}") from None
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def to_ipc(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream: what blocks of the live tail are."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=64 * 1024)
    return sink.getvalue().to_pybytes()


def from_ipc(block: bytes) -> pa.Table:
    """The table in a block."""
    return pa.ipc.open_stream(block).read_all()


def write_part(directory: str, table: pa.Table, resume: dict[str, int]) -> TablePart:
    """Write consecutive rows as a part.

    Args:
        table: `SCHEMA`'s columns, at least one row, `row` rising without gaps.
        resume: stream -> place of its last entry that is in this part or an older one.
    """
    fs, path = filesystem(directory)
    fs.makedirs(path, exist_ok=True)
    times = pc.min_max(table["time_us"]).as_py()
    first, last = table["row"][0].as_py(), table["row"][-1].as_py()
    name = part_name(first, last, max(times["min"], 0), max(times["max"], 0))
    if len(pc.unique(table["queue"])) > 1:
        # Readers ask for one queue: together, its rows share row groups, which the others' statistics let them skip.
        table = table.take(pc.sort_indices(table, sort_keys=[("queue", "ascending"), ("row", "ascending")]))
    table = table.replace_schema_metadata(
        {_VERSION_KEY: str(SCHEMA_VERSION).encode(), _RESUME_KEY: json.dumps(resume).encode()}
    )
    temporary = f"{path}/{_TEMPORARY}{uuid.uuid4().hex}"
    with fs.open(temporary, "wb") as file:
        pq.write_table(
            table, file, compression="zstd", row_group_size=ROW_GROUP_ROWS, use_dictionary=STRINGS,
            column_encoding=dict.fromkeys(NUMBERS, "DELTA_BINARY_PACKED"),
        )  # fmt: skip
        file.flush()
        with suppress(AttributeError, io.UnsupportedOperation):  # no local file: its store answers for it
            os.fsync(file.fileno())
    size = int(fs.size(temporary))
    fs.mv(temporary, f"{path}/{name}")
    return TablePart(first, last, times["min"], times["max"], f"{path}/{name}", size)


@dataclass
class WriterLimits:
    """When the writer seals, rolls and forgets.

    Attributes:
        block_rows: rows of a block of the live tail.
        part_rows, part_s: a part is written when so many rows wait, or the oldest of them is so old.
        keep_s, keep_bytes: parts older than this, and the oldest beyond this size, go; 0: never.
    """

    block_rows: int = 16 * 1024
    part_rows: int = 256 * 1024
    part_s: float = 60.0
    keep_s: float = 7 * 86400.0
    keep_bytes: int = 10 * 1024**3


@dataclass
class _Block:
    table: pa.Table
    handle: Any
    resume: dict[str, int] = field(default_factory=dict)


class EventWriter:
    """Takes rows, keeps the newest as Arrow blocks, rolls older ones into parts, forgets the oldest parts.

    The one writer of its directory. Not thread-safe. It has no clock: whoever calls `append` and `work` says the time.

    Args:
        directory: where parts go; goes on where an earlier writer stopped.
        limits: see `WriterLimits`.
        put: turns a block's bytes into what `tail` hands out (`ray.put`, say); the writer holds it until the rows
            are in a part.

    Attributes:
        resume: stream -> place of its last entry in the table. After a start: where to go on.
        written: `resume` as of the newest part.
        next_row: number of the next row.
        skipped: what the writer found in the directory and did not understand.
    """

    def __init__(
        self, directory: str, limits: WriterLimits | None = None, put: Callable[[bytes], Any] | None = None
    ) -> None:
        self.directory = directory
        self.limits = limits or WriterLimits()
        self._put = put or (lambda block: block)
        self._fs, self._path = filesystem(directory)
        self._pending: list[Row] = []
        self._blocks: list[_Block] = []
        self._oldest_us = 0
        self._forgot_us = 0
        self.resume: dict[str, int] = {}
        self.written: dict[str, int] = {}
        self.next_row = 1
        self.skipped: list[Skipped] = []
        self._start()

    def _start(self) -> None:
        self._fs.makedirs(self._path, exist_ok=True)
        for one in self._fs.ls(self._path, detail=False):
            if one.rpartition("/")[2].startswith(_TEMPORARY):
                self._fs.rm_file(one)
        listing = list_parts(self.directory)
        self.skipped = list(listing.skipped)
        if listing.parts:
            self.next_row = listing.parts[-1].row_last + 1  # also of a damaged part: a row's number is never used twice
        for part in reversed(listing.parts):
            good = check_parts(self.directory, [part])
            self.skipped += good.skipped
            if good.parts:
                with self._fs.open(part.path, "rb") as file:
                    metadata = pq.read_metadata(file).metadata
                self.resume = json.loads(metadata.get(_RESUME_KEY, b"{}"))
                self.written = dict(self.resume)
                return

    def append(self, stream: str, place: int, rows: Iterable[Row]) -> None:
        """Take the rows of one entry of a stream (of none: "" and 0); places in a stream rise.

        An entry that is in the table already is passed over, so a stream may be read again from any earlier place.
        """
        if stream:
            if place <= self.resume.get(stream, 0):
                return
            self.resume[stream] = place
        for row in rows:
            if not self._pending and not self._blocks:
                self._oldest_us = row.time_us
            self._pending.append(row)
            self.next_row += 1
        if len(self._pending) >= self.limits.block_rows:
            self._seal()

    def _seal(self) -> None:
        if self._pending:
            table = to_table(self._pending, self.next_row - len(self._pending))
            self._blocks.append(_Block(table, self._put(to_ipc(table)), dict(self.resume)))
            self._pending = []

    def tail(self) -> Tail:
        """All rows that are in no part yet. The handles stay valid as long as the caller holds them."""
        self._seal()
        first = self._blocks[0].table["row"][0].as_py() if self._blocks else self.next_row
        return Tail(self.directory, first, self.next_row - 1, [block.handle for block in self._blocks])

    @property
    def waiting(self) -> int:
        """How many rows are in no part yet."""
        return len(self._pending) + sum(block.table.num_rows for block in self._blocks)

    def work(self, now_us: int) -> TablePart | None:
        """Roll and forget, if it is time; the part that was written, if any. Call it about once a second."""
        waiting = self.waiting
        limits = self.limits
        old = waiting and now_us - self._oldest_us >= limits.part_s * 1e6
        part = self.roll() if waiting >= limits.part_rows or old else None
        if part or now_us - self._forgot_us >= limits.part_s * 1e6:  # a quiet cluster's parts grow old, too
            self._forgot_us = now_us
            self.forget(now_us)
        return part

    def roll(self) -> TablePart | None:
        """Write all rows that wait as a part. After a failure they still wait.

        Raises:
            LocalError: somebody else writes to the directory.
        """
        self._seal()
        if not self._blocks:
            return None
        table = pa.concat_tables([block.table for block in self._blocks])
        newest = list_parts(self.directory).parts
        if newest and newest[-1].row_last >= table["row"][0].as_py():
            raise LocalError(f"{self.directory} has two writers: {newest[-1].path} is not this one's; stop one")
        part = write_part(self.directory, table, self._blocks[-1].resume)
        self.written = self._blocks[-1].resume
        self._blocks = []
        return part

    def forget(self, now_us: int) -> list[TablePart]:
        """Remove parts that are too old or too many; never the newest, which says where to go on."""
        parts = list_parts(self.directory).parts
        total = sum(part.bytes for part in parts)
        gone: list[TablePart] = []
        for part in parts[:-1]:
            old = self.limits.keep_s and now_us - part.time_last_us > self.limits.keep_s * 1e6
            if not old and not (self.limits.keep_bytes and total > self.limits.keep_bytes):
                break
            self._fs.rm_file(part.path)
            total -= part.bytes
            gone.append(part)
        return gone
