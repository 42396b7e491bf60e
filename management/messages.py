"""Single messages for operators: one is sent, some are taken or looked at, with AMQP's names of their properties."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..client.aio.aio import AsyncConnection, AsyncSession
from ..client.errors import Invalid, MantaError, NotFound, Timeout, Unroutable
from ..client.message import Message

MOST = 1000
"""Messages of one answer."""
MOST_BYTES = 16 << 20
"""An answer ends with the message by which it has so many bytes of bodies."""
AT_ONCE = 10
"""So many messages are fetched at once: they may be large."""

REQUEUE = "ack_requeue_true"
ACK_MODES = (REQUEUE, "ack_requeue_false", "reject_requeue_true", "reject_requeue_false")

TEXTS = ("content_type", "correlation_id", "reply_to", "message_id")
"""Properties that are the same here, and texts."""
PROPERTIES = (*TEXTS, "headers", "delivery_mode", "priority", "expiration")
LONGEST_TTL_MS = 2**53


class MessageSeen(NamedTuple):
    """A message of a queue.

    Attributes:
        queue: its name. position: its place there.
        routing_key: its subject, "" for none.
        properties: by AMQP's names, those that it has: headers, content_type, delivery_mode (2: durable), priority,
            correlation_id, reply_to, message_id, expiration (milliseconds, as a text).
        body: as much of it as was asked for. body_bytes: how long it is.
        redelivered: a consumer may have seen it. delivery_count: so often it was delivered before.
        enqueued_s: when it came to its queue; Unix time in seconds, None where nobody says.
        annotations: what consumers noted on it.
    """

    queue: str
    position: int
    routing_key: str
    properties: dict[str, Any]
    body: bytes
    body_bytes: int
    redelivered: bool
    delivery_count: int
    enqueued_s: float | None
    annotations: dict[str, Any]


def message_of(key: str, properties: Mapping[str, Any], body: bytes) -> Message:
    """A message from properties by AMQP's names.

    Args:
        key: its routing key.
        properties: of `PROPERTIES`; expiration in milliseconds, a text or a number; delivery_mode 1 or 2.

    Raises:
        Invalid: there is no such property here, or it has another kind of value.
    """
    if strange := [name for name in properties if name not in PROPERTIES]:
        known = ", ".join(PROPERTIES)
        raise Invalid(f"a message has no property {strange[0]!r:.60} here: it has {known}; put it into the headers")
    given = {name: value for name, value in properties.items() if value is not None}
    for name in TEXTS:
        if not isinstance(given.get(name, ""), str):
            raise Invalid(f"the property {name} is a text, not {given[name]!r:.60}")
    headers = given.get("headers", {})
    if not isinstance(headers, Mapping):
        raise Invalid(f"the property headers is an object of names and values, not {headers!r:.60}")
    mode = given.get("delivery_mode", 1)
    if type(mode) is not int or mode not in (1, 2):
        raise Invalid(f"the property delivery_mode is 1 (transient) or 2 (durable), not {mode!r:.60}")
    priority = given.get("priority")
    if priority is not None and (type(priority) is not int or not 0 <= priority <= 255):
        raise Invalid(f"the property priority is a whole number from 0 to 255, not {priority!r:.60}")
    texts: dict[str, Any] = {name: given.get(name) for name in TEXTS}
    return Message(
        body, key or None, dict(headers) or None, _ttl(given.get("expiration")), priority, durable=mode == 2, **texts
    )


def _ttl(value: Any) -> float | None:
    """Seconds, of milliseconds."""
    if value is None:
        return None
    known = type(value) is int or (isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20)
    if not known or not 0 <= int(value) <= LONGEST_TTL_MS:
        raise Invalid(f"the property expiration is a number of milliseconds, from 0, not {value!r:.60}")
    return int(value) / 1000


def seen(message: Message, body_bytes: int | None = None) -> MessageSeen:
    """A received message as operators are told it."""
    properties: dict[str, Any] = {name: value for name in TEXTS if (value := getattr(message, name)) is not None}
    properties["headers"] = message.properties or {}
    properties["delivery_mode"] = 2 if message.durable else 1
    if message.priority is not None:
        properties["priority"] = message.priority
    if message.ttl is not None:
        properties["expiration"] = str(round(message.ttl * 1000))
    body = message.body if body_bytes is None else message.body[:body_bytes]
    return MessageSeen(
        message.queue, message.position, message.subject or "", properties, body, len(message.body),
        message.redelivered, message.delivery_count, message.enqueued_at, message.annotations,
    )  # fmt: skip


async def publish(
    connection: AsyncConnection, exchange: str, key: str, properties: Mapping[str, Any], body: bytes, patience_s: float
) -> bool:
    """Send one message and wait until it is complete, at most `patience_s` seconds: whether a queue has it. Raises as
    `Deeds.publish`."""
    message = message_of(key, properties, body)
    session = connection.session()
    try:
        # The address of a sender is one text, in which an exchange with a slash in its name cannot be said.
        sender = await session._open(exchange, key, f"{exchange}/{key}", 1, patience_s, True)
    except NotFound:
        if exchange:
            raise
        return False  # as by any exchange to which no queue is bound by the key
    try:
        await sender.send(message)
        await sender.sync(patience_s)
    except Unroutable:
        return False
    finally:
        with contextlib.suppress(MantaError):
            await sender.close()
    return True


async def get(
    connection: AsyncConnection, queue: str, count: int, ack_mode: str, body_bytes: int | None, most_bytes: int
) -> list[MessageSeen]:
    """Take messages, and settle them. Raises as `Deeds.get`."""
    _check(count, body_bytes)
    if ack_mode not in ACK_MODES:
        raise Invalid(f"the ack mode is one of {', '.join(ACK_MODES)}, not {ack_mode!r:.60}")
    session = connection.session()
    found: list[MessageSeen] = []
    held: list[Message] = []
    taken = 0
    async with await session.receiver(queue, capacity=0) as receiver:
        while len(found) < count and taken < most_bytes:
            wanted = min(AT_ONCE, count - len(found))
            batch = await receiver.get_batch(wanted)
            for message in batch:
                found.append(seen(message, body_bytes))
                taken += len(message.body)
                message.body = b""  # what is settled needs none
            held += batch
            if len(batch) < wanted:
                break
        for message in held:
            await _settle(session, message, ack_mode)
        await receiver.sync()
    if lost := session.lost:
        raise Timeout(f"{len(lost)} of {len(found)} messages were not ours any more: they may come again")
    return found


async def _settle(session: AsyncSession, message: Message, ack_mode: str) -> None:
    if ack_mode == "ack_requeue_false":
        await session.acknowledge(message)
    elif ack_mode == "reject_requeue_false":
        await session.reject(message)
    else:
        await session.release(message)


async def browse(
    connection: AsyncConnection, queue: str, count: int, body_bytes: int | None, most_bytes: int, selector: str
) -> list[MessageSeen]:
    """Look at messages, and take none. Raises as `Deeds.browse`."""
    _check(count, body_bytes)
    found: list[MessageSeen] = []
    taken = 0
    messages = connection.session().browse(queue, capacity=AT_ONCE, selector=selector or None)
    async with contextlib.aclosing(messages):
        async for message in messages:
            found.append(seen(message, body_bytes))
            taken += len(message.body)
            if len(found) == count or taken >= most_bytes:
                break
    return found


def _check(count: int, body_bytes: int | None) -> None:
    if type(count) is not int or not 1 <= count <= MOST:
        raise Invalid(f"a count of messages is a whole number from 1 to {MOST}, not {count!r:.60}")
    if body_bytes is not None and (type(body_bytes) is not int or body_bytes < 0):
        raise Invalid(f"the length to which bodies are cut is a whole number of bytes, from 0, not {body_bytes!r:.60}")
