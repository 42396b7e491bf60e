"""Typed settings out of the free-form arguments of a declaration.

A shape is a frozen Struct with one field for each argument that means something: its type says which values it takes,
its `Argument` has the name that users write, and the rule in words. Other arguments are the user's, and passed over.

The broker that a client asks calls `parse`, before the declaration is ordered. Members `read` the arguments of a
declaration that is ordered, of which a newer version may have accepted more than theirs would.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple, TypeVar, get_type_hints

import msgspec

from ..errors import INVALID, PeerError

Shape = TypeVar("Shape", bound=msgspec.Struct)


class Argument(NamedTuple):
    """Marks a field of a shape as an argument, in its `Annotated` type.

    Attributes:
        name: as users write it.
        rule: which values it takes, and what it is to leave it out: the end of the error text.
    """

    name: str
    rule: str


@cache
def arguments_of(shape: type[msgspec.Struct]) -> dict[str, tuple[Argument, Any]]:
    """Field -> its argument and its type, of all fields that are arguments."""
    hints = get_type_hints(shape, include_extras=True)
    marks = ((field, hint, mark) for field, hint in hints.items() for mark in getattr(hint, "__metadata__", ()))
    return {field: (mark, hint) for field, hint, mark in marks if isinstance(mark, Argument)}


def names_of(shape: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(argument.name for argument, _ in arguments_of(shape).values())


def parse(shape: type[Shape], what: str, arguments: dict[str, Any]) -> Shape:
    """The settings that a client asks for, for a `what`: "queue", "exchange" or "binding".

    Raises:
        PeerError: `invalid`, an argument has a value that it does not take.
    """
    values, wrong = _converted(shape, arguments)
    for argument, value in wrong:
        raise PeerError(INVALID, f"{what} argument {argument.name!r} is {value!r:.60}: {argument.rule}")
    return shape(**values)


def read(shape: type[Shape], arguments: dict[str, Any], **declared: Any) -> Shape:
    """The settings of a declaration that is ordered, with the fields in `declared`, which are no arguments. A value
    that is not of this version has no effect, as a name that is not."""
    return shape(**declared, **_converted(shape, arguments)[0])


def _converted(
    shape: type[msgspec.Struct], arguments: dict[str, Any]
) -> tuple[dict[str, Any], list[tuple[Argument, Any]]]:
    """Field -> value, and the arguments with a value that they do not take."""
    values: dict[str, Any] = {}
    wrong: list[tuple[Argument, Any]] = []
    for field, (argument, hint) in arguments_of(shape).items():
        if argument.name not in arguments:
            continue
        value = arguments[argument.name]
        try:
            values[field] = msgspec.convert(value, hint)
        except msgspec.ValidationError:
            wrong.append((argument, value))
    return values, wrong
