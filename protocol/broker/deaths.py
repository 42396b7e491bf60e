"""What a dead letter says of how it came to be one: properties of ours, and `x-death` as RabbitMQ's clients read it.

A message that dies again has the newest death first. What dies of the same cause in the same queue again is counted
there. Where it was sent to, before its queue had it, the queue does not know: `x-death` names no exchange and no key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..queue.batches import REJECTED
from ..ranges import pairs
from ..wire.message import with_properties
from ..wire.queue_frames import DeadLetter

CAUSE, QUEUE, POSITION = "manta.death_cause", "manta.death_queue", "manta.death_position"
DELIVERIES, FIRST_MS = "manta.death_deliveries", "manta.first_death_ms"
"""How often it was delivered in vain, but for the last time where it was rejected; when it first died, Unix ms."""
DEATHS, FIRST_CAUSE, FIRST_QUEUE = "x-death", "x-first-death-reason", "x-first-death-queue"


def noted(frame: DeadLetter, now_ms: int) -> list[tuple[bytes, frozenset[str]]]:
    """The messages of a frame as they go to the alternate, each with the names of the queues that it must not come to:
    where it died just now, and before that since a consumer last rejected it, or it would go round by itself for ever.

    What is no message stays as it is.
    """
    name = frame.queue.rpartition("#")[0]
    counts = dict(pairs(frame.counts))
    letters: list[tuple[bytes, frozenset[str]]] = []
    for index, (blob, position) in enumerate(zip(frame.blobs, frame.positions, strict=True)):
        own = {CAUSE: frame.cause, QUEUE: name, POSITION: position, DELIVERIES: counts.get(index, 0)}
        first = {FIRST_MS: now_ms, FIRST_CAUSE: frame.cause, FIRST_QUEUE: name}
        letters.append(_noted(blob, first, own))
    return letters


def _noted(blob: bytes, first: dict[str, Any], own: dict[str, Any]) -> tuple[bytes, frozenset[str]]:
    """Args: first: what only a message that has not died before gets. own: what says of its last death."""
    name, cause = own[QUEUE], own[CAUSE]
    shunned = {name}

    def dead(properties: dict[str, Any]) -> dict[str, Any]:
        before = _deaths(properties)
        if cause != REJECTED:
            shunned.update(_by_itself(before))
        death = {"queue": name, "reason": cause, "count": 1, "time": first[FIRST_MS] // 1000}
        return first | properties | own | {DEATHS: _with(before, death)}

    return with_properties(blob, dead), frozenset(shunned)


def _deaths(properties: dict[str, Any]) -> list[dict[str, Any]]:
    """Those that a message has died already, the newest first, as far as they are any."""
    given = properties.get(DEATHS)
    return [one for one in given if isinstance(one, dict)] if isinstance(given, list) else []


def _with(deaths: list[dict[str, Any]], death: dict[str, Any]) -> list[dict[str, Any]]:
    same = [one for one in deaths if all(one.get(key) == death[key] for key in ("queue", "reason"))]
    counts = (one["count"] for one in same if isinstance(one.get("count"), int))
    return [death | {"count": 1 + sum(counts)}, *(one for one in deaths if one not in same)]


def _by_itself(deaths: list[dict[str, Any]]) -> Iterator[str]:
    """Queues in which it died since a consumer last rejected it."""
    for death in deaths:
        if death.get("reason") == REJECTED:
            return
        if isinstance(name := death.get("queue"), str):
            yield name
