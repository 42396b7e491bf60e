"""The application: everything that is served of a cluster, over one view of it."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from .view import ManagementView
from .watcher import Watcher


def application(view: ManagementView, watcher: Watcher) -> Starlette:
    """What a browser, a script or Prometheus asks.

    Args:
        view: of the cluster. watcher: feeds it, and is told that somebody looks.
    """

    async def healthy(request: Request) -> JSONResponse:
        watcher.watched()
        status = view.status
        reasons = [*view.troubles.values(), *(status.unhealthy if status is not None else ["not looked at yet"])]
        return JSONResponse({"healthy": not reasons, "reasons": reasons}, 503 if reasons else 200)

    return Starlette(routes=[Route("/health", healthy)])
