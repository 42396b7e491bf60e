"""The API as routes of a starlette application: a request is let in, read, done, and answered."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Sequence
from itertools import chain

from starlette.datastructures import URLPath
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, NoMatchFound, Route
from starlette.types import Receive, Scope, Send

from ..deeds import Asker, Deeds
from ..view import ManagementView
from ..watcher import Watcher
from . import bindings, clients, definitions, exchanges, health, manta, overview, policies, queues
from .access import READING, Access
from .bodies import read_body
from .login import Login
from .openapi import described
from .problems import OURS, HttpProblem, problem_of
from .table import Answer, Call, Operation, Operations, Table

PREFIX = "/api"
FRESH_S = 2.0
"""So long an answer waits at most for a look at what was changed before."""
HEADERS = {
    "cache-control": "no-store", "x-content-type-options": "nosniff", "content-security-policy": "default-src 'none'",
    "cross-origin-resource-policy": "same-origin", "vary": "authorization, cookie, origin",
}  # fmt: skip
_log = logging.getLogger(__name__)
operations = Operations()


@operations.get("/openapi.json", "This description.")
async def openapi(call: Call) -> Answer:
    return Answer(described(TABLE.operations))


_ROOMS = (overview, queues, exchanges, bindings, policies, definitions, clients, health, manta)
TABLE = Table(chain(operations.all, *(room.operations.all for room in _ROOMS)))


def api_routes(view: ManagementView, watcher: Watcher, deeds: Deeds, access: Access) -> Sequence[BaseRoute]:
    """The routes of the API, of /login and of /logout.

    Args:
        view: is answered from. watcher: hears that somebody looks, and looks again after a deed.
        deeds: by which the cluster is changed. access: who may.
    """
    login = Login(access)
    return [
        ApiRoute(view, watcher, deeds, access),
        Route("/login", login.log_in, methods=["POST"]),
        Route("/logout", login.log_out, methods=["POST"]),
    ]


class ApiRoute(BaseRoute):
    """All that is below /api. It goes by the path as it came: a name in it may have a slash, as %2F.

    Args:
        view, watcher, deeds, access: as of `api_routes`.
    """

    def __init__(self, view: ManagementView, watcher: Watcher, deeds: Deeds, access: Access) -> None:
        self._view = view
        self._watcher = watcher
        self._deeds = deeds
        self._access = access
        self._stale = False
        self._looking = asyncio.Lock()

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Whether it is below /api."""
        ours = scope["type"] == "http" and (scope["path"] + "/").startswith(f"{PREFIX}/")
        return (Match.FULL, {}) if ours else (Match.NONE, {})

    def url_path_for(self, name: str, /, **path_params: object) -> URLPath:
        """Nobody asks for an address by a name."""
        raise NoMatchFound(name, path_params)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request = Request(scope, receive)
        try:
            answer = await self._answer(request)
        except ClientDisconnect:
            return  # nobody hears it
        except HttpProblem as problem:
            answer = Answer(problem.told, problem.status, problem.headers)
        except Exception:
            _log.exception("%(method)s %(path)s failed", {"method": request.method, "path": scope["path"]})
            problem = HttpProblem(500, "this program has failed; its log says how")
            answer = Answer(problem.told, problem.status)
        await _response(answer)(scope, receive, send)

    async def _answer(self, request: Request) -> Answer:
        who = self._access.asker(request, request.method)
        raw_path: bytes = request.scope.get("raw_path") or request.url.path.encode()
        operation, path = TABLE.find(request.method, raw_path.removeprefix(PREFIX.encode()))
        body = await read_body(request, operation.most_bytes)
        await self._watcher.fresh()
        try:
            return await self._done(operation, who, path, dict(request.query_params), body)
        except OURS as error:
            raise problem_of(error) from None

    async def _done(
        self, operation: Operation, who: Asker, path: dict[str, str], query: dict[str, str], body: bytes
    ) -> Answer:
        call = Call(self._view, self._deeds, who, path, query, body)
        if operation.method in READING:
            await self._look_again()
            return await operation.handler(call)
        try:
            return await operation.handler(call)
        finally:
            self._stale = True

    async def _look_again(self) -> None:
        """After a deed, that whoever asks sees what he has done."""
        try:
            async with asyncio.timeout(FRESH_S), self._looking:
                if self._stale:
                    self._stale = False
                    await self._watcher.look()
        except TimeoutError:
            pass  # it is seen a little later


def _response(answer: Answer) -> Response:
    headers = HEADERS | dict(answer.headers)
    if answer.body is None:
        return Response(status_code=answer.status, headers=headers)
    # ASCII alone: nothing in a name can be something else to whoever reads it.
    text = json.dumps(answer.body, separators=(",", ":"), default=str)
    return Response(text, answer.status, headers, "application/json")
