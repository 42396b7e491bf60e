"""The HTTP API over a made-up cluster: its deeds are only written down."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import unquote

from mantamq.client.moves import Moved
from mantamq.management.deeds import Asker
from mantamq.management.http.access import Access
from mantamq.management.http.api import api_routes
from mantamq.management.imports import Imported
from mantamq.management.messages import message_of, seen
from mantamq.management.view import ManagementView, Sample
from starlette.applications import Starlette
from starlette.testclient import TestClient

from ... import made_up_status as made

TOKEN = "a long secret"
MESSAGE = seen(message_of("k", {"headers": {"raw": b"\xff"}, "priority": 1}, b"\xff"))
LOOKED: dict[str, Any] = {
    "bindings": [
        {"exchange": "x", "queue": "orders", "key": "k", "arguments": {}},
        {"exchange": "x", "queue": "", "to_exchange": "y", "key": "", "arguments": {"raw": b"\xff"}},
    ],
    "policies": [
        {"name": "p", "pattern": "^q", "priority": 0, "operator": False, "alternate": "x", "arguments": {"qpid.max_count": 3}},
        {"name": "p", "pattern": "^q", "priority": 0, "operator": True, "alternate": "", "arguments": {"qpid.max_count": 3}},
    ],
    "definitions": {
        "manta": 2, "exchanges": [{"name": "x", "type": "topic", "durable": True, "alternate": "", "arguments": {}}],
        "queues": [{"name": "orders", "durable": True, "alternate": "", "arguments": {}}],
        "bindings": [{"exchange": "x", "queue": "orders", "key": "k", "arguments": {}}],
        "patterns": [{"name": "any"}], "redirects": [{"source": "a", "target": "b"}],
    },
    "browse": [MESSAGE],
}  # fmt: skip
"""What only looks, and what it comes to."""
DONE: dict[str, Any] = {
    "declare_queue": True, "delete_queue": 0, "purge": 3, "move": Moved(1, 2), "redrive": Moved(0, 0), "publish": True,
    "get": [MESSAGE], "declare_exchange": False, "delete_exchange": None, "bind": True, "unbind": None,
    "close_connection": None, "add_policy": True, "delete_policy": None, "import_definitions": Imported([], {"users": 1}),
}  # fmt: skip


class FakeDeeds:
    """Writes down what it is asked for. Attributes: done, (deed, who, what it was given); failure, what it raises, if
    anything."""

    def __init__(self) -> None:
        self.done: list[tuple[str, Asker, tuple[Any, ...]]] = []
        self.failure: Exception | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        async def looked(*_: Any) -> Any:
            if self.failure is not None:
                raise self.failure
            return LOOKED[name]

        async def done(who: Asker, *given: Any, **more: Any) -> Any:
            self.done.append((name, who, (*given, *more.items())))
            if self.failure is not None:
                raise self.failure
            return DONE[name]

        if name in LOOKED:
            return looked
        if name in DONE:
            return done
        raise AttributeError(name)


class FakeWatcher:
    """Attributes: looks, how often it was asked to look; seen, how often somebody did."""

    def __init__(self) -> None:
        self.looks = self.seen = 0

    async def fresh(self) -> None:
        self.seen += 1

    async def look(self) -> None:
        self.looks += 1


def a_queue(name: str, **values: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": f"{name}#1", "name": name, "durable": True, "alternate": "", "arguments": {}, "kind": "plain",
        "definition": {}, "messages": 0, "available": 0, "acquired": 0, "bytes": 0, "consumers": 0, "owner": "b1",
        "enqueued": 0, "acquires": 0, "accepted": 0, "dequeued": 0, "handovers": 0, "grant": 1, "consumers_at": {},
    }  # fmt: skip
    return row | values


def a_receiver(handle: int, queue: str, **values: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"broker": "b1", "client": "c1", "handle": handle, "role": "receiver", "queue": queue}
    row |= {"mode": "consume", "accept": True, "priority": 0, "selector": "", "alone": False, "waits": False}
    return row | {"credit": 50, "delivered": 7} | values


def an_exchange(name: str, **values: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"name": name, "type": "topic", "durable": True, "alternate": "", "arguments": {}}
    return row | {"received": 0, "routed": 0, "unroutable": 0, "bindings": 0} | values


def a_view(**statistics: Any) -> ManagementView:
    view = ManagementView()
    found: dict[str, Any] = {
        "queues": [
            a_queue("orders", id=made.ORDERS, messages=12, available=10, acquired=2, consumers=3, consumers_at={"b1": 2, "b2": 1}),
            a_queue("bills", flowStopped=True), a_queue("lost", error="no majority"),
        ],
        "exchanges": [an_exchange(""), an_exchange("x", alternate="amq.fanout"), an_exchange("y", arguments={"raw": b"\xff"})],
        "brokers": [{"broker": f"b{number}", "address": "", "connections": 1, "received": 0, "unroutable": 0, "opened": 2} for number in (1, 2, 3)],
        "connections": [{"broker": "b1", "client": "c1", "sent": 4, "state": "flow", "why": "a queue is full", "minor": 12, "held_back_by": [], "address": "10.1.0.7:4711", "since_ms": 1_764_000_000_000, "senders": 1, "receivers": 2}],
        "links": [
            {"broker": "b1", "client": "c1", "handle": 1, "role": "sender", "exchange": "x", "key": None, "sent": 4},
            a_receiver(2, "orders"), a_receiver(3, "bills", mode="browse", waits=True),
        ],
        "groups": [{"queue": "orders", "group": "g", "consumer": "c1"}],
    }  # fmt: skip
    for at_s in (1.0, 2.0):
        view.take(Sample(at_s, 1000.0 + at_s, made.report(made.actors()), found | statistics))
        found = found | {"queues": [queue | {"enqueued": queue["enqueued"] + 5} for queue in found["queues"]]}
    return view


class Told(NamedTuple):
    """An answer. Attributes: status; headers, by names in small letters; content."""

    status: int
    headers: dict[str, str]
    content: bytes


async def asked(app: Any, method: str, target: str, content: bytes = b"", address: str = "127.0.0.1") -> Told:
    """Ask an application as a server does, with a target that no client has mended."""
    raw_path, _, query = target.encode().partition(b"?")
    scope = {
        "type": "http", "method": method, "path": unquote(raw_path.decode()), "raw_path": raw_path, "query_string": query,
        "headers": [(b"host", b"localhost:15672")], "client": (address, 4711), "server": ("localhost", 15672),
        "scheme": "http", "root_path": "", "http_version": "1.1",
    }  # fmt: skip
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": content}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    headers = {name.decode(): value.decode("latin-1") for name, value in sent[0]["headers"]}
    return Told(sent[0]["status"], headers, b"".join(one.get("body", b"") for one in sent[1:]))


class MadeUpApi:
    """The API. Attributes: view, deeds, watcher, access; app; http, a client of it."""

    def __init__(
        self, view: ManagementView | None = None, access: Access | None = None, address: str = "127.0.0.1"
    ) -> None:
        self.view = view if view is not None else a_view()
        self.deeds = FakeDeeds()
        self.watcher = FakeWatcher()
        self.access = access or Access()
        self.app = Starlette(routes=api_routes(self.view, self.watcher, self.deeds, self.access))  # type: ignore[arg-type]
        base = "http://localhost:15672"
        self.http = TestClient(
            self.app, base, raise_server_exceptions=True, follow_redirects=False, client=(address, 4711)
        )
