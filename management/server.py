"""The HTTP server: uvicorn in the loop of its process, with bounds on what a caller may hold on to.

uvicorn closes connections that are idle between two requests, and no other: one that sends a byte of a request now and
then would be kept for ever. So a request's head has to come within some seconds, and its body.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Generator, MutableMapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..protocol.errors import LocalError

HEAD_S = 10.0
BODY_S = 30.0
CONNECTIONS = 256
HEAD_BYTES = 64 * 1024
STOP_S = 1.0

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Patience(NamedTuple):
    """How long callers are waited for, in seconds, and how many there may be.

    Attributes:
        head_s: for a request's head, from the connection's begin or the answer before.
        body_s: for all of its body.
        connections: more than that are closed as they come.
    """

    head_s: float = HEAD_S
    body_s: float = BODY_S
    connections: int = CONNECTIONS


class PageServer:
    """Serves an application.

    Args:
        app: an ASGI application.
        host, port: where to listen; port 0 for any. One that is taken is replaced by any free one.
        patience: with callers.
        elsewhere: another port is no trouble.

    Attributes:
        address: "host:port" where it listens, "" before `start`.
        trouble: why it listens elsewhere than it was told, "" if it does not.
    """

    def __init__(
        self, app: Application, host: str, port: int, patience: Patience | None = None, elsewhere: bool = False
    ) -> None:
        self._app = app
        self._host = host
        self._port = port
        self._patience = patience or Patience()
        self._elsewhere = elsewhere
        self._server: uvicorn.Server | None = None
        self._task: asyncio.Task[None] | None = None
        self.address = ""
        self.trouble = ""

    async def start(self) -> str:
        """Listen; returns the address.

        Raises:
            LocalError: not even a free port can be had at this host.
        """
        listening = self._listen()
        host, port = listening.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        config = uvicorn.Config(
            _Bounded(self._app, self._patience.body_s), http=_protocol(self._patience), ws="none", lifespan="off",
            log_config=None, access_log=False, server_header=False, timeout_graceful_shutdown=round(STOP_S),
            h11_max_incomplete_event_size=HEAD_BYTES, proxy_headers=False,
        )  # fmt: skip
        self._server = _Server(config)
        self._task = asyncio.get_running_loop().create_task(self._server.serve([listening]), name="page server")
        while not self._server.started:
            if self._task.done():
                await self._task
                raise LocalError(f"the page at {self.address} was not started")
            await asyncio.sleep(0.005)
        return self.address

    def _listen(self) -> socket.socket:
        try:
            return _bound(self._host, self._port)
        except OSError as error:
            taken = f"{self._host}:{self._port} cannot be listened at ({error.strerror or error})"
        if self._port:
            try:
                found = _bound(self._host, 0)
            except OSError as error:
                raise LocalError(f"the page cannot listen at {self._host}: {error}; name another host") from None
            if not self._elsewhere:
                self.trouble = f"the page is not where it was to be: {taken}; name another port"
            return found
        raise LocalError(f"the page has no place: {taken}; name another host")

    async def stop(self) -> None:
        """Close the listener; what is being answered has a second."""
        if self._server is not None and self._task is not None:
            self._server.should_exit = True
            await asyncio.wait([self._task], timeout=STOP_S + 1)
            self._task.cancel()


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Generator[None]:
        """Its process has its own way to end."""
        yield


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind((host, port))
        found.listen(128)
        found.setblocking(False)
    except OSError:
        found.close()
        raise
    return found


def _protocol(patience: Patience) -> type[H11Protocol]:
    class Patient(H11Protocol):
        """A connection whose requests have to be begun in time."""

        _late: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            if len(self.connections) > patience.connections:
                transport.abort()
                return
            self._await_head()

        def handle_events(self) -> None:
            super().handle_events()
            if self._late is not None and self.cycle is not None and not self.cycle.response_complete:
                self._late.cancel()
                self._late = None

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if self._late is None and not self.transport.is_closing():
                self._await_head()

        def connection_lost(self, exc: Exception | None) -> None:
            if self._late is not None:
                self._late.cancel()
            super().connection_lost(exc)

        def _await_head(self) -> None:
            self._late = self.loop.call_later(patience.head_s, self.transport.abort)

    return Patient


class _Bounded:
    """An application whose requests have to be whole in time: one whose body is late is told so, and closed."""

    def __init__(self, app: Application, body_s: float) -> None:
        self._app = app
        self._body_s = body_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        loop = asyncio.get_running_loop()
        until_s, whole, begun = loop.time() + self._body_s, False, False

        async def in_time() -> Any:
            nonlocal whole
            if whole:  # what comes now is that the caller has gone
                return await receive()
            message = await asyncio.wait_for(receive(), until_s - loop.time())
            whole = message["type"] != "http.request" or not message.get("more_body", False)
            return message

        async def noted(message: Any) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, in_time, noted)
        except TimeoutError:
            if whole or begun:
                raise
            text = f"the request's body has not come within {self._body_s:g} s\n".encode()
            head = [(b"content-type", b"text/plain"), (b"content-length", str(len(text)).encode())]
            head.append((b"connection", b"close"))
            await send({"type": "http.response.start", "status": 408, "headers": head})
            await send({"type": "http.response.body", "body": text})
