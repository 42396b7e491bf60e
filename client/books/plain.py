"""Plain values: what arrives as exactly what was sent. Anything else is refused here rather than changed on the way (a
set would come as a list, a UUID as a text, a naive datetime without saying so)."""

from __future__ import annotations

from typing import Any

import msgspec

from ..errors import Invalid

KINDS = "None, bool, int (below 2**64), float, str, bytes, and lists and dicts of these"
_ALONE = frozenset({type(None), bool, int, float, str, bytes})
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


def check(value: object, what: str) -> None:
    """Refuse a value that would not arrive as it is.

    Args:
        value: of any type.
        what: names it in the error.

    Raises:
        Invalid: it, or something in it, is not plain.
    """
    kind = type(value)
    if kind in _ALONE:
        if kind is int and not -(1 << 63) <= value < 1 << 64:  # type: ignore[operator]
            raise Invalid(f"{what} is {value}: an int here is from -2**63 to 2**64 - 1; send it as a str")
        return
    try:
        if kind is dict:
            for key, item in value.items():  # type: ignore[attr-defined]
                if type(key) is not str:
                    raise Invalid(f"{what} has the key {key!r}, of type {type(key).__name__}: keys are str here")
                if type(item) not in _ALONE or type(item) is int:
                    check(item, f"{what}[{key!r}]")
        elif kind is list:
            for index, item in enumerate(value):  # type: ignore[arg-type]
                if type(item) not in _ALONE or type(item) is int:
                    check(item, f"{what}[{index}]")
        else:
            name = kind.__name__
            raise Invalid(
                f"{what} is of type {name}, which would not arrive as one: send {KINDS}; write a {name} as one of them"
            )
    except RecursionError:
        raise Invalid(f"{what} is nested too deeply, or contains itself") from None


def copied(value: dict[str, Any], what: str) -> dict[str, Any]:
    """A copy that nobody else can change: it may be sent again later.

    Raises:
        Invalid: it is not plain.
    """
    if type(value) is not dict:
        raise Invalid(f"{what} are a dict of str to plain values, not {type(value).__name__}")
    check(value, what)
    try:
        return _decode(_encode(value))
    except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise Invalid(f"{what} cannot be sent: {problem}") from None
