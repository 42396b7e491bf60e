"""The event table: committed events, as rows that a query engine can read.

One row is one run of consecutive messages in one committed event, so a batch of a thousand messages costs as many rows
as a batch of one. Facts that only a broker knows (connections, credit, flow control) join as *observed* rows.

Types are signed and never null (0, "" and False stand for "none"), since such types survive every reader: Arrow,
Parquet, pandas, Spark. Columns are only ever added, at the end, with such a default; then `SCHEMA_VERSION` rises.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ..errors import LocalError

SCHEMA_VERSION = 2
TAP_NAME = "manta/events"
"""Name of the Ray actor that keeps the newest rows: its method `tail()` answers a `Tail`."""


class Row(NamedTuple):
    """One row. Order of the table: `row`; order of one queue's events: `seq`, then `part`. Across queues `seq` is the
    order, too, except after a takeover: a new sequencer learns of the streams one by one, and may repeat a `seq`.

    Attributes:
        row: the row's place in the table, from 1, without gaps; the writer fills it in.
        term: counter of the sequencer's ballot.
        seq: place of the committed event in the cluster's total order; of an observed row, the last its broker knew,
            and 0 of "operated".
        part: number of the row among that event's, from 0; of an observed row -1.
        time_us: Unix time in microseconds when the replica that reported the event applied it (or the broker saw it).
        kind: see `LOG_KINDS` and `OBSERVED_KINDS`.
        queue: id of the queue's stream, "name#number", in a checkpoint "" for the cluster's; of exchanges and policies
            their name, of "operated" the name of what was asked for.
        broker: the broker that acted; of "evict", "join", "leave", "rejoin", "cluster_flow_on", "cluster_flow_off":
            the one concerned.
        client: client and sender of an enqueue; client of an observed row; of "operated" who it was.
        inc: incarnation of `broker`.
        position_first, position_last: the run, inclusive; 0 and 0 when the row is about no message.
        count: number of messages: position_last - position_first + 1, or 0.
        bytes: size of the run's encoded messages, of "enqueue" only.
        grant: of the consume lock, of "acquire", "own" and "hand_over".
        acquisition: of "acquire", "accept", "release", "reject".
        number_first, number_last: the client's numbers of the run's first and last message ("enqueue"); they rise with
            the positions, and those in between may have gone to other queues.
        value: by kind: "acquire": 1 when accepted at once; "release" (or modify), "evict": 1 when it is a delivery;
            "reject": 1 when the messages go to an alternate exchange, else they are gone; "start": the sequencer's
            uid; "expire", "due": the time in ms it went by; "delay": that before which nobody gets them; "purge": the
            number asked for (0: all), or of those by a selector the position up to which was looked, as of "move";
            "discard": 1 when a consumer held them; "lost": 1 when an operator ordered it; "dissolved": how many
            messages of a deleted queue went to its alternate; "configure": the index of the event of the cluster's
            stream by which it is so; "credit_stall", "flow_off",
            "hand_over", "store_opened" (since the store was asked), "disk_free", "store_recovered", "flush_slow": the
            duration in microseconds; "store_damaged": how many bytes of a log cannot be read; "store_checkpoint": its
            size in bytes; "redelivery": the delivery count; "dropped": the events missing here; "alert_*": the level.
        effective: False when the event changed nothing: an acquire without the grant, a settle of messages not held;
            an operator was refused.
        detail: "own", "hand_over": the broker before; "reject": the alternate exchange; "set_aside": why (see
            `queue/batches.py`); "declare_*", "configure": the definition as JSON; "bind", "unbind": the exchange and
            key; "move": as JSON where the messages go; "dropped": the stream; "disconnect": why; "address": "host:port"
            for clients; "store_opened": as JSON the life before (0: none), whether the broker begins without a log that
            votes, and how many entries of the cluster stream were read behind its checkpoint;
            "store_recovered": as JSON the bytes of each log that were read; "store_damaged": as JSON the log, and the
            LSN from which it cannot be read; "alert_*": as JSON which level has reached which threshold;
            "operated": as JSON what was wanted, from where, with which arguments, and the outcome.
    """

    row: int = 0
    term: int = 0
    seq: int = 0
    part: int = 0
    time_us: int = 0
    kind: str = ""
    queue: str = ""
    broker: str = ""
    client: str = ""
    inc: int = 0
    position_first: int = 0
    position_last: int = 0
    count: int = 0  # pyright: ignore[reportIncompatibleMethodOverride]
    bytes: int = 0
    grant: int = 0
    acquisition: int = 0
    number_first: int = 0
    value: int = 0
    effective: bool = True
    detail: str = ""
    number_last: int = 0


TYPES: dict[str, str] = {
    name: {int: "int64", str: "string", bool: "bool"}[type(default)] for name, default in Row._field_defaults.items()
} | {"part": "int32"}
"""Column name to type, in order: "int64", "int32", "string" or "bool"."""

OPERATED = "operated"
"""What somebody has changed by the management page, or was refused."""
NOTES = "@management#"
"""How the streams of such rows begin, one for each life of the page's process; no queue's id begins like that."""
OF_MESSAGES = (
    "enqueue", "discard", "set_aside", "acquire", "accept", "release", "reject", "expire", "purge", "delay", "due",
    "dead_letter", "move", "moved", "move_back", "redelivery", "credit_stall",
)  # fmt: skip
"""Kinds of what happens to messages: there may be thousands of rows of them a second."""
LOG_KINDS = (
    "start", "enqueue", "discard", "set_aside", "acquire", "accept", "release", "reject", "own", "expire", "purge",
    "delay", "due", "dead_letter", "evict", "declare_queue", "delete_queue", "declare_exchange", "delete_exchange",
    "bind", "unbind", "join", "leave", "rejoin", "cluster_flow_on", "cluster_flow_off", "lost", "supervise",
    "in_use", "not_in_use", "condemn", "lift", "recount", "dissolve", "dissolved", "put_policy", "drop_policy",
    "redirect", "end_redirect",
    "configure", "put_pattern", "drop_pattern", "move", "moved", "move_back",
)  # fmt: skip
OBSERVED_KINDS = (
    "connect", "disconnect", "credit_stall", "flow_on", "flow_off", "redelivery", "hand_over", "dropped", "address",
    "store_opened", "disk_full", "disk_free", "store_recovered", "store_damaged", "flush_slow", "store_checkpoint",
    "store_dropped", "alert_up", "alert_down", OPERATED,
)  # fmt: skip
"""Kinds that no committed event has: connections, time without credit (on its end), flow control, a message given to a
consumer again, the consume lock's way from one broker to another (on its end); events that the table lacks; the address
of a broker that clients are told, which changes when the broker moves; a broker's store that is open for a new life of
it, has no room on its disk, has room again; what it found when it was started, what of it cannot be read, a flush of a
second or more, a stream's checkpoint, a queue of which nothing is kept any more; a queue's level at a threshold; what
operators do."""


def check_kinds(kinds: Iterable[str]) -> None:
    """Raises:
    LocalError: one of them is no kind of event.
    """
    known = (*LOG_KINDS, *OBSERVED_KINDS)
    for kind in kinds:
        if kind not in known:
            raise LocalError(f"there is no kind of event {kind!r}: known are {', '.join(sorted(known))}")


class Tail(NamedTuple):
    """The newest rows, as their keeper has them at one moment.

    Every row before `row_first` is in the parts in `directory`; rows in `blocks` may be there too.

    Attributes:
        directory: where the parts are, "" when nothing is written.
        row_first, row_last: the rows in `blocks`; none when row_last < row_first.
        blocks: Arrow IPC streams, oldest first: bytes, or references to bytes in Ray's object store.
    """

    directory: str
    row_first: int
    row_last: int
    blocks: list[Any]
