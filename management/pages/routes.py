"""`page_routes`: what is served under which path; what a page shows, and in which order."""

from __future__ import annotations

import asyncio
from functools import partial, wraps
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from ...client.errors import MantaError
from ...protocol.capture.newest_rows import OF_A_KIND
from ...protocol.errors import LocalError
from ..deeds import Deeds
from ..event_feed import MOST, EventFeed
from ..history import MINUTES, SPANS_S
from ..http.access import Access
from ..http.problems import HttpProblem
from ..listing import listing
from ..view import ManagementView, Row
from .acting import Handler, form_handlers
from .asked_for import fields_of, wanted_of
from .events_shown import CHOICES, kinds_of, shown
from .joined import (
    broker_rows,
    connection_row,
    connection_rows,
    health_of,
    link_rows,
    locks_by_broker,
    replicas_by_queue,
    settings_of,
    store_rows,
)
from .templating import FOLDER, is_refresh, page

QUEUE_SORTS = (
    "name", "kind", "available", "acquired", "messages", "bytes", "age_ms", "rates.enqueued", "rates.acquires",
    "rates.accepted", "consumers", "owner",
)  # fmt: skip
EXCHANGE_SORTS = (
    "name", "type", "bindings", "received", "unroutable", "rates.received", "rates.routed", "rates.unroutable",
)  # fmt: skip
CONNECTION_SORTS = (
    "client", "address", "broker", "state", "age_ms", "senders", "receivers", "credit", "sent", "rates.sent",
)  # fmt: skip
LINK_SORTS = ("client", "broker", "role", "of", "rate", "count", "credit")
LINKS_OF_A_BROKER = 1000
GROUP_SORTS = ("group", "queue", "held", "owner")
LOCK_SORTS = ("name", "owner", "grant", "handovers", "consumers")
REPLICA_SORTS = ("name", "wrong")
PATIENCE_S = 3.0
"""So long a page waits for what has to be asked of a broker."""


class Watched(Protocol):
    """Who is told that somebody looks: a `Watcher`."""

    async def fresh(self) -> None: ...


def page_routes(
    view: ManagementView, watcher: Watched, deeds: Deeds | None, access: Access, feed: EventFeed | None = None
) -> list[BaseRoute]:
    """The routes of all pages, for an app or a `Mount`. Logging in itself is not theirs (see `Login`).

    Args:
        view: what is shown.
        watcher: is told at each request that somebody looks, and looks first where that was long ago.
        deeds: does what forms order, and is asked for bindings, policies and definitions; None: the pages have no
            forms, and say that those are not known.
        access: who may look, and who may change something. Who has not logged in gets a page for that.
        feed: of the event table; None: nobody can be asked for it.
    """
    shows = Shows(view, deeds, access, feed or EventFeed())
    handlers: dict[str, Handler] = {
        "/": shows.overview, "/brokers": shows.brokers, "/connections": shows.connections,
        "/connection": shows.connection, "/links": shows.links,
        "/exchanges": shows.exchanges, "/exchange": shows.exchange, "/queues": shows.queues, "/queue": shows.queue,
        "/admin": shows.admin, "/admin/definitions.json": shows.definitions, "/locks": shows.locks,
        "/replication": shows.replication, "/flow": shows.flow, "/groups": shows.groups,
        "/events": shows.events,
    }  # fmt: skip
    let_in = partial(_let_in, watcher, access)
    routes: list[BaseRoute] = [Route(path, let_in(handler)) for path, handler in handlers.items()]
    if deeds is not None:
        for path, handler in form_handlers(view, deeds, shows.page).items():
            routes.append(Route(path, let_in(handler), methods=["POST"]))
    return [*routes, Mount("/static", StaticFiles(directory=FOLDER / "static"))]


