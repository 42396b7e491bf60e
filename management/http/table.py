"""The table of what can be asked: methods, paths and what is known of each; who matches which, and how it is called."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

from ...client.errors import Invalid
from ..deeds import Asker, Deeds
from ..view import ManagementView
from .bodies import FLAGS, PLAIN_BYTES, BodyObject, read_object
from .problems import HttpProblem

VHOST = "/"
"""The one virtual host."""


class Answer(NamedTuple):
    """Attributes: body: a value for JSON; None for no body. status: of HTTP. headers."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = {}


NOTHING = Answer(None, 204)
CREATED = Answer(None, 201)


class Call(NamedTuple):
    """One request.

    Attributes:
        view: the cluster as it was seen last. deeds: by which it is changed. who: wants it.
        path: what stands at each {name} of the path. query: of each parameter the last value. body: as it came.
    """

    view: ManagementView
    deeds: Deeds
    who: Asker
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes

    @property
    def name(self) -> str:
        """What stands at {name}."""
        return self.path["name"]

    @property
    def fields(self) -> BodyObject:
        """The body as an object. Raises Invalid: it is none."""
        return read_object(self.body)

    def flag(self, name: str) -> bool:
        """A parameter that is true or false; false, unless given. Raises Invalid."""
        value = FLAGS.get(self.query.get(name, "false"))
        if value is None:
            raise Invalid(f"{name} is true or false, not {self.query[name]!r:.60}")
        return value

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A parameter that is a whole number in these bounds. Raises Invalid."""
        given = {name: self.query[name]} if name in self.query else {}
        return BodyObject(given).number(name, default, least, most)

    def text(self, name: str) -> str:
        """A parameter that is a text; "", unless given. Raises Invalid."""
        return BodyObject(self.query).text(name, "")


Handler = Callable[[Call], Awaitable[Answer]]


class Parameter(NamedTuple):
    """Of a query. Attributes: name; type: "string", "integer" or "boolean"; what it does."""

    name: str
    type: str
    what: str


class Operation(NamedTuple):
    """A method of a path.

    Attributes:
        method: in capitals. path: behind /api, with {names}. what: a sentence. handler.
        query: its parameters. body: the schema of its body, None for none. most_bytes: of its body.
        statuses: what it answers besides 200, 400, 401, 403, 429 and 503 -> when.
    """

    method: str
    path: str
    what: str
    handler: Handler
    query: tuple[Parameter, ...] = ()
    body: Mapping[str, Any] | None = None
    most_bytes: int = PLAIN_BYTES
    statuses: Mapping[int, str] = {}

    def matches(self, segments: tuple[str, ...]) -> dict[str, str] | None:
        """What stands at each {name} of the path; None: it is another path."""
        parts = self.parts
        if len(parts) != len(segments):
            return None
        found: dict[str, str] = {}
        for part, segment in zip(parts, segments, strict=True):
            if part.startswith("{"):
                found[part[1:-1]] = segment
            elif part != segment:
                return None
        return found

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts of its path."""
        return tuple(self.path.split("/")[1:])


class Operations:
    """Some operations, each told by a decorator of the function that does it."""

    def __init__(self) -> None:
        self.all: list[Operation] = []

    def get(self, path: str, what: str, *query: Parameter, **more: Any) -> Callable[[Handler], Handler]:
        """It is asked for by GET."""
        return self._of("GET", path, what, query, more)

    def put(self, path: str, what: str, *query: Parameter, **more: Any) -> Callable[[Handler], Handler]:
        """It is done by PUT."""
        return self._of("PUT", path, what, query, more)

    def post(self, path: str, what: str, *query: Parameter, **more: Any) -> Callable[[Handler], Handler]:
        """It is done by POST."""
        return self._of("POST", path, what, query, more)

    def delete(self, path: str, what: str, *query: Parameter, **more: Any) -> Callable[[Handler], Handler]:
        """It is done by DELETE."""
        return self._of("DELETE", path, what, query, more)

    def _of(
        self, method: str, path: str, what: str, query: tuple[Parameter, ...], more: Mapping[str, Any]
    ) -> Callable[[Handler], Handler]:
        def told(handler: Handler) -> Handler:
            self.all.append(Operation(method, path, what, handler, query, **more))
            return handler

        return told


class Table:
    """All operations. Where several paths match, the one with a word where others have a {name} does."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self.operations = sorted(operations, key=lambda one: [part.startswith("{") for part in one.parts])
        self._of_length: dict[int, list[Operation]] = {}
        for one in self.operations:
            self._of_length.setdefault(len(one.parts), []).append(one)

    def find(self, method: str, raw_path: bytes) -> tuple[Operation, dict[str, str]]:
        """The operation, and what stands at each {name} of its path.

        Args:
            raw_path: behind /api, as it came: a name may have a slash in it, as %2F.

        Raises:
            HttpProblem: 400, the path is no text; 404, there is no such path, or no such virtual host; 405.
        """
        segments = read_path(raw_path)
        there = [
            (one, found)
            for one in self._of_length.get(len(segments), ())
            if (found := one.matches(segments)) is not None
        ]
        if not there:
            raise HttpProblem(404, "there is no such path: /api/openapi.json tells of all that there are")
        wanted = "GET" if method == "HEAD" else method
        for one, found in there:
            if one.method == wanted:
                if found.get("vhost", VHOST) != VHOST:
                    raise HttpProblem(404, f"there is one virtual host, {VHOST} (%2F in a path)")
                return one, found
        allowed = ", ".join(sorted({one.method for one, _ in there}))
        raise HttpProblem(405, f"this path takes {allowed}", {"allow": allowed})


def read_path(raw_path: bytes) -> tuple[str, ...]:
    """The parts of a path, each decoded by itself.

    Raises:
        HttpProblem: 400, a part is no text.
    """
    found: list[str] = []
    for part in raw_path.removeprefix(b"/").removesuffix(b"/").split(b"/"):
        plain = unquote_to_bytes(part)
        broken = part.count(b"%") != sum(_is_escape(part[at : at + 3]) for at in _percents(part))
        try:
            text = plain.decode()
        except UnicodeDecodeError:
            broken, text = True, ""
        if broken:
            raise HttpProblem(400, "a part of the path is no text: write it in UTF-8, with %XX for other characters")
        found.append(text)
    return tuple(found)


def _percents(part: bytes) -> list[int]:
    return [at for at, one in enumerate(part) if one == ord("%")]


def _is_escape(three: bytes) -> bool:
    return len(three) == 3 and all(one in b"0123456789abcdefABCDEF" for one in three[1:])
