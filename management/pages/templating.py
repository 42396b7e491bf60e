"""The templates: always escaped, with what all pages have; a refresh gets the part of a page that changes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from ...client.features import features
from . import figures

FOLDER = Path(__file__).parent
PAGES = (
    ("Cluster", (
        ("/", "Overview"), ("/brokers", "Brokers"), ("/connections", "Connections"), ("/links", "Links"),
        ("/exchanges", "Exchanges"), ("/queues", "Queues"), ("/admin", "Admin"),
    )),
    ("Replication and flow", (
        ("/locks", "Locks"), ("/replication", "Replication"), ("/flow", "Flow control"), ("/groups", "Groups"),
        ("/events", "Events"),
    )),
)  # fmt: skip
"""What the menu has: heading -> paths and names."""
OF_POLICIES = (
    "x-max-length", "x-max-length-bytes", "x-overflow", "x-message-ttl", "x-expires", "x-delivery-limit",
    "x-dead-letter-routing-key",
)  # fmt: skip
OF_QUEUES = (*OF_POLICIES, "x-single-active-consumer", "qpid.priorities", "qpid.group_header_key", "manta.auto_delete")
OF_EXCHANGES = ("qpid.msg_sequence", "qpid.ive", "manta.auto_delete", "manta.internal")
"""Arguments that the forms offer; there are more (`Connection.declare_queue`)."""
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every page: scripts and styles are ours alone, nobody frames a page, and none is kept."""


@cache
def environment() -> Environment:
    """That of all pages."""
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    made.filters |= {
        "count": figures.count, "rate": figures.rate, "size": figures.size, "span": figures.span,
        "clock": figures.clock, "points": points, "plain": plain, "body": body,
    }  # fmt: skip
    arguments = {"queue_arguments": OF_QUEUES, "exchange_arguments": OF_EXCHANGES, "policy_arguments": OF_POLICIES}
    made.globals.update({"menu": PAGES, "query": query, "called": called, "features": features} | arguments)  # pyright: ignore[reportCallIssue, reportArgumentType]
    return made


def page(request: Request, template: str, code: int = 200, **context: Any) -> HTMLResponse:
    """An answer. To htmx, which asks for a refresh, only what is in the page's middle."""
    root = request.scope.get("root_path", "")
    here = request.url.path.removeprefix(root) or "/"
    asked = f"?{request.url.query}" if request.url.query else ""
    partial = is_refresh(request)
    known = {
        "root": root, "here": here, "again": f"{root}{here}{asked}", "partial": partial,
        "layout": "part.html" if partial else "layout.html",
    }  # fmt: skip
    text = environment().get_template(template).render(known | context)
    return HTMLResponse(text, code, HEADERS)


def is_refresh(request: Request) -> bool:
    """Whether a page that is open asks, for what changes in it."""
    return request.headers.get("hx-request") == "true"


def query(**fields: Any) -> str:
    """What stands behind a path: "?name=a%2Fb". Names are said so and never in a path, in which ".." and "/" mean
    something; what is empty is left out."""
    return f"?{urlencode({name: value for name, value in fields.items() if value not in ('', None)})}"


def called(name: str) -> str:
    """A name that can be seen: one of blanks alone is quoted."""
    return name if name.strip() else f"'{name}'"


def points(chart: Mapping[str, Iterable[float]], *series: str) -> str:
    """A chart's columns for a script, the times first."""
    return json.dumps([[round(value, 2) for value in chart[name]] for name in ("time_s", *series)])


def body(value: bytes) -> str:
    """The body of a message: as text, if it is one."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError as error:
        # What was cut in the middle of a character is a text all the same.
        return value[: error.start].decode("utf-8") if error.reason == "unexpected end of data" else value.hex(" ")


def plain(value: Any) -> str:
    """A value of a definition, as people write it."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: figures.UNKNOWN}[value]
    if isinstance(value, int):
        return figures.count(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
