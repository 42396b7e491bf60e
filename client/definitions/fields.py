"""One object of a definitions file, read field by field: what is wrong is said with its path, and what to give."""

from __future__ import annotations

import json
from typing import Any

from ...protocol.errors import PeerError
from ...protocol.wire.framing import check_depth
from ...protocol.wiring.arguments import DEPTH
from ...protocol.wiring.definitions import check_name
from ..errors import Invalid
from .values import check_text, from_json


class FileObject:
    """
    Args:
        value: what stands in the file.
        where: its path there, "" for the whole.

    Raises:
        Invalid: it is no object.
    """

    def __init__(self, value: Any, where: str = "") -> None:
        if not isinstance(value, dict):
            raise Invalid(f"{where or 'the file'} is {shown(value)}: give an object, in braces")
        self._value = value
        self.where = where

    def path(self, name: str) -> str:
        return f"{self.where}.{name}" if self.where else name

    def _wrong(self, name: str, give: str) -> Invalid:
        if name not in self._value:
            return Invalid(f"{self.path(name)} is missing: give {give}")
        return Invalid(f"{self.path(name)} is {shown(self._value[name])}: give {give}")

    def has(self, name: str) -> bool:
        return name in self._value

    def only(self, *known: str) -> None:
        """Raises Invalid: there are other fields, which would be lost."""
        for name in self._value:
            if name not in known:
                raise Invalid(f"{self.path(name)} means nothing here: there are {', '.join(known)}; leave it out")

    def text(self, name: str, default: str | None = None) -> str:
        value = self._value.get(name, default)
        if not isinstance(value, str):
            raise self._wrong(name, "a text")
        check_text(value, self.path(name))
        return value

    def name_of(self, what: str, name: str = "name") -> str:
        """The name of a `what`, "queue" or "exchange"."""
        value = self.text(name)
        try:
            check_name(what, value)
        except PeerError as problem:
            raise Invalid(f"{self.path(name)}: {problem.text}") from None
        return value

    def flag(self, name: str) -> bool:
        value = self._value.get(name, False)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def number(self, name: str) -> int:
        value = self._value.get(name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._wrong(name, "a whole number")
        return value

    def within(self, name: str) -> dict[str, Any]:
        """Names and values of another broker's, none where they are missing."""
        value = self._value.get(name, {})
        if value == []:
            return {}
        if not isinstance(value, dict):
            raise self._wrong(name, "an object of names and values")
        return {key: from_json(one, f"{self.path(name)}.{key}", False) for key, one in value.items()}

    def arguments(self, marks: bool = True) -> dict[str, Any]:
        """Args: marks: as in `from_json`."""
        value, where = self._value.get("arguments", {}), self.path("arguments")
        if value == [] and not marks:
            return {}  # how RabbitMQ writes it now and then
        if not isinstance(value, dict):
            raise self._wrong("arguments", "an object of names and values")
        for name in value:
            check_text(name, f"a name in {where}")
        try:
            check_depth(value, 3 * DEPTH)  # maps may stand for other values, or around others
            found = {name: from_json(one, f"{where}.{name}", marks) for name, one in value.items()}
            check_depth(found, DEPTH + 1)
        except PeerError:
            raise Invalid(f"{where} nest too deep: at most {DEPTH} arrays and maps, themselves included") from None
        return found

    def objects(self, name: str) -> list[FileObject]:
        """The objects in a list; none where that is missing."""
        value = self._value.get(name, [])
        if not isinstance(value, list):
            raise self._wrong(name, "a list of objects")
        return [FileObject(one, f"{self.path(name)}[{number}]") for number, one in enumerate(value)]

    def lists(self) -> dict[str, int]:
        """The fields that are lists -> how long each is."""
        return {name: len(value) for name, value in self._value.items() if isinstance(value, list)}


class Once:
    """Names that may stand in a file once."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._at: dict[str, str] = {}

    def take(self, name: str, where: str) -> None:
        """Raises Invalid: it stood somewhere before."""
        if (first := self._at.setdefault(name, where)) != where:
            raise Invalid(f"{where}: {self._what} {name!r} stands at {first} already: leave one of the two out")


def shown(value: Any) -> str:
    """A value as the file has it, its beginning."""
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 60 else f"{text[:57]}..."
