"""What a form gives: read up to a bound, and its fields as values."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl

from starlette.requests import Request

from ...client.definitions.reading import MOST_BYTES as DEFINITIONS_BYTES
from ...client.definitions.reading import parsed
from ...client.definitions.values import from_json
from ...client.errors import Invalid
from . import uploads

MOST_BYTES = 4 << 20
FILE = "file"
"""The field of a form's file."""
FILE_BYTES = DEFINITIONS_BYTES + (1 << 16)
"""Of a form that has one."""
MOST_FIELDS = 50
KIND = "application/x-www-form-urlencoded"


class Given:
    """The fields of a form.

    All raise Invalid: the field is missing, or no such value.

    Attributes:
        fields: name -> text. file: what is in the file that came with it.
    """

    def __init__(self, fields: dict[str, str], file: bytes = b"") -> None:
        self.fields = fields
        self.file = file

    @classmethod
    async def read(cls, request: Request, with_file: bool = False) -> Given:
        """Those of a request. Raises Invalid: it is no form, or too long."""
        content_type = request.headers.get("content-type", "")
        kind, most = (uploads.KIND, FILE_BYTES) if with_file else (KIND, MOST_BYTES)
        if content_type.partition(";")[0].strip() != kind:
            raise Invalid(f"this form is sent as {kind}: send it from its page")
        body = bytearray()
        async for piece in request.stream():
            body += piece
            if len(body) > most:
                raise Invalid(f"this form has at most {most:,} bytes: send what is longer with a program")
        if with_file:
            parts = uploads.parts_of(content_type, bytes(body))
            file = parts.pop(FILE, b"")
            return cls({name: value.decode("utf-8", "replace") for name, value in parts.items()}, file)
        try:
            pairs = parse_qsl(body.decode("utf-8"), True, encoding="utf-8", errors="strict", max_num_fields=MOST_FIELDS)
        except ValueError as error:
            raise Invalid(f"this form cannot be read: {error}") from None
        return cls(dict(pairs))

    def text(self, name: str, default: str | None = None) -> str:
        """A text as it is; without a default it must be there."""
        value = self.fields.get(name, default)
        if value is None:
            raise Invalid(f"the form has no {name}: give it")
        return value

    def name(self, field: str) -> str:
        """A name, which has a character at least."""
        if not (value := self.text(field, "")):
            raise Invalid(f"{field} is empty: give a name")
        return value

    def flag(self, name: str) -> bool:
        """Whether a box is ticked."""
        return self.fields.get(name, "") not in ("", "0")

    def number(self, name: str, default: int = 0) -> int:
        """A whole number, from 0."""
        text = self.fields.get(name, "").strip()
        if not text:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 16):
            raise Invalid(f"{name} is a whole number, not {text!r:.60}")
        return int(text)

    def values(self, name: str) -> dict[str, Any]:
        """Names and values: a JSON object, or a line for each, "x-max-length = 1000"; a value that is no JSON is a
        text."""
        text = self.fields.get(name, "").strip()
        if text.startswith("{"):
            found = parsed(text.encode())
        else:
            found = {}
            for line in filter(None, map(str.strip, text.splitlines())):
                key, equals, value = line.partition("=")
                if not equals or not key.strip():
                    raise Invalid(f"{name}: a line is NAME = VALUE, not {line!r:.60}")
                found[key.strip()] = _value(value.strip())
        plain = from_json(found, name)
        if not isinstance(plain, dict):
            raise Invalid(f"{name} is an object of names and values, not {plain!r:.60}")
        return plain


def _value(text: str) -> Any:
    try:
        return parsed(text.encode())
    except Invalid:
        return text
