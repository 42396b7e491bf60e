"""Values of arguments as JSON has them, and back.

What JSON has no words for is a map with one key that begins with $: bytes, and numbers that are not finite. A map of
the user's that looks like one of these is wrapped in another.
"""

from __future__ import annotations

import base64
import math
from typing import Any

from ..errors import Invalid

BYTES, NUMBER, MAP = "$bytes", "$number", "$map"
_MARKS = (BYTES, NUMBER, MAP)
_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def to_json(value: Any) -> Any:
    """A plain value in JSON's words, maps in the order of their names."""
    if isinstance(value, bytes):
        return {BYTES: base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {NUMBER: str(value)}
    if isinstance(value, list):
        return [to_json(one) for one in value]
    if isinstance(value, dict):
        found = {name: to_json(one) for name, one in sorted(value.items())}
        return {MAP: found} if _marked(value) else found
    return value


def from_json(value: Any, where: str, marks: bool = True) -> Any:
    """Undo `to_json`.

    Args:
        where: the value's path in its file, for errors.
        marks: False: the file knows none of ours, and maps are as they are.

    Raises:
        Invalid: a broker takes no such value.
    """
    if isinstance(value, str):
        check_text(value, where)
    elif isinstance(value, list):
        return [from_json(one, f"{where}[{number}]", marks) for number, one in enumerate(value)]
    elif isinstance(value, dict):
        if marks and _marked(value):
            return _unmarked(*next(iter(value.items())), where)
        return _map(value, where, marks)
    elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 64:
        raise Invalid(f"{where} is {value}: whole numbers are from -2**63 to 2**64 - 1, write it as a text")
    elif isinstance(value, float) and not math.isfinite(value):
        raise Invalid(f"{where} is too large for a number: write it as a text")
    return value


def check_text(value: str, where: str) -> None:
    """Raises Invalid: half of a character is in it, as JSON can have it and UTF-8 cannot."""
    if not value.isascii() and any("\ud800" <= one <= "\udfff" for one in value):
        raise Invalid(f"{where} is {value!a:.60}: half of a surrogate pair is no character, leave it out")


def _map(value: dict[str, Any], where: str, marks: bool) -> dict[str, Any]:
    for name in value:
        check_text(name, f"a name in {where}")
    return {name: from_json(one, f"{where}.{name}", marks) for name, one in value.items()}


def _marked(value: dict[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)) in _MARKS


def _unmarked(mark: str, value: Any, where: str) -> Any:
    if mark == MAP:
        if not isinstance(value, dict):
            raise Invalid(f"{where}.{mark} is {value!r:.60}: give the map that is meant")
        return _map(value, where, True)
    if mark == NUMBER:
        if not isinstance(value, str) or value not in _NUMBERS:
            raise Invalid(f"{where}.{mark} is {value!r:.60}: give {', '.join(_NUMBERS)}, or the number itself")
        return _NUMBERS[value]
    try:
        return base64.b64decode(value, validate=True)
    except (ValueError, TypeError):
        raise Invalid(f"{where}.{mark} is {value!r:.60}: give bytes in base64, as a text") from None
