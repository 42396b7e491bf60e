"""The event table: committed events, as rows that a query engine can read.

One row is one run of consecutive messages in one committed event, so a batch of a thousand messages costs as many rows
as a batch of one. Facts that only a broker knows (connections, credit, flow control) join as *observed* rows.

Types are signed and never null (0, "" and False stand for "none"), since such types survive every reader: Arrow,
Parquet, pandas, Spark. Columns are only ever added, at the end, with such a default; then `SCHEMA_VERSION` rises.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from ..errors import LocalError
from ..queue.applied import Applied
from ..ranges import pairs, runs
from ..wire.events import (
    CLUSTER,
    Accept,
    Acquire,
    AnyEvent,
    Bind,
    Condemn,
    DeadLetterDone,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Enqueue,
    Entry,
    Event,
    Evict,
    Exclusive,
    Expire,
    FlowControl,
    InUse,
    Lift,
    Lost,
    Member,
    Modify,
    Own,
    Purge,
    Recount,
    Reject,
    Rejoin,
    Release,
    Return,
    Start,
    Supervise,
    Unbind,
)

SCHEMA_VERSION = 2
TAP_NAME = "manta/events"
"""Name of the Ray actor that keeps the newest rows: its method `tail()` answers a `Tail`."""


class Row(NamedTuple):
    """One row. Order of the table: `row`; order of one queue's events: `seq`, then `part`. Across queues `seq` is the
    order, too, except after a takeover: a new sequencer learns of the streams one by one, and may repeat a `seq`.

    Attributes:
        row: the row's place in the table, from 1, without gaps; the writer fills it in.
        term: counter of the sequencer's ballot.
        seq: place of the committed event in the cluster's total order; of an observed row, the last its broker knew.
        part: number of the row among that event's, from 0; of an observed row -1.
        time_us: Unix time in microseconds when the replica that reported the event applied it (or the broker saw it).
        kind: see `LOG_KINDS` and `OBSERVED_KINDS`.
        queue: id of the queue's stream, "name#number", in a checkpoint "" for the cluster's; of exchanges their name.
        broker: the broker that acted; of "evict", "join", "leave", "rejoin", "cluster_flow_on", "cluster_flow_off":
            the one concerned.
        client: client and sender of an enqueue; client of an observed row.
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
            uid; "expire": the time in ms it went by; "purge": the number asked for (0: all); "discard": 1 when a
            consumer held them; "lost": 1 when an operator ordered it; "credit_stall", "flow_off",
            "hand_over", "store_opened" (since the store was asked), "disk_free", "store_recovered", "flush_slow": the
            duration in microseconds; "store_damaged": how many bytes of a log cannot be read; "store_checkpoint": its
            size in bytes; "redelivery": the delivery count; "dropped": the events missing here; "alert_*": the level.
        effective: False when the event changed nothing: an acquire without the grant, a settle of messages not held.
        detail: "own", "hand_over": the broker before; "reject": the alternate exchange; "declare_*": the
            definition as JSON; "bind", "unbind": the exchange and key; "dropped": the stream; "disconnect": why;
            "address": "host:port" for clients; "store_opened": as JSON the life before (0: none), whether the broker
            begins without a log that votes, and how many entries of the cluster stream were read behind its checkpoint;
            "store_recovered": as JSON the bytes of each log that were read; "store_damaged": as JSON the log, and the
            LSN from which it cannot be read; "alert_*": as JSON which level has reached which threshold.
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

LOG_KINDS = (
    "start", "enqueue", "discard", "acquire", "accept", "release", "reject", "own", "expire", "purge", "dead_letter",
    "evict", "declare_queue", "delete_queue", "declare_exchange", "delete_exchange", "bind", "unbind", "join", "leave",
    "rejoin", "cluster_flow_on", "cluster_flow_off", "lost", "supervise", "in_use", "not_in_use", "condemn", "lift",
    "recount",
)  # fmt: skip
OBSERVED_KINDS = (
    "connect", "disconnect", "credit_stall", "flow_on", "flow_off", "redelivery", "hand_over", "dropped", "address",
    "store_opened", "disk_full", "disk_free", "store_recovered", "store_damaged", "flush_slow", "store_checkpoint",
    "store_dropped", "alert_up", "alert_down",
)  # fmt: skip
"""Kinds that no committed event has: connections, time without credit (on its end), flow control, a message given to a
consumer again, the consume lock's way from one broker to another (on its end); events that the table lacks; the address
of a broker that clients are told, which changes when the broker moves; a broker's store that is open for a new life of
it, has no room on its disk, has room again; what it found when it was started, what of it cannot be read, a flush of a
second or more, a stream's checkpoint, a queue of which nothing is kept any more; a queue's level at a threshold."""


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


