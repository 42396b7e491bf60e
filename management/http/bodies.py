"""The body of a request: read up to a bound, and taken as a JSON object whose fields have kinds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from ...client.definitions.reading import parsed
from ...client.definitions.values import check_text, from_json
from ...client.errors import Invalid
from .problems import HttpProblem

PLAIN_BYTES = 1 << 20
"""Of most requests."""
DEPTH = 16
"""Deepest nesting of what is in one."""
FLAGS = {"true": True, "false": False}


async def read_body(request: Request, most_bytes: int) -> bytes:
    """The body.

    Raises:
        HttpProblem: 413, it is longer than that; 400, its length is none.
    """
    said = request.headers.get("content-length")
    if said is not None and not (said.isascii() and said.isdigit() and len(said) < 20):
        raise HttpProblem(400, f"Content-Length is a number of bytes, not {said!r:.60}")
    if said is not None and int(said) > most_bytes:
        raise too_long(most_bytes)
    found = bytearray()
    async for piece in request.stream():
        found += piece
        if len(found) > most_bytes:
            raise too_long(most_bytes)
    return bytes(found)


def too_long(most_bytes: int) -> HttpProblem:
    """Of a body with more than so many bytes."""
    return HttpProblem(413, f"the body of this request has at most {most_bytes:,} bytes: divide it")


def read_object(body: bytes) -> BodyObject:
    """A body as a JSON object; one that is empty as an object without fields.

    Raises:
        Invalid: it is none.
    """
    value = parsed(body) if body.strip() else {}
    if not isinstance(value, dict):
        raise Invalid(f"the body is a JSON object, not {value!r:.60}")
    check_depth(value)
    return BodyObject(value)


def check_depth(value: Any, depth: int = DEPTH) -> None:
    """Raises Invalid: it nests deeper than that."""
    if depth == 0:
        raise Invalid(f"what is in the body nests at most {DEPTH} deep: flatten it")
    if isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            check_depth(one, depth - 1)


class BodyObject:
    """The fields of an object. Those that nobody asks for are passed over, as by RabbitMQ. null is no field.

    All raise Invalid: the field has another kind of value.
    """

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self._fields = {name: value for name, value in fields.items() if value is not None}

    def text(self, name: str, default: str | None = None) -> str:
        """A text; without a default it must be there."""
        value = self._value(name, default)
        if not isinstance(value, str):
            raise Invalid(f"{name} is a text, not {value!r:.60}")
        check_text(value, name)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """true or false, or either as a text, as RabbitMQ's command has it."""
        value = self._value(name, default)
        if isinstance(value, str):
            value = FLAGS.get(value, value)
        if not isinstance(value, bool):
            raise Invalid(f"{name} is true or false, not {value!r:.60}")
        return value

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number in these bounds, or one as a text."""
        value = self._value(name, default)
        if isinstance(value, str) and (whole := value.removeprefix("-")).isascii() and whole.isdigit():
            value = int(value) if len(value) < 20 else value
        if type(value) is not int or not least <= value <= most:
            raise Invalid(f"{name} is a whole number from {least} to {most}, not {value!r:.60}")
        return value

    def plain(self, name: str) -> dict[str, Any]:
        """An object of names and plain values; an empty list for an empty one, as RabbitMQ writes it."""
        value = self._value(name, {})
        if value == []:
            return {}
        if not isinstance(value, dict):
            raise Invalid(f"{name} is an object of names and values, not {value!r:.60}")
        found = from_json(value, name)
        if not isinstance(found, dict):
            raise Invalid(f"{name} is an object of names and values, not {found!r:.60}")
        return found

    def has(self, name: str) -> bool:
        """Whether it is there."""
        return name in self._fields

    def _value(self, name: str, default: Any) -> Any:
        if (value := self._fields.get(name, default)) is None:
            raise Invalid(f"the body has no {name!r}: give it")
        return value
