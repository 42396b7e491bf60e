"""Plain values: the ones that arrive as exactly what was sent. All others are refused at the sender rather than changed
on the way (a set would come as a list, a UUID as a text, a naive datetime without saying so)."""

from __future__ import annotations

from ..errors import INVALID, PeerError

KINDS = "None, bool, int (below 2**64), float, str, bytes, and lists and dicts of these"
_ALONE = frozenset({type(None), bool, int, float, str, bytes})


def check(value: object, what: str) -> None:
    """Refuse a value that would not arrive as it is.

    Args:
        value: of any type.
        what: names it in the error.

    Raises:
        PeerError: `invalid`, the value, or something in it, is not plain.
    """
    kind = type(value)
    if kind in _ALONE:
        if kind is int and not -(1 << 63) <= value < 1 << 64:  # type: ignore[operator]
            raise PeerError(INVALID, f"{what} is {value}: an int here is from -2**63 to 2**64 - 1; send it as a str")
        return
    try:
        if kind is dict:
            for key, item in value.items():  # type: ignore[attr-defined]
                if type(key) is not str:
                    text = f"{what} has the key {key!r}, of type {type(key).__name__}: keys are str here"
                    raise PeerError(INVALID, text)
                if type(item) not in _ALONE or type(item) is int:
                    check(item, f"{what}[{key!r}]")
        elif kind is list:
            for index, item in enumerate(value):  # type: ignore[arg-type]
                if type(item) not in _ALONE or type(item) is int:
                    check(item, f"{what}[{index}]")
        else:
            name = kind.__name__
            text = f"{what} is of type {name}, which would not arrive as one: send {KINDS}"
            raise PeerError(INVALID, f"{text}; write a {name} as one of them")
    except RecursionError:
        raise PeerError(INVALID, f"{what} is nested too deeply, or contains itself") from None
