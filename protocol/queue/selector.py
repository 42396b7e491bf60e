"""Selectors as conditions: which messages a consumer wants.

The logic has three values: a message that has no such header, or one of another type, makes a comparison UNKNOWN, and
only what is TRUE is wanted. Numbers compare with numbers, texts and booleans only by = and <>, and with their own kind.
Division of whole numbers is whole; by zero it is UNKNOWN.

A name is one of the message's own (`FIELDS`), or a property; in "double quotes" it is always a property.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ..wire.message import Header
from .like import like
from .selector_grammar import Expression, column_of, parse, refused, unquoted
from .traits import header_of

Value = Any
"""Of an expression: a bool, number or text; bytes, a list or a map, which compare with nothing; None: NULL, UNKNOWN."""
Reading = Callable[[dict[str, Any], Header], Value]
"""A part of a selector: properties and header of a message -> its value. It raises nothing."""
Wanted = Callable[[bytes], bool]
"""Whether a message, encoded, is wanted. One that cannot be read has no properties."""

NORMAL_PRIORITY = 4
"""Where none is given."""
FIELDS: dict[str, Reading] = {
    "subject": lambda _, header: header.subject,
    "priority": lambda _, header: NORMAL_PRIORITY if header.priority is None else header.priority,
    "ttl": lambda _, header: header.ttl,
    "correlation_id": lambda _, header: header.correlation_id,
    "reply_to": lambda _, header: header.reply_to,
    "durable": lambda _, header: header.durable,
    "content_type": lambda _, header: header.content_type,
    "message_id": lambda _, header: header.message_id,
}
JMS: dict[str, Reading] = {
    "JMSType": FIELDS["subject"],
    "JMSPriority": FIELDS["priority"],
    "JMSCorrelationID": FIELDS["correlation_id"],
    "JMSReplyTo": FIELDS["reply_to"],
    "JMSMessageID": FIELDS["message_id"],
    "JMSDeliveryMode": lambda _, header: "PERSISTENT" if header.durable else "NON_PERSISTENT",
}
LACKING = frozenset(("JMSDestination", "JMSExpiration", "JMSRedelivered", "JMSTimestamp"))
"""Of JMS, but not of a message here: a selector with these would never say yes, and its user should hear so."""


@lru_cache(maxsize=256)
def selector(text: str) -> Wanted:
    """The condition that a text stands for; one text is read once.

    Raises:
        PeerError: `invalid`, it is no selector.
    """
    reading = _compiled(parse(text))
    none: dict[str, Any] = {}

    def wanted(blob: bytes) -> bool:
        header = header_of(blob)
        return reading(header.properties or none, header) is True

    return wanted


def _compiled(node: Expression) -> Reading:
    return _RULES[node.kind](*node.parts)


# ---- leaves


def _value(value: Value) -> Reading:
    return lambda properties, header: value


def _name(name: str, column: int) -> Reading:
    if name in LACKING:
        text = f"a message has no {name} here: leave it away, or have senders set a property and name that"
        raise refused(column, text)
    return FIELDS.get(name) or JMS.get(name) or _property(name)


def _property(name: str) -> Reading:
    return lambda properties, header: properties.get(name)


# ---- logic: True, False and None


def _joined(parts: list[Reading], ends: bool) -> Reading:
    """AND, which ends at the first False; or OR, which ends at the first True."""
    else_ = not ends

    def joined(properties: dict[str, Any], header: Header) -> bool | None:
        sure = True
        for part in parts:
            found = part(properties, header)
            if found is ends:
                return ends
            sure = sure and found is else_
        return else_ if sure else None

    return joined


def _inverse(reading: Reading) -> Reading:
    def inverse(properties: dict[str, Any], header: Header) -> bool | None:
        found = reading(properties, header)
        return not found if isinstance(found, bool) else None

    return inverse


# ---- comparisons

_COMPARES: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _number(value: Value) -> bool:
    kind = type(value)
    return kind is int or kind is float


def _comparison(one: Expression, sign: str, other: Expression) -> Reading:
    left, right, compare = _compiled(one), _compiled(other), _COMPARES[sign]
    exact = sign in ("=", "<>")

    def comparison(properties: dict[str, Any], header: Header) -> bool | None:
        a, b = left(properties, header), right(properties, header)
        kind, other = type(a), type(b)
        if kind is other:
            if kind is int or kind is float or (exact and (kind is str or kind is bool)):
                return compare(a, b)
            return None
        return compare(a, b) if _number(a) and _number(b) else None

    return comparison


def _between(node: Expression, low: Expression, high: Expression) -> Reading:
    return _joined([_comparison(node, ">=", low), _comparison(node, "<=", high)], False)


def _among(node: Expression, *nodes: Expression) -> Reading:
    if all(one.kind == "value" and isinstance(one.parts[0], str) for one in nodes):
        reading, texts = _compiled(node), frozenset(one.parts[0] for one in nodes)

        def among(properties: dict[str, Any], header: Header) -> bool | None:
            value = reading(properties, header)
            return value in texts if type(value) is str else None

        return among
    return _joined([_comparison(node, "=", one) for one in nodes], True)


def _like(node: Expression, pattern: str, escape: str = "") -> Reading:
    reading = _compiled(node)
    try:
        matches = like(unquoted(pattern), unquoted(escape) if escape else None)
    except ValueError as error:
        raise refused(column_of(escape), str(error)) from None

    def alike(properties: dict[str, Any], header: Header) -> bool | None:
        value = reading(properties, header)
        return matches(value) if type(value) is str else None

    return alike


def _null(node: Expression) -> Reading:
    reading = _compiled(node)
    return lambda properties, header: reading(properties, header) is None


# ---- numbers


def _divided(a: Any, b: Any) -> Any:
    if type(a) is int and type(b) is int:
        whole = abs(a) // abs(b)
        return whole if (a < 0) == (b < 0) else -whole
    return a / b


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _divided,
}  # fmt: skip


def _arithmetic(first: Expression, *rest: Any) -> Reading:
    reading = _compiled(first)
    steps = [(_OPERATORS[sign], _compiled(node)) for sign, node in zip(rest[::2], rest[1::2], strict=True)]

    def arithmetic(properties: dict[str, Any], header: Header) -> Value:
        value = reading(properties, header)
        if not _number(value):
            return None
        for apply, operand in steps:
            other = operand(properties, header)
            if not _number(other):
                return None
            try:
                value = apply(value, other)
            except ArithmeticError:
                return None
        return value

    return arithmetic


def _sign(sign: str, node: Expression) -> Reading:
    reading, negative = _compiled(node), sign == "-"

    def signed(properties: dict[str, Any], header: Header) -> Value:
        value = reading(properties, header)
        if not _number(value):
            return None
        return -value if negative else value

    return signed


_RULES: dict[str, Callable[..., Reading]] = {
    "value": _value,
    "name": _name,
    "quoted": _property,
    "parenthesis": _compiled,
    "conjunction": lambda *nodes: _joined([_compiled(node) for node in nodes], False),
    "disjunction": lambda *nodes: _joined([_compiled(node) for node in nodes], True),
    "negation": lambda node: _inverse(_compiled(node)),
    "comparison": _comparison,
    "between": _between,
    "not_between": lambda *parts: _inverse(_between(*parts)),
    "among": _among,
    "not_among": lambda *parts: _inverse(_among(*parts)),
    "like": _like,
    "not_like": lambda *parts: _inverse(_like(*parts)),
    "null": _null,
    "not_null": lambda node: _inverse(_null(node)),
    "sum": _arithmetic,
    "product": _arithmetic,
    "sign": _sign,
}
