"""A message's encoded form: one msgpack array of its fields, cut after the last that is not at its default.

| place | field | its values | default |
|---|---|---|---|
| 0 | body | bytes | |
| 1 | subject | text: its routing key, unless the sender's is fixed | null |
| 2 | properties | the user's headers: text to plain values (`plain.py`) | null |
| 3 | ttl | seconds until it expires (brokers go by `Transfer.ttl`) | null |
| 4 | priority | an integer | null |
| 5 | correlation_id | any plain value | null |
| 6 | reply_to | any plain value | null |
| 7 | durable | whether it should survive a full stop of the cluster | false |
| 8 | content_type | any plain value | null |
| 9 | message_id | any plain value | null |
| 10 | annotations | what consumers noted on it: text to plain values; senders send none | null |

A plain body is ``[body]``. The whole has at most `Limits.message_bytes`. Later versions append fields, each with a
default, and readers pass over those they do not know. Brokers and replicas pass messages on as they came: to act upon
one they read its `header`, which costs the same whatever the size of the body.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Protocol, TypeVar, runtime_checkable

import msgspec

from ..errors import INVALID, PeerError
from .plain import check

Made = TypeVar("Made")


class Fields(Protocol):
    """A message to encode."""

    body: Any
    subject: Any
    properties: Any
    ttl: Any
    priority: Any
    correlation_id: Any
    reply_to: Any
    durable: Any
    content_type: Any
    message_id: Any


class Header(msgspec.Struct, array_like=True, frozen=True):
    """A message, its body not decoded: a view, which keeps the whole blob alive."""

    body: msgspec.Raw
    subject: str | None = None
    properties: dict[str, Any] | None = None
    ttl: float | None = None
    priority: int | None = None
    correlation_id: Any = None
    reply_to: Any = None
    durable: bool = False
    content_type: Any = None
    message_id: Any = None


@runtime_checkable
class Annotated(Protocol):
    """A message that says what consumers noted on it."""

    annotations: dict[str, Any]


FIELDS = Header.__struct_fields__
"""Those that senders set."""
_COUNT = len(FIELDS)
_OPTIONAL = FIELDS[1:]
_optional = attrgetter(*_OPTIONAL)
_DEFAULTS: list[Any] = [b"", None, None, None, None, None, None, False, None, None, None]
_BYTES = (0xC4, 0xC5, 0xC6)  # how msgpack begins bytes: of a length in 1, 2 or 4 bytes

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[Any]).decode
_decode_header = msgspec.msgpack.Decoder(Header).decode
_decode_raw = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_decode_properties = msgspec.msgpack.Decoder(dict[str, Any] | None).decode
_UNDECODABLE = (msgspec.MsgspecError, ValueError, TypeError, IndexError, RecursionError)
_BODY = "the first of these is not bytes"


def encode(message: Fields) -> bytes:
    """The blob of a message.

    Raises:
        PeerError: `invalid`, a field is of a type that cannot travel.
    """
    body = message.body
    if type(body) is not bytes:
        body = _as_bytes(body)
    values = [body]
    if (
        message.subject is not None or message.properties is not None or message.ttl is not None
        or message.priority is not None or message.correlation_id is not None or message.reply_to is not None
        or message.durable or message.content_type is not None or message.message_id is not None
    ):  # fmt: skip
        if message.properties is not None and not isinstance(message.properties, dict):
            kind = type(message.properties).__name__
            raise PeerError(INVALID, f"a message's properties are a dict of names and values, not {kind}")
        values += _optional(message)
        while values[-1] is None or values[-1] is False:  # a body is never either, so this ends
            values.pop()
        for name, value in zip(_OPTIONAL, values[1:], strict=False):
            if value is not None and type(value) is not str:
                check(value, f"a message's {name}")
    try:
        return _encode(values)
    except (TypeError, OverflowError, ValueError, RecursionError) as error:
        text = f"a message holds bytes, text, numbers, lists and maps only: {error}"
        raise PeerError(INVALID, text) from None


def _as_bytes(body: object) -> bytes:
    if isinstance(body, str):
        return body.encode()
    if isinstance(body, bytearray | memoryview):
        return bytes(body)
    raise PeerError(INVALID, f"a message's body is bytes or str, not {type(body).__name__}: serialise it first")


def decode(blob: bytes, make: Callable[..., Made]) -> Made:
    """`make` of the fields of a message, as its arguments, the body first, up to the last that is not at its default.

    Raises:
        PeerError: `invalid`, this is no message.
    """
    try:
        values = _decode(blob)
        body = values[0]
    except _UNDECODABLE as error:
        raise _no_message(error) from None
    if type(body) is not bytes:
        raise _no_message(_BODY)
    if len(values) == 1:
        return make(body)
    return make(*values) if len(values) <= _COUNT else _noted(values, make)


def _noted(values: list[Any], make: Callable[..., Made]) -> Made:
    """Of a message with annotations; what cannot have any is made without."""
    made = make(*values[:_COUNT])
    if isinstance(made, Annotated) and type(values[_COUNT]) is dict:
        made.annotations = values[_COUNT]
    return made


def annotated(blob: bytes, annotations: dict[str, Any]) -> bytes:
    """The same message with these annotations besides those it has; what is no message stays as it is."""
    try:
        values = _decode(blob)
        if type(values[0]) is not bytes:
            return blob
    except _UNDECODABLE:
        return blob
    values += _DEFAULTS[len(values) :]
    there = values[_COUNT]
    values[_COUNT] = there | annotations if type(there) is dict else annotations
    return _encode(values)


def header(blob: bytes) -> Header:
    """All of a message but its body, which is neither decoded nor copied.

    Raises:
        PeerError: `invalid`, this is no message, or a field has a value that is not in the table.
    """
    try:
        found = _decode_header(blob)
    except _UNDECODABLE as error:
        raise _no_message(error) from None
    if memoryview(found.body)[0] not in _BYTES:
        raise _no_message(_BODY)
    return found


def with_property(blob: bytes, name: str, value: int) -> bytes:
    """A message with one more property, or another value of it; all else is as it was. What is no message stays so."""
    return with_properties(blob, lambda properties: properties | {name: value})


def with_properties(blob: bytes, change: Callable[[dict[str, Any]], dict[str, Any]]) -> bytes:
    """A message with other properties, which `change` makes of those that it has; all else is as it was. What is no
    message stays so."""
    try:
        values: list[Any] = _decode_raw(blob)
        if memoryview(values[0])[0] not in _BYTES:
            return blob
        properties = _decode_properties(values[2]) if len(values) > 2 else None
        values += [None] * (3 - len(values))
        values[2] = change(properties or {})
        return _encode(values)
    except _UNDECODABLE:
        return blob


def _no_message(why: object) -> PeerError:
    return PeerError(INVALID, f"a message is a msgpack array of the fields in `protocol/wire/message.py`: {why}")
