"""Moves that this broker's clients ask for: what is asked is checked here, and the queue's own replica carries it out
(`replica/moves.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import INVALID, LIMIT, NOT_ALLOWED, NOT_FOUND, UNAVAILABLE, PeerError
from ..limits import DEFAULT
from ..queue.selector import selector
from ..wire.move_events import DISCARD, HOME, TO_KEY, TO_QUEUE, TO_SUBJECT
from ..wire.queue_frames import MoveOrder
from ..wire.version import KNOWS_MOVES
from ..wiring.definitions import QueueDefinition
from ..wiring.relays import relayed
from ..wiring.wiring import Wiring
from .cluster_state import ClusterState
from .command_arguments import MoveArguments
from .questions import MOVE, Questions

Answer = Callable[..., None]
WAYS = f"{TO_KEY!r}, {TO_SUBJECT!r}, {HOME!r} or {DISCARD!r}"
OLDER = (
    "messages cannot be moved yet: a member of the cluster is of an older version, and would not know of it: upgrade "
    "all members first"
)


def move(cluster: ClusterState, questions: Questions, queue: QueueDefinition, answer: Answer, a: MoveArguments) -> None:
    """Have messages of a queue go on. The answer says how many have, and whether there is more to do.

    Raises:
        PeerError: it is refused.
    """
    order = _order(cluster.wiring, queue, a)

    def done(report: dict[str, Any]) -> None:
        if "error" in report:
            answer(code=report.get("code", UNAVAILABLE), text=report["error"])
        elif report["left"] and order.by == TO_QUEUE:
            answer(code=LIMIT if cluster.wiring.by_id(order.key) else NOT_FOUND, text=_stopped(cluster, order, report))
        else:
            answer(report)

    def known() -> None:
        if cluster.versions.least < KNOWS_MOVES:
            answer(code=UNAVAILABLE, text=OLDER)
            return
        try:
            questions.ask(queue, MOVE, 0, done, move=order)
        except PeerError as error:
            answer(code=error.code, text=error.text)

    cluster.versions.once_known(known)


def _order(wiring: Wiring, queue: QueueDefinition, a: MoveArguments) -> MoveOrder:
    if not a.token or a.by not in (TO_KEY, TO_SUBJECT, HOME, DISCARD):
        raise PeerError(INVALID, f"a move has a token of its own, and goes by {WAYS}, not by {a.by!r}")
    if max(len(a.token), len(a.key)) > DEFAULT.name_chars:  # a queue keeps them
        raise PeerError(INVALID, f"the key and the token of a move have at most {DEFAULT.name_chars} characters")
    if a.count < 0:
        raise PeerError(INVALID, f"a move takes a count of messages, 0 for all of them, not {a.count}")
    if of := relayed(queue):
        raise PeerError(
            NOT_ALLOWED, f"queue {queue.name!r} belongs to exchange {of!r}: what is in it goes on by itself"
        )
    if a.selector:
        selector(a.selector)
    exchange, key, by = a.exchange, a.key, a.by
    if by in (HOME, DISCARD):
        exchange = key = ""
    elif by == TO_SUBJECT:
        key = ""
        exchange = exchange or queue.alternate
        if not exchange:
            raise PeerError(INVALID, f"queue {queue.name!r} has no alternate: name an exchange to reroute to")
    elif not exchange and (target := wiring.leads(key)) is not None:
        _check(queue, target)
        key, by = target.id, TO_QUEUE
    elif not exchange:
        if wiring.exchange(key) is None:
            raise PeerError(NOT_FOUND, f"there is no queue and no exchange {key!r} to move to: declare it first")
        exchange, key, by = key, "", TO_SUBJECT
    if exchange and wiring.exchange(exchange) is None:
        keyed = ", or move there, since a reroute goes by the subject of each message" if "/" in exchange else ""
        raise PeerError(NOT_FOUND, f"there is no exchange {exchange!r} to move to: declare it first{keyed}")
    if exchange and wiring.internal(exchange):
        raise PeerError(NOT_ALLOWED, f"exchange {exchange!r} is internal: move to an exchange that leads to it")
    return MoveOrder(a.token, exchange, key, by, a.count, a.selector)


def _check(queue: QueueDefinition, target: QueueDefinition) -> None:
    if target.id == queue.id:
        raise PeerError(INVALID, f"queue {queue.name!r} is where they are: name another queue to move to")
    if of := relayed(target):
        raise PeerError(NOT_ALLOWED, f"queue {target.name!r} belongs to exchange {of!r}: move to that")


def _stopped(cluster: ClusterState, order: MoveOrder, report: dict[str, Any]) -> str:
    why = "is at its limit" if cluster.wiring.by_id(order.key) else "is gone"
    return (
        f"queue {order.key.rpartition('#')[0]!r} {why}: {report['moved']:,} messages were moved there before; "
        f"{report['left']:,} that it did not take are back in their places"
    )
