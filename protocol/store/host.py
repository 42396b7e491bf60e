"""What the store's machine and its host say to each other besides frames: records to flush, and what became of them.

The host owns the files; it carries a `Commit` out (write, flush) and steps `Committed`, or ends with its process: a
failed flush is never answered (`durable.md` 6).
"""

from __future__ import annotations

import msgspec

from ..machine import Effect, Input
from ..wire.events import CLUSTER, Ballot
from .index import LogIndex

TX, MESSAGES = "tx", "messages"
"""The two logs of a store, by the names of their folders: the cluster stream's is small and outlives the other's
containers, so its tail must not wait for them."""

LogRecord = tuple[int, str, bytes]
"""Kind, stream and payload of a record (`records.py`)."""


def log_of(stream: str) -> str:
    """The log that keeps a stream."""
    return TX if stream == CLUSTER else MESSAGES


# ---- inputs


class FoundLog(msgspec.Struct, frozen=True):
    """A log as recovery found it.

    Attributes:
        index: all its records, noted in the order of their LSNs.
        base, end: LSN of its oldest container, and of the place where the next batch goes.
        container_bytes: the size of a container.
        promised: the highest ballot in the headers of its containers.
    """

    index: LogIndex
    base: int
    end: int
    container_bytes: int
    promised: Ballot


class Recovered(msgspec.Struct, frozen=True):
    """The logs are open.

    Attributes:
        logs: log name -> how it was found.
        took_us: how long it took to read them.
    """

    logs: dict[str, FoundLog]
    took_us: int = 0


class Committed(msgspec.Struct, frozen=True):
    """The group of `Commit` `number` is on disk.

    Attributes:
        lsns: log -> where each of its records is.
        ends: log -> its new end.
        took_us: how long it took; 0: not worth a word.
    """

    number: int
    lsns: dict[str, list[int]]
    ends: dict[str, int]
    took_us: int = 0


class DiskSpace(msgspec.Struct, frozen=True):
    """So many bytes may still be written before the disk, or the size allowed, is used up."""

    free_bytes: int


class Cataloged(msgspec.Struct, frozen=True):
    """The catalogue has all of the cluster stream that lies before LSN `low`: the log may part with that, and with no
    more, from the first such word on. Nothing is said where the wiring is kept in the log alone."""

    low: int


class Overdue(msgspec.Struct, frozen=True):
    """A checkpoint of the cluster stream is wanted, for the catalogue."""


class Rotten(msgspec.Struct, frozen=True):
    """A part of `log`, from LSN `first` up to `behind`, is unreadable, as was found while the log is in use."""

    log: str
    first: int
    behind: int


StoreInput = Input | Recovered | Committed | DiskSpace | Cataloged | Overdue | Rotten


# ---- effects


class Commit(msgspec.Struct, frozen=True):
    """Write each log's records as one batch, flush each log, then step `Committed`. None other comes before that.

    Attributes:
        batches: log -> its records; none: an empty batch, which proves the one before it.
        promised: goes into the headers of containers written from now on.
        time_us: when the records came.
    """

    number: int
    batches: dict[str, list[LogRecord]]
    promised: Ballot
    time_us: int


class Advance(msgspec.Struct, frozen=True):
    """Nothing of `log` below `lsn` is needed any more: its containers may be used again."""

    log: str
    lsn: int


StoreEffect = Effect | Commit | Advance
