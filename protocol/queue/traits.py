"""What a queue must know of a message to keep its kind: one plain value, which travels beside the message in `Enqueue`.

The broker that routes a message takes it out once, and only for queues that need one. A replica that has a message from
elsewhere, from an update or its disk, takes it out itself: it is a function of the message alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import PeerError
from ..wire.events import Enqueue
from ..wire.message import Header, header
from .known_ids import key_of
from .priority_levels import level_rule
from .settings import QueueSettings

Trait = Callable[[bytes], Any]
"""An encoded message -> what a queue must know of it."""
NO_GROUP = "qpid.no-group"
"""The group of messages without one."""
KEY_CHARS = 255
"""Longest value of a header that is a key; a longer one is none."""


def trait_of(settings: QueueSettings) -> Trait | None:
    """Of the messages of a queue with these settings; None: it needs to know nothing."""
    if (levels := level_rule(settings.priorities, settings.max_priority)) is not None:
        return lambda blob: levels(header_of(blob).priority)
    if name := settings.last_value_key:
        return lambda blob: _key(blob, name)
    if name := settings.group_key:
        return lambda blob: _key(blob, name) or NO_GROUP
    if name := settings.fair_key:
        return lambda blob: _key(blob, name)
    return None


def carried_of(settings: QueueSettings) -> Trait | None:
    """What brokers take out of messages for a queue with these settings: what its kind must know, and, where it drops
    what comes twice, by what each message's id is known."""
    kind = trait_of(settings)
    if not settings.dedupes:
        return kind
    return id_of if kind is None else with_id(kind)


def named_of(settings: QueueSettings) -> Trait | None:
    """The same of messages whose move names the queue: they come in whatever ids it knows, so theirs are in lists."""
    kind = trait_of(settings)
    if not settings.dedupes:
        return kind
    return (lambda blob: [id_of(blob)]) if kind is None else lambda blob: (kind(blob), [id_of(blob)])


def id_of(blob: bytes) -> bytes | None:
    """By what a message's id is known; None: it has none."""
    return key_of(header_of(blob).message_id)


def with_id(kind: Trait) -> Trait:
    """Both, of a queue of a kind that drops what comes twice."""
    return lambda blob: (kind(blob), id_of(blob))


def traits(event: Enqueue, count: int, trait: Trait) -> list[Any]:
    """Of the last `count` messages of an enqueue, those that are new; where it has none, they are taken out here."""
    if len(event.traits) == len(event.blobs):
        return event.traits[-count:]
    return [trait(blob) for blob in event.blobs[-count:]]


def _key(blob: bytes, name: str) -> str:
    """A header as a key: text, or a number as text; anything else is the empty key."""
    value = (header_of(blob).properties or {}).get(name)
    if isinstance(value, bool | int | float):
        value = str(value)
    return value if isinstance(value, str) and len(value) <= KEY_CHARS else ""


def header_of(blob: bytes) -> Header:
    """What cannot be read has no properties: a message of another maker's client is carried all the same."""
    try:
        return header(blob)
    except PeerError:
        return _NOTHING


_NOTHING = header(b"\x91\xc4\x00")