def _let_in(watcher: Watched, access: Access, handler: Handler) -> Handler:
    """Only who may gets there; the handler finds who it is in `state.asker` of the request."""

    @wraps(handler)
    async def let_in(request: Request) -> Response:
        try:
            request.state.asker = access.asker(request, request.method)
        except HttpProblem as problem:
            # A browser would ask by a window of its own, if it were told what may be presented.
            return page(request, "login.html", problem.status, why=problem.reason, may_log_in=problem.status == 401)
        await watcher.fresh()
        return await handler(request)

    return let_in


class Shows:
    """The pages that only show.

    Args:
        view, deeds, access, feed: as of `page_routes`.
    """

    def __init__(self, view: ManagementView, deeds: Deeds | None, access: Access, feed: EventFeed) -> None:
        self._feed = feed
        self._view = view
        self._deeds = deeds
        self._access = access

    def page(self, request: Request, template: str, code: int = 200, **context: Any) -> Response:
        """A page, with what all of them have above."""
        status = self._view.status
        cluster = status.cluster if status is not None else ""
        common: dict[str, Any] = {"health": health_of(self._view), "cluster": cluster, "time_s": self._view.time_s}
        common["dashboard"] = self._view.dashboard
        common |= {
            "counts": self._view.counts(),
            "may_act": self._deeds is not None,
            "may_leave": not self._access.open,
        }
        return page(request, template, code, **common, **context)

    def missing(self, request: Request, what: str, name: str) -> Response:
        return self.page(request, "missing.html", 404, what=what, name=name)

    def _listed(
        self, request: Request, template: str, sorts: tuple[str, ...], sort: str = "", descending: bool = False,
        rows: list[Row] | None = None, name: str = "name", part: str = "", **context: Any,
    ) -> Response:  # fmt: skip
        """A page with a table of a part of the view, or of other rows."""
        wanted = wanted_of(request.query_params, sorts, sort, descending)
        found = self._view.page(part, wanted) if rows is None else listing(rows, wanted, name)
        return self.page(request, template, found=found, wanted=wanted, fields=fields_of(wanted), **context)

    def _chart(self, request: Request, queue: str = "") -> Row:
        """What a chart shows, and of how long."""
        span = request.query_params.get("span", "")
        span = span if span in SPANS_S else MINUTES
        return {"chart": self._view.chart(queue, span), "span": span, "spans": SPANS_S}

    async def _asked(self, request: Request, what: str) -> tuple[list[Row], str]:
        """Bindings or policies, and why they are not known, "" where they are. A refresh does not show them."""
        if is_refresh(request):
            return [], ""
        if self._deeds is None:
            return [], f"{what} are not known here"
        asks = {"bindings": self._deeds.bindings, "policies": self._deeds.policies}
        try:
            return await asyncio.wait_for(asks[what](), PATIENCE_S), ""
        except TimeoutError:
            return [], f"no broker has told the {what} within {PATIENCE_S:g} s"
        except (MantaError, LocalError, OSError) as error:
            return [], str(error)

    # ---- as RabbitMQ has them

    async def overview(self, request: Request) -> Response:
        view = self._view
        shown: dict[str, Any] = {"totals": view.totals(), "rates": view.rates(), **self._chart(request)}
        shown |= {"churn": view.churn(), "churned": view.churned()}
        return self.page(request, "overview.html", **shown, brokers=broker_rows(view))

    async def brokers(self, request: Request) -> Response:
        view = self._view
        lists: dict[str, Any] = {"brokers": broker_rows(view), "stores": store_rows(view), "members": view.members()}
        return self.page(request, "brokers.html", **lists)

    async def connections(self, request: Request) -> Response:
        rows = connection_rows(self._view)
        return self._listed(request, "connections.html", CONNECTION_SORTS, "rates.sent", True, rows, "text")

    async def connection(self, request: Request) -> Response:
        view = self._view
        of = {name: request.query_params.get(name, "") for name in ("broker", "client")}
        row = view.connection(**of)
        if row is None:
            return self.missing(request, "connection", of["client"])
        senders, receivers = (view.links(role=role, **of) for role in ("sender", "receiver"))
        shown = connection_row(row, view.time_s)
        return self.page(request, "connection.html", connection=shown, senders=senders, receivers=receivers)

    async def links(self, request: Request) -> Response:
        rows = link_rows(self._view)
        return self._listed(request, "links.html", LINK_SORTS, "rate", True, rows, "text", most=LINKS_OF_A_BROKER)

    async def exchanges(self, request: Request) -> Response:
        return self._listed(request, "exchanges.html", EXCHANGE_SORTS, "name", part="exchanges")

    async def exchange(self, request: Request) -> Response:
        name = request.query_params.get("name", "")
        row = self._view.exchange(name)
        if row is None:
            return self.missing(request, "exchange", name)
        bindings, why = await self._asked(request, "bindings")
        mine = [one for one in bindings if name in (one["exchange"], one.get("to_exchange"))]
        senders = self._view.links(role="sender", exchange=name)
        return self.page(request, "exchange.html", exchange=row, bindings=mine, bindings_why=why, senders=senders)

    async def queues(self, request: Request) -> Response:
        return self._listed(request, "queues.html", QUEUE_SORTS, "name", part="queues")

    async def queue(self, request: Request) -> Response:
        view, name = self._view, request.query_params.get("name", "")
        row = view.queue(name)
        if row is None:
            return self.missing(request, "queue", name)
        bindings, why = await self._asked(request, "bindings")
        return self.page(
            request, "queue.html", queue=row, settings=settings_of(row), **self._chart(request, name),
            moves=view.lock_moves(name), replicas=view.replicas(row["id"]), bindings_why=why,
            bindings=[one for one in bindings if one.get("queue") == name],
            receivers=view.links(role="receiver", queue=name),
            senders=view.links(role="sender", exchange="", key=name),
        )  # fmt: skip

    async def admin(self, request: Request) -> Response:
        policies, why = await self._asked(request, "policies")
        return self.page(request, "admin.html", policies=policies, policies_why=why)

    async def definitions(self, request: Request) -> Response:
        """All that is declared, as a file."""
        headers = {"content-disposition": 'attachment; filename="definitions.json"', "cache-control": "no-store"}
        why = "definitions are not known here"
        if self._deeds is not None:
            try:
                document = await asyncio.wait_for(self._deeds.definitions(), PATIENCE_S)
                return JSONResponse(document, headers=headers)
            except TimeoutError:
                why = f"no broker has told the definitions within {PATIENCE_S:g} s"
            except (MantaError, LocalError, OSError) as error:
                why = str(error)
        return self.page(request, "refused.html", 503, title="Definitions", why=why)

    # ---- what only such a cluster has

    async def locks(self, request: Request) -> Response:
        rows, moves = self._view.locks(), self._view.lock_moves()
        return self._listed(
            request, "locks.html", LOCK_SORTS, "handovers", True, rows, moves=moves, owned=locks_by_broker(rows)
        )

    async def replication(self, request: Request) -> Response:
        rows, brokers, states = replicas_by_queue(self._view)
        leader = self._view.leader()
        return self._listed(
            request, "replication.html", REPLICA_SORTS, "wrong", True, rows, brokers=brokers, states=states,
            leader=leader,
        )  # fmt: skip

    async def flow(self, request: Request) -> Response:
        return self.page(request, "flow.html", flow=self._view.flow())

    async def groups(self, request: Request) -> Response:
        return self._listed(request, "groups.html", GROUP_SORTS, "held", True, part="groups")

    async def events(self, request: Request) -> Response:
        kind, search = request.query_params.get("kind", ""), request.query_params.get("search", "")
        seen = await self._feed.newest(kinds_of(kind), search)
        return self.page(
            request, "events.html", seen=seen, rows=shown(seen.rows, self._view), table=self._view.event_table(),
            kind=kind, search=search, choices=CHOICES, most=MOST, of_a_kind=OF_A_KIND,
        )  # fmt: skip
