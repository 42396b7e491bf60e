"""The rows of the event table (`event_table.py`) that one committed event makes: a rule for each kind of event."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import asdict

from ..queue.applied import Applied, PutOff
from ..queue.batches import DELETED, DELIVERY_LIMIT, EXPIRED, MAXLEN
from ..queue.moves import MOVED
from ..ranges import pairs, runs
from ..wire.deletion_events import Dissolve, Dissolved
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
    Due,
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
    Move,
    Moved,
    Named,
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
from ..wire.move_events import DISCARD
from ..wire.pattern_events import DropPattern, PutPattern
from ..wire.policy_events import Configure, DropPolicy, PutPolicy
from ..wire.redirect_events import Redirect
from .event_table import Row

_CAUSES = {
    "enqueue": MAXLEN, "configure": MAXLEN, "expire": EXPIRED, "dissolve": DELETED,
    "move": MOVED, "moved": MAXLEN, "move_back": MAXLEN
}  # fmt: skip
"""Kind of an event's first row -> why it sets messages aside; others do since messages have come back too often."""


def rows(
    stream: str, entry: Entry, event: AnyEvent, done: Applied, time_us: int, queue: str = "", alternate: str = "",
    late: bool = False,
) -> list[Row]:  # fmt: skip
    """The rows of one committed event.

    Args:
        stream: a queue's id, or `CLUSTER`.
        entry: where it is in the log.
        event: the decoded `entry.event`.
        done: its outcome, as the queue's state says (`Applied()` in the cluster's stream, effective or not).
        time_us: Unix microseconds when it was seen committed.
        queue: of "declare_queue" and "delete_queue": the queue's id, when known.
        alternate: the queue's alternate exchange; rejected messages go there and are gone when "dead_letter" says so.
        late: the queue was deleted before.
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
    return made + left(made, done, late) if made and (done.dropped or done.aside) else made


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
    for position, due_ms in delays_of(event, first, last):
        yield delay_row(base, position, position, due_ms)


def delays_of(event: Enqueue, first: int, last: int) -> list[tuple[int, int]]:
    """Of its messages at `first` to `last` those that are delayed: position, and when it is due, in Unix ms."""
    begin = last - len(event.blobs) + 1
    return [(begin + index, due_ms) for index, due_ms in pairs(event.delays) if begin + index >= first]


def delay_row(base: Row, first: int, last: int, due_ms: int) -> Row:
    """Messages that have come, or come back, and that nobody gets before."""
    of = Row(term=base.term, seq=base.seq, time_us=base.time_us, queue=base.queue)
    return _run(of, first, last, kind="delay", value=due_ms)


def left(rows: list[Row], done: Applied, late: bool = False) -> list[Row]:
    """The rows, behind those of an event, of what leaves because of it though it does not say so: of what others push
    out, and of what is set aside for the alternate exchange. `late`: it came into a deleted queue."""
    of = rows[0]
    base = Row(term=of.term, seq=of.seq, time_us=of.time_us, queue=of.queue)
    found = [_run(base, a, b, kind="discard", value=int(held)) for a, b, held in done.dropped]
    cause = DELETED if late else _CAUSES.get(of.kind, DELIVERY_LIMIT)
    found += [_run(base, a, b, kind="set_aside", detail=cause) for a, b in done.aside]
    return [row._replace(part=part) for part, row in enumerate(found, len(rows))]


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
    if isinstance(event, Modify) and event.due_ms:
        for first, last in done.positions:
            yield delay_row(base, first, last, event.due_ms)
    elif isinstance(done, PutOff):
        for position, due_ms in done.waits:
            yield delay_row(base, position, position, due_ms)


def _own(base: Row, event: Own, done: Applied) -> Iterator[Row]:
    yield base._replace(kind="own", broker=event.broker, grant=event.grant, detail=event.by)


def _expire(base: Row, event: Expire, done: Applied) -> Iterator[Row]:
    return _gone(base._replace(kind="expire", value=event.now_ms), done)


def _due(base: Row, event: Due, done: Applied) -> Iterator[Row]:
    return _gone(base._replace(kind="due", value=event.now_ms), done)


def _purge(base: Row, event: Purge, done: Applied) -> Iterator[Row]:
    return _gone(base._replace(kind="purge", value=event.count), done)


def _move(base: Row, event: Move, done: Applied) -> Iterator[Row]:
    """What is set aside has rows of its own behind it; what is discarded is gone as by a purge."""
    base = base._replace(broker=event.broker, inc=event.inc)
    if event.by == DISCARD:
        yield from _gone(base._replace(kind="purge", value=event.upto), done)
        return
    yield base._replace(
        kind="move", value=event.upto, detail=_json(exchange=event.exchange, key=event.key, by=event.by)
    )


def _moved(base: Row, event: Moved, done: Applied) -> Iterator[Row]:
    rows = [_run(base, first, last, kind="moved") for _, first, last in runs(done.lost)]
    rows += [_run(base, *part, kind="move_back") for part in done.positions]
    yield from rows or [base._replace(kind="moved")]


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


def _dissolve(base: Row, event: Dissolve, done: Applied) -> Iterator[Row]:
    yield base._replace(kind="dissolve", broker=event.broker)


def _dissolved(base: Row, event: Dissolved, done: Applied) -> Iterator[Row]:
    yield base._replace(kind="dissolved", queue=event.queue, value=event.letters)


def _recount(base: Row, event: Recount, done: Applied) -> Iterator[Row]:
    yield base._replace(kind="recount")


def _supervise(base: Row, event: Supervise, done: Applied) -> Iterator[Row]:
    yield base._replace(kind="supervise", inc=event.number, detail=event.name)


def _policy(base: Row, event: PutPolicy | DropPolicy, done: Applied) -> Iterator[Row]:
    kind, text = "drop_policy", _json(operator=event.operator)
    if isinstance(event, PutPolicy):
        said = {"pattern": event.pattern, "priority": event.priority, "alternate": event.alternate}
        kind, text = "put_policy", _json(operator=event.operator, arguments=event.arguments, **said)
    yield base._replace(kind=kind, queue=event.name, detail=text)


def _pattern(base: Row, event: PutPattern | DropPattern, done: Applied) -> Iterator[Row]:
    kind, text = "drop_pattern", ""
    if isinstance(event, PutPattern):
        kind, text = "put_pattern", _json(**{name: value for name, value in asdict(event).items() if name != "name"})
    yield base._replace(kind=kind, queue=event.name, detail=text)


def _redirect(base: Row, event: Redirect, done: Applied) -> Iterator[Row]:
    yield base._replace(kind="redirect" if event.target else "end_redirect", queue=event.source, detail=event.target)


def _named(base: Row, event: Named, done: Applied) -> Iterator[Row]:
    yield base._replace(kind="named_sender", client=event.name, detail=event.holder)


def _configure(base: Row, event: Configure, done: Applied) -> Iterator[Row]:
    text = _json(arguments=event.arguments, alternate=event.alternate)
    yield base._replace(kind="configure", value=event.index, detail=text)


def _json(**fields: Any) -> str:
    return json.dumps(fields, sort_keys=True, default=repr)


_RULES: dict[type[Event], Callable[[Row, Any, Applied], Iterator[Row]]] = {
    DeadLetterDone: _dead_letter_done,
    Start: _start, Enqueue: _enqueue, Acquire: _acquire, Accept: _settle, Release: _settle, Reject: _settle,
    Own: _own, Expire: _expire, Due: _due, Purge: _purge, Move: _move, Moved: _moved, Evict: _evict,
    Dissolve: _dissolve, Dissolved: _dissolved,
    DeclareQueue: _declare_queue, DeleteQueue: _delete, DeclareExchange: _declare_exchange,
    DeleteExchange: _delete, Bind: _bind, Modify: _settle,
    Redirect: _redirect,
    Unbind: _bind, Member: _member, Rejoin: _rejoin, Return: _return, FlowControl: _flow_control, Exclusive: _in_use,
    Lost: _lost, Supervise: _supervise, InUse: _in_use, Condemn: _condemn, Lift: _condemn, Recount: _recount,
    PutPolicy: _policy, DropPolicy: _policy, PutPattern: _pattern, DropPattern: _pattern,
    Named: _named,
    Configure: _configure,
}  # fmt: skip
