"""A link that can be cut: a small TCP proxy before each broker, for the clients' side.

Cut in two ways: reset (both ends hear of it at once) or silent (nothing passes, nobody hears anything), which ends with
everything that waited being passed on.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Coroutine
from typing import Any

CHUNK_BYTES = 64 * 1024
TIMEOUT_S = 5.0


class Proxies:
    """One proxy per broker, all in a thread of their own.

    Args:
        target: the present "host:port" of a broker, asked for each connection; "" for none.
    """

    def __init__(self, brokers: list[str], target: Callable[[str], str]) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._open: dict[str, asyncio.Event] = {}
        self._writers: dict[str, set[asyncio.StreamWriter]] = {broker: set() for broker in brokers}
        self._servers: list[asyncio.Server] = []
        self.addresses: dict[str, str] = {}
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._thread.start()
        for broker in brokers:
            self.addresses[broker] = self._do(self._listen(broker))

    def silence(self, broker: str, silent: bool) -> None:
        """Let nothing pass, or everything again."""
        gate = self._open[broker]
        self._loop.call_soon_threadsafe(gate.clear if silent else gate.set)

    def reset(self, broker: str) -> int:
        """Break all connections; returns how many."""
        return self._do(self._reset(broker))

    def stop(self) -> None:
        for broker in self._writers:
            self.reset(broker)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT_S)

    def _do(self, what: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(TIMEOUT_S)

    async def _listen(self, broker: str) -> str:
        self._open[broker] = asyncio.Event()
        self._open[broker].set()
        server = await asyncio.start_server(lambda r, w: self._serve(broker, r, w), "127.0.0.1", 0)
        self._servers.append(server)
        host, port = server.sockets[0].getsockname()
        return f"{host}:{port}"

    async def _reset(self, broker: str) -> int:
        writers = list(self._writers[broker])
        for writer in writers:
            writer.transport.abort()
        return len(writers) // 2

    async def _serve(self, broker: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open[broker].wait()
        host, _, port = self._target(broker).rpartition(":")
        try:
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
        except (OSError, ValueError):
            writer.transport.abort()
            return
        pair = {writer, far_writer}
        self._writers[broker] |= pair
        try:
            ways = ((reader, far_writer), (far_reader, writer))
            tasks = [asyncio.create_task(self._pass(broker, *way)) for way in ways]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
        finally:
            self._writers[broker] -= pair
            for one in pair:
                one.close()

    async def _pass(self, broker: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gate = self._open[broker]
        with contextlib.suppress(OSError):
            while data := await reader.read(CHUNK_BYTES):
                await gate.wait()
                writer.write(data)
                await writer.drain()