def rows(
    stream: str, entry: Entry, event: AnyEvent, done: Applied, time_us: int, queue: str = "", alternate: str = ""
) -> list[Row]:
    """The rows of one committed event.

    Args:
        stream: a queue's id, or `CLUSTER`.
        entry: where it is in the log.
        event: the decoded `entry.event`.
        done: its outcome, as the queue's state says (`Applied()` in the cluster's stream, effective or not).
        time_us: Unix microseconds when it was seen committed.
        queue: of "declare_queue" and "delete_queue": the queue's id, when known.
        alternate: the queue's alternate exchange; rejected messages go there and are gone when "dead_letter" says so.
    """
    rule = _RULES.get(type(event))
    if rule is None:
        return []
    base = Row(
        term=entry.ballot[0], seq=entry.seq, time_us=time_us, effective=done.effective,
        queue="" if stream == CLUSTER else stream,
    )  # fmt: skip
    if queue:
        base = base._replace(queue=queue)
    if alternate and type(event) is Reject:
        base = base._replace(value=1, detail=alternate)
    made = [row._replace(part=part) if part else row for part, row in enumerate(rule(base, event, done))]
    return made + discarded(made, done.dropped) if done.dropped else made


# ---- one rule per kind


def _run(base: Row, first: int, last: int, **fields: Any) -> Row:
    return base._replace(position_first=first, position_last=last, count=last - first + 1, **fields)


def _start(base: Row, event: Start, done: Applied) -> Iterator[Row]:
    yield base._replace(kind="start", term=event.ballot[0], value=event.ballot[1])


def _enqueue(base: Row, event: Enqueue, done: Applied) -> Iterator[Row]:
    base = base._replace(kind="enqueue", client=event.client)
    if not done.positions:
        yield base._replace(effective=False, number_first=event.numbers[0] if event.numbers else 0)
        return
    first, last = done.positions[0]
    low, high = fresh_numbers(event, last - first + 1)
    blobs = event.blobs[len(event.blobs) - (last - first + 1) :]
    yield _run(base, first, last, bytes=sum(map(len, blobs)), number_first=low, number_last=high)


def discarded(rows: list[Row], dropped: Iterable[tuple[int, int, bool]]) -> list[Row]:
    """The rows of messages that went because of the event of these rows, which they follow."""
    of = rows[0]
    base = Row(term=of.term, seq=of.seq, time_us=of.time_us, kind="discard", queue=of.queue)
    return [_run(base, a, b, part=part, value=int(held)) for part, (a, b, held) in enumerate(dropped, len(rows))]


def fresh_numbers(event: Enqueue, count: int) -> tuple[int, int]:
    """The first and last of the client's numbers that are new; of a partly repeated enqueue those are the last `count`,
    since numbers rise. (0, 0) when there is no client."""
    numbers = event.numbers
    if not event.client or not numbers:
        return 0, 0
    repeated = len(event.blobs) - count
    if repeated > 0:
        for low, high in pairs(numbers):
            if repeated <= high - low:
                return low + repeated, numbers[-1]
            repeated -= high - low + 1
    return numbers[0], numbers[-1]


def _acquire(base: Row, event: Acquire, done: Applied) -> Iterator[Row]:
    base = base._replace(
        kind="acquire", broker=event.broker, inc=event.inc, grant=event.grant, value=int(event.accepted)
    )
    if not done.effective:
        for acquisition, first, last in runs(event.runs):
            yield _run(base, first, last, acquisition=acquisition)
        return
    taken = done.positions
    at = 0
    for acquisition, first, last in runs(event.runs):
        while at < len(taken) and first <= taken[at][0] and taken[at][1] <= last:
            yield _run(base, *taken[at], acquisition=acquisition)
            at += 1


_SETTLES: dict[type[Event], str] = {Accept: "accept", Release: "release", Modify: "release", Reject: "reject"}


def _settle(base: Row, event: Accept | Release | Reject | Modify, done: Applied) -> Iterator[Row]:
    base = base._replace(kind=_SETTLES[type(event)], broker=event.broker, inc=event.inc)
    if isinstance(event, Release | Modify):
        base = base._replace(value=int(event.redelivered))
    held = list(done.positions)
    lost = list(runs(done.lost))
    held.reverse()
    lost.reverse()
    for acquisition, first, last in runs(event.runs):
        # Each run was settled whole, lost whole, or split: tried in that order, since whole runs leave no doubt.
        if lost and lost[-1] == (acquisition, first, last):
            lost.pop()
            yield _run(base, first, last, acquisition=acquisition, effective=False)
            continue
        left = last - first + 1
        while left > 0 and held and first <= held[-1][0] and held[-1][1] <= last:
            a, b = held.pop()
            left -= b - a + 1
            yield _run(base, a, b, acquisition=acquisition)
        while left > 0 and lost and lost[-1][0] == acquisition and first <= lost[-1][1] and lost[-1][2] <= last:
            _, a, b = lost.pop()
            left -= b - a + 1
            yield _run(base, a, b, acquisition=acquisition, effective=False)


def _own(base: Row, event: Own, done: Applied) -> Iterator[Row]:
    yield base._replace(kind="own", broker=event.broker, grant=event.grant, detail=event.by)


def _expire(base: Row, event: Expire, done: Applied) -> Iterator[Row]:
    return _gone(base._replace(kind="expire", value=event.now_ms), done)


def _purge(base: Row, event: Purge, done: Applied) -> Iterator[Row]:
    return _gone(base._replace(kind="purge", value=event.count), done)


