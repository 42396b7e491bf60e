"""A broker for the client's tests: the real machines of a cluster in memory, behind a real socket, in a thread.

What the machines would never do by themselves a test can ask for: `hold` answers back, `inject` frames, `kick` everybody
out. `received` is what the clients said.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from cluster_in_memory import Client, MemoryCluster
from mantamq.protocol.errors import PeerError
from mantamq.protocol.frames import Frame, Ping, Pong, Refused
from mantamq.protocol.framing import FrameBuffer, encode_frame

T = TypeVar("T")


class FakeBroker:
    """Broker "b1" of a cluster in memory. Use it as a context manager; `address` is its "host:port"."""

    def __init__(self, brokers: int = 1, **options: Any) -> None:
        self.cluster = MemoryCluster(brokers, **options)
        self.received: list[Frame] = []
        self.address = ""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake-broker", daemon=True)
        self._ends: list[_End] = []
        self._holding: tuple[type[Frame], ...] = ()

    def __enter__(self) -> FakeBroker:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            self._loop.create_server(lambda: _End(self), "127.0.0.1", 0), self._loop
        ).result(5)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *_: object) -> None:
        self.call(self._server.close)
        self.kick()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def call(self, function: Callable[[], T]) -> T:
        """Run `function` in the broker's thread."""

        async def run() -> T:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(5)

    # ---- what a test may ask for

    def hold(self, *kinds: type[Frame]) -> None:
        """Keep answers of these kinds back until `let_go`."""
        self._holding = kinds

    def let_go(self) -> None:
        self._holding = ()
        self.call(self.pump)

    def inject(self, *frames: Frame) -> None:
        """Say something to every client."""
        self.call(lambda: [end.transport.write(encode_frame(frame)) for end in self._ends for frame in frames])

    def raw(self, data: bytes) -> None:
        self.call(lambda: [end.transport.write(data) for end in self._ends])

    def kick(self) -> None:
        """Break every connection."""
        self.call(lambda: [end.transport.abort() for end in self._ends])

    def pass_time(self, ms: int) -> None:
        self.call(lambda: (self.cluster.pass_time(ms), self.pump()))

    def said(self, kind: type[Any]) -> list[Any]:
        """All frames of a kind that clients have sent."""
        return self.call(lambda: [frame for frame in self.received if isinstance(frame, kind)])

    # ---- in the broker's thread

    def pump(self) -> None:
        """Carry what the machines have said to the sockets."""
        for end in list(self._ends):
            end.pump(self._holding)


class _End(asyncio.Protocol):
    """The broker's end of one connection."""

    def __init__(self, broker: FakeBroker) -> None:
        self.broker = broker
        self.buffer = FrameBuffer()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.client: Client = self.broker.cluster.client("b1", opened=False)
        self.broker._ends.append(self)

    def data_received(self, data: bytes) -> None:
        broker = self.broker
        try:
            frames = self.buffer.feed(data)
        except PeerError as error:
            self.transport.write(encode_frame(Refused(error.code, error.text)))
            self.transport.close()
            return
        for frame in frames:
            broker.received.append(frame)
            if isinstance(frame, Ping):
                self.transport.write(encode_frame(Pong()))
            elif not isinstance(frame, Pong):
                broker.cluster.post(self.client.name, self.client.broker, frame)
        broker.cluster.settle()
        broker.pump()

    def connection_lost(self, exc: Exception | None) -> None:
        self.broker._ends.remove(self)
        self.client.vanish()
        self.broker.pump()

    def pump(self, holding: tuple[type[Frame], ...]) -> None:
        got, kept, out = self.client.got, [], []
        while got:
            frame = got.popleft()
            if isinstance(frame, holding):
                kept.append(frame)
            else:
                out.append(encode_frame(frame))
        got.extend(kept)
        if out:
            self.transport.write(b"".join(out))
        if self.client.closed:
            self.transport.write(encode_frame(Refused(*self.client.closed)))
            self.transport.close()
