"""Any definitions file: its text, whose it is, and what it comes to. It is read as a whole or not at all."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from ..errors import Invalid
from .declarations import Reading
from .document import MARK, read_document
from .fields import shown
from .rabbitmq import MARKS, read_rabbitmq

MOST_BYTES = 32 << 20
"""Of a file: some hundred thousand queues."""


def read_file(text: bytes, vhost: str = "") -> Reading:
    """A file of this project's, or of RabbitMQ's.

    Args:
        text: what is in it, at least the first `MOST_BYTES` and one more.
        vhost: which one of RabbitMQ's, "" for "/".

    Raises:
        Invalid: it cannot be read; the text says where, and what to do.
    """
    if len(text) > MOST_BYTES:
        raise Invalid(f"definitions have at most {MOST_BYTES >> 20} MiB: divide the file, by its bindings for example")
    document = parsed(text)
    if isinstance(document, dict) and MARK in document:
        if vhost:
            raise Invalid("a virtual host is of RabbitMQ's files, and this is one of mantamq: leave --vhost out")
        return read_document(document)
    if isinstance(document, dict) and any(name in document for name in MARKS):
        return read_rabbitmq(document, vhost or "/")
    raise Invalid(
        f"this is no definitions file, but {shown(document)}: give one that `mantamq definitions export` has written, "
        f"which has {MARK!r}, or `rabbitmqctl export_definitions`, which has {MARKS[0]!r}"
    )


def parsed(text: bytes) -> Any:
    """
    Raises:
        Invalid: it is no JSON, or an object has a name twice.
    """
    try:
        return json.loads(text, object_pairs_hook=_object, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise Invalid(f"line {error.lineno}, column {error.colno}: this is no JSON: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise Invalid(f"byte {error.start}: this is no text in UTF-8, as JSON is: {error.reason}") from None
    except RecursionError:
        raise Invalid("its arrays and objects nest too deep for definitions: flatten the arguments in it") from None
    except Invalid:
        raise
    except ValueError as error:  # a number of some thousand digits
        raise Invalid(f"this cannot be read as JSON: {error}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise Invalid(f"an object has {twice!r} twice, and one would be lost: leave one out ({shown(found)})")
    return found


def _constant(word: str) -> NoReturn:
    raise Invalid(f"{word} is no number of JSON: leave it out")
