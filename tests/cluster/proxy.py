"""A TCP proxy in front of a broker's client listener, which a test can cut and freeze.

It tells clients that the members are those with a proxy, at the proxies' addresses: they cannot go around it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
from mantamq.protocol.wire.client_frames import MembersChanged, Opened
from mantamq.protocol.wire.framing import FrameBuffer, encode_frame

READ_BYTES = 1 << 16


class Proxies:
    """One proxy per broker. Use it as a context manager.

    Args:
        targets: broker id to "host:port".

    Attributes:
        addresses: broker id to the "host:port" of its proxy.
    """

    def __init__(self, targets: dict[str, str]) -> None:
        self.targets = targets
        self.addresses: dict[str, str] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxies", daemon=True)
        self._cut: set[str] = set()
        self._open: dict[str, asyncio.Event] = {}  # cleared while frozen
        self._writers: dict[str, set[asyncio.StreamWriter]] = {broker: set() for broker in targets}
        self._servers: list[asyncio.Server] = []

    def __enter__(self) -> Proxies:
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def cut(self, broker: str) -> None:
        """Break every connection to the broker, and all that come."""
        self._call(lambda: (self._cut.add(broker), self._abort(broker)))

    def freeze(self, broker: str) -> None:
        """Carry nothing to or from the broker, and break nothing."""
        self._call(self._open[broker].clear)

    def mend(self) -> None:
        """Nothing is cut or frozen any more; what was held back is carried now."""
        self._call(lambda: (self._cut.clear(), [event.set() for event in self._open.values()]))

    # ---- in the proxies' thread

    def _run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(10)

    def _call(self, function: Callable[[], Any]) -> None:
        async def run() -> None:
            function()

        self._run(run())

    async def _start(self) -> None:
        for broker in self.targets:
            self._open[broker] = asyncio.Event()
            self._open[broker].set()

            def serve(
                reader: asyncio.StreamReader, writer: asyncio.StreamWriter, broker: str = broker
            ) -> Coroutine[Any, Any, None]:
                return self._serve(broker, reader, writer)

            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            self._servers.append(server)
            self.addresses[broker] = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _stop(self) -> None:
        for server in self._servers:
            server.close()
        for broker in self.targets:
            self._open[broker].set()
            self._abort(broker)
        await asyncio.sleep(0)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _abort(self, broker: str) -> None:
        for writer in self._writers[broker]:
            writer.transport.abort()

    async def _serve(self, broker: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if broker in self._cut:
            writer.transport.abort()
            return
        host, port = self.targets[broker].split(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        both = {writer, far_writer}
        self._writers[broker] |= both
        buffer = FrameBuffer()

        def renamed(data: bytes) -> bytes:
            return b"".join(
                encode_frame(
                    msgspec.structs.replace(frame, members=dict(self.addresses))
                    if isinstance(frame, Opened | MembersChanged)
                    else frame
                )
                for frame in buffer.feed(data)
            )

        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._carry(broker, reader, far_writer, bytes))
                group.create_task(self._carry(broker, far_reader, writer, renamed))
        except* OSError:
            pass
        finally:
            self._writers[broker] -= both
            for end in both:
                end.transport.abort()

    async def _carry(
        self, broker: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, change: Callable[[bytes], bytes]
    ) -> None:
        while True:
            data = await reader.read(READ_BYTES)
            await self._open[broker].wait()
            if not data:
                raise ConnectionResetError
            writer.write(change(data))
            await writer.drain()
