"""The body of a numbered message: where it was sent, by whom, its number; and whether it is whole."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

from . import kinds as queue_kinds
from .traces import without_its_trace

FLEETING = "~"
"""Producer of messages that nobody counts: they share frames with those that are, and expire soon."""
LONG_S = 86_400


@dataclass(frozen=True)
class Body:
    """Attributes: of: the queue it was sent to; damaged: it is not what was sent (the rest is then as far as legible)."""

    of: str
    producer: str
    number: int
    damaged: bool = False


def write(of: str, producer: str, number: int, padding: bytes) -> bytes:
    text = f"{of} {producer} {number} ".encode() + padding
    return zlib.crc32(text).to_bytes(4, "big") + text


def read(body: bytes) -> Body:
    damaged = zlib.crc32(body[4:]).to_bytes(4, "big") != body[:4]
    try:
        of, producer, number, _ = body[4:].split(b" ", 3)
        return Body(of.decode(), producer.decode(), int(number), damaged)
    except ValueError:
        return Body("", "?", 0, True)


def options(number: int, queue: str = "") -> dict[str, Any]:
    """The properties of a numbered message, sent to this queue: they must come as they were sent, whatever was lost on
    the way. Nothing here lets it expire in the course of a run."""
    kinds: list[dict[str, Any]] = [{}, {}, {"ttl": LONG_S}, {"priority": number % 10}, {"properties": {"number": number}},
                                   {"subject": f"s{number}", "message_id": str(number), "ttl": 3600.5},
                                   {"correlation_id": f"c{number}", "reply_to": "answers", "durable": True},
                                   {"content_type": "application/octet-stream"}]  # fmt: skip
    return kinds[number % len(kinds)] | queue_kinds.options(queue, number)


def stamps(queue: str) -> bool:
    kind = queue_kinds.of(queue)
    return kind is not None and kind.stamps


DEATHS = ("manta.death_", "manta.first_death_", "x-death", "x-first-death-")
"""How the names of properties begin in which a dead letter says how it died."""


def died(message: Any) -> list[Any]:
    """What a message says of its last death: the cause, after how many deliveries, and in which queue; [] for none."""
    properties = message.properties or {}
    if "manta.death_cause" not in properties:
        return []
    return [properties.get(f"manta.death_{name}") for name in ("cause", "deliveries", "queue")]


def as_sent(message: Any, number: int, queue: str = "") -> bool:
    """Whether a message that came from this queue carries what `options` said, and no trace but its own; and, of a dead letter, that it says that it
    was rejected there where it was sent."""
    wanted, properties = options(number, queue), without_its_trace(message.properties, number)
    kind = queue_kinds.of(queue_kinds.family(queue))
    if kind is not None and kind.roams:
        # It may have died before, and have been moved: then it has what is left of its ttl, or none any more.
        properties = {name: value for name, value in (properties or {}).items() if not name.startswith(DEATHS)} or None
        if message.ttl is None or message.ttl <= wanted.get("ttl", 0.0):
            wanted = wanted | {"ttl": message.ttl}
    elif queue.endswith(queue_kinds.DEAD):
        properties = properties or {}
        said = properties.get("manta.death_cause"), properties.get("manta.death_queue")
        if said != ("rejected", queue.removesuffix(queue_kinds.DEAD)):
            return False
        properties = {name: value for name, value in properties.items() if not name.startswith(DEATHS)} or None
    if stamps(queue) and properties:
        properties = {name: value for name, value in properties.items() if name != queue_kinds.STAMP} or None
    if properties != wanted.get("properties"):
        return False
    names = ("subject", "ttl", "priority", "message_id", "correlation_id", "reply_to", "content_type")
    return message.durable == wanted.get("durable", False) and all(
        getattr(message, name) == wanted.get(name) for name in names
    )