def _dead_letter_done(base: Row, event: DeadLetterDone, done: Applied) -> Iterator[Row]:
    return _gone(base._replace(kind="dead_letter"), done)


def _evict(base: Row, event: Evict, done: Applied) -> Iterator[Row]:
    return _gone(base._replace(kind="evict", broker=event.broker, inc=event.inc, value=1), done)


def _rejoin(base: Row, event: Rejoin, done: Applied) -> Iterator[Row]:
    """A rejoin evicts older incarnations; those rows come first, so that an eviction's first row is always part 0."""
    if base.queue and done.effective:
        yield from _gone(base._replace(kind="evict", broker=event.voter, inc=event.inc - 1, value=1), done)
    yield base._replace(kind="rejoin", broker=event.voter, inc=event.inc, effective=True)


def _return(base: Row, event: Return, done: Applied) -> Iterator[Row]:
    """To a table's readers a broker is back, with its log or without it."""
    return _rejoin(base, Rejoin(event.voter, event.life), done)


def _gone(base: Row, done: Applied) -> Iterator[Row]:
    """One row per run (neighbours as one), or one row without positions."""
    if not done.positions:
        yield base
        return
    first, last = done.positions[0]
    for a, b in done.positions[1:]:
        if a == last + 1:
            last = b
        else:
            yield _run(base, first, last)
            first, last = a, b
    yield _run(base, first, last)


def _declare_queue(base: Row, event: DeclareQueue, done: Applied) -> Iterator[Row]:
    text = _json(durable=event.durable, alternate=event.alternate, arguments=event.arguments)
    yield base._replace(kind="declare_queue", queue=base.queue or event.name, detail=text)


def _delete(base: Row, event: DeleteQueue | DeleteExchange, done: Applied) -> Iterator[Row]:
    kind = "delete_queue" if isinstance(event, DeleteQueue) else "delete_exchange"
    yield base._replace(kind=kind, queue=base.queue or event.name)


def _lost(base: Row, event: Lost, done: Applied) -> Iterator[Row]:
    yield base._replace(kind="lost", queue=event.queue, value=int(event.asked))


def _declare_exchange(base: Row, event: DeclareExchange, done: Applied) -> Iterator[Row]:
    text = _json(type=event.type, durable=event.durable, alternate=event.alternate, arguments=event.arguments)
    yield base._replace(kind="declare_exchange", queue=event.name, detail=text)


def _bind(base: Row, event: Bind | Unbind, done: Applied) -> Iterator[Row]:
    detail = f"{event.exchange}/{event.key}" + f" to exchange {event.to_exchange}" * bool(event.to_exchange)
    yield base._replace(kind=type(event).__name__.lower(), queue=base.queue or event.queue, detail=detail)


def _member(base: Row, event: Member, done: Applied) -> Iterator[Row]:
    yield base._replace(kind="join" if event.present else "leave", broker=event.broker, inc=event.inc)


def _flow_control(base: Row, event: FlowControl, done: Applied) -> Iterator[Row]:
    kind = "cluster_flow_on" if event.on else "cluster_flow_off"
    yield base._replace(kind=kind, broker=event.member, detail=event.reason)


def _in_use(base: Row, event: InUse | Exclusive, done: Applied) -> Iterator[Row]:
    kind = "in_use" if event.on else "not_in_use"
    detail = event.claim if isinstance(event, InUse) else "exclusive"
    yield base._replace(kind=kind, queue=event.queue, broker=event.broker, inc=event.inc, detail=detail)


def _condemn(base: Row, event: Condemn | Lift, done: Applied) -> Iterator[Row]:
    kind = "condemn" if isinstance(event, Condemn) else "lift"
    yield base._replace(kind=kind, queue=event.queue, broker=event.broker, inc=event.inc, value=event.number)


def _recount(base: Row, event: Recount, done: Applied) -> Iterator[Row]:
    yield base._replace(kind="recount")


def _supervise(base: Row, event: Supervise, done: Applied) -> Iterator[Row]:
    yield base._replace(kind="supervise", inc=event.number, detail=event.name)


def _json(**fields: Any) -> str:
    return json.dumps(fields, sort_keys=True, default=repr)


_RULES: dict[type[Event], Callable[[Row, Any, Applied], Iterator[Row]]] = {
    Start: _start, Enqueue: _enqueue, Acquire: _acquire, Accept: _settle, Release: _settle, Reject: _settle,
    Own: _own, Expire: _expire, Purge: _purge, DeadLetterDone: _dead_letter_done, Evict: _evict,
    DeclareQueue: _declare_queue, DeleteQueue: _delete, DeclareExchange: _declare_exchange,
    DeleteExchange: _delete, Bind: _bind, Modify: _settle,
    Unbind: _bind, Member: _member, Rejoin: _rejoin, Return: _return, FlowControl: _flow_control, Exclusive: _in_use,
    Lost: _lost, Supervise: _supervise, InUse: _in_use, Condemn: _condemn, Lift: _condemn, Recount: _recount,
}  # fmt: skip
