"""The application: everything that is served of a cluster, over one view of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from .deeds import Deeds
from .event_feed import EventFeed
from .http.access import Access
from .http.api import api_routes
from .http.login import refusal
from .http.problems import HttpProblem
from .metrics.exposition import metrics_routes
from .pages.routes import page_routes
from .view import ManagementView
from .watcher import Watcher


def application(
    view: ManagementView, watcher: Watcher, deeds: Deeds, access: Access, feed: EventFeed | None = None
) -> Starlette:
    """What a browser, a script or Prometheus asks.

    Args:
        view: of the cluster. watcher: feeds it, and is told that somebody looks.
        deeds: by which the cluster is changed. access: who may ask, and who may change something.
        feed: of the event table; None: nobody can be asked for it.
    """

    async def healthy(request: Request) -> JSONResponse:
        """For what balances load or starts processes: it needs no token, and says no more than yes or no, by the last
        look. It makes no other: whoever has no token gives a cluster no work."""
        status = view.status
        well = status is not None and status.healthy and not view.troubles
        return JSONResponse({"healthy": well}, 200 if well else 503)

    scraped = [Route(route.path, _let_in(access, route.endpoint)) for route in metrics_routes(view, watcher)]
    routes = [Route("/health", healthy), *scraped, *api_routes(view, watcher, deeds, access)]
    return Starlette(routes=[*routes, *page_routes(view, watcher, deeds, access, feed)])


def _let_in(access: Access, handler: Callable[[Request], Awaitable[Response]]) -> Callable[..., Awaitable[Response]]:
    async def let_in(request: Request) -> Response:
        try:
            access.asker(request, request.method)
        except HttpProblem as problem:
            return refusal(problem)
        return await handler(request)

    return let_in
