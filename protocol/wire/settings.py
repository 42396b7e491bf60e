"""Typed settings out of the free-form arguments of a declaration.

A shape is a frozen Struct with one field for each argument that means something: its type says which values it takes,
its `Argument` has the name that users write, other brokers' names for the same, and the rule in words. Other arguments
are the user's, and passed over. A number may be written as text, as command lines and other brokers' clients do.

The broker that a client asks calls `parse`, before the declaration is ordered, and orders it in `plain` spelling: so
definitions that mean the same are the same. Members `read` the arguments of a declaration that is ordered, of which a
newer version may have accepted more than theirs would.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec

from ..errors import INVALID, PeerError

Shape = TypeVar("Shape", bound=msgspec.Struct)


class Argument(NamedTuple):
    """Marks a field of a shape as an argument, in its `Annotated` type.

    Attributes:
        name: as users write it.
        rule: which values it takes, and what it is to leave it out: the end of the error text.
        also: other names of the same argument.
        words: other words for the values of this argument -> ours.
        each: such an argument there is for every number below this one, which stands behind its names ("name-0"): the
            field is a dictionary by number. 0: there is one.
    """

    name: str
    rule: str
    also: tuple[str, ...] = ()
    words: tuple[tuple[str, Any], ...] = ()
    each: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        names = self.name, *self.also
        return tuple(f"{name}-{number}" for number in range(self.each) for name in names) if self.each else names


@cache
def arguments_of(shape: type[msgspec.Struct]) -> dict[str, tuple[Argument, Any]]:
    """Field -> its argument and its type, of all fields that are arguments."""
    hints = get_type_hints(shape, include_extras=True)
    marks = ((field, hint, mark) for field, hint in hints.items() for mark in getattr(hint, "__metadata__", ()))
    return {field: (mark, hint) for field, hint, mark in marks if isinstance(mark, Argument)}


def names_of(shape: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(name for argument, _ in arguments_of(shape).values() for name in argument.names)


def parse(shape: type[Shape], what: str, arguments: dict[str, Any]) -> Shape:
    """The settings that a client asks for, for a `what`: "queue", "exchange" or "binding".

    Raises:
        PeerError: `invalid`, an argument has a value that it does not take, or has two by two names.
    """
    values, wrong = _converted(shape, arguments)
    for name, value, rule in wrong:
        raise PeerError(INVALID, f"{what} argument {name!r} is {value!r:.60}: {rule}")
    return shape(**values)


def plain(settings: msgspec.Struct, arguments: dict[str, Any]) -> dict[str, Any]:
    """Arguments in the one spelling: the user's own as they are, the others by their first names, where they are not at
    their defaults."""
    shape = type(settings)
    known = names_of(shape)
    spelled = {name: value for name, value in arguments.items() if name not in known}
    for field, (argument, _) in arguments_of(shape).items():
        value = getattr(settings, field)
        if argument.each:
            spelled |= {f"{argument.name}-{number}": one for number, one in sorted(value.items())}
        elif value != getattr(shape(), field):
            spelled[argument.name] = value
    return spelled


def read(shape: type[Shape], arguments: dict[str, Any], **declared: Any) -> Shape:
    """The settings of a declaration that is ordered, with the fields in `declared`, which are no arguments. A value
    that is not of this version has no effect, as a name that is not."""
    return shape(**declared, **_converted(shape, arguments)[0])


def _converted(
    shape: type[msgspec.Struct], arguments: dict[str, Any]
) -> tuple[dict[str, Any], list[tuple[str, Any, str]]]:
    """Field -> value; and (name, value, rule) of the arguments with a value that they do not take."""
    found: dict[tuple[str, int | None], Any] = {}
    wrong: list[tuple[str, Any, str]] = []
    for field, number, argument, hint in _singly(shape):
        words = dict(argument.words)
        for name in argument.names:
            if name not in arguments:
                continue
            given = arguments[name]
            value = words.get(given, given) if isinstance(given, str) else given
            if isinstance(value, str) and _NUMBER.fullmatch(value):
                value = int(value)
            try:
                value = msgspec.convert(value, hint)
            except msgspec.ValidationError:
                wrong.append((name, given, argument.rule))
                continue
            if (before := found.setdefault((field, number), value)) != value:
                wrong.append((name, given, f"{argument.name!r} says {before!r}, and means the same: give one"))
    values: dict[str, Any] = {field: value for (field, number), value in found.items() if number is None}
    for (field, number), value in found.items():
        if number is not None:
            values.setdefault(field, {})[number] = value
    return values, wrong


@cache
def _singly(shape: type[msgspec.Struct]) -> list[tuple[str, int | None, Argument, Any]]:
    """(field, number of it, argument, type), of those of which there are several one by one."""
    found: list[tuple[str, int | None, Argument, Any]] = []
    for field, (argument, hint) in arguments_of(shape).items():
        if not argument.each:
            found.append((field, None, argument, hint))
            continue
        _, one = get_args(get_args(hint)[0])
        for number in range(argument.each):
            also = tuple(f"{name}-{number}" for name in argument.also)
            found.append((field, number, Argument(f"{argument.name}-{number}", argument.rule, also), one))
    return found


_NUMBER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
