"""Brokers for the client's tests: the real machines of a cluster in memory, behind real sockets, in a thread.

What the machines would never do by themselves a test can ask for: `hold` answers back, `inject` frames, `kick` everybody
out, `freeze` a broker, `shut` its door. `received` is what the clients said.
"""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from cluster_in_memory import Client, MemoryCluster
from mantamq.protocol.errors import PeerError
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.framing import FrameBuffer, encode_frame
from mantamq.protocol.wire.link_frames import Ping, Pong, Refused

T = TypeVar("T")


def wait_until(true: Callable[[], T], seconds: float = 10.0) -> T:
    """What `true` returns, as soon as that is true. An AssertionError, if that is not in time."""
    end = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < end, "it does not come true"
        time.sleep(0.002)
    return value


@contextmanager
def passing_time(cluster: FakeBroker, step_ms: int = 10) -> Iterator[None]:
    """Time passes in the cluster, `step_ms` each 5 ms: a replica without consumers is told of what is committed a little later."""
    over = threading.Event()

    def ticks() -> None:
        while not over.wait(0.005):
            cluster.pass_time(step_ms)

    thread = threading.Thread(target=ticks)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class FakeBroker:
    """The brokers of a cluster in memory. Use it as a context manager; `address` is the "host:port" of "b1", `addresses`
    are those of all by id."""

    def __init__(self, brokers: int = 1, **options: Any) -> None:
        self.cluster = MemoryCluster(brokers, **options)
        self.received: list[Frame] = []
        self.address = ""
        self.addresses: dict[str, str] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fake-broker", daemon=True)
        self._ends: list[_End] = []
        self._holding: tuple[type[Frame], ...] = ()
        self._frozen: set[str] = set()
        self._servers: dict[str, asyncio.Server] = {}

    def __enter__(self) -> FakeBroker:
        self._thread.start()
        for broker in self.cluster.members:
            listening = self._loop.create_server(functools.partial(_End, self, broker), "127.0.0.1", 0)
            server = self._servers[broker] = asyncio.run_coroutine_threadsafe(listening, self._loop).result(5)
            self.addresses[broker] = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self.address = self.addresses["b1"]
        self.know(*self.addresses)
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers.values():
            self.call(server.close)
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

    def kick(self, *brokers: str) -> None:
        """Break every connection, or those to `brokers`."""
        self.call(lambda: [end.transport.abort() for end in self._ends if not brokers or end.name in brokers])

    def shut(self, *brokers: str) -> None:
        """Break every connection to `brokers` and take no more."""
        for broker in brokers:
            self.call(self._servers[broker].close)
        self.kick(*brokers)

    def freeze(self, *brokers: str) -> None:
        """`brokers` take connections and bytes, and neither hear nor say anything, until `thaw`."""
        self.call(lambda: self._frozen.update(brokers))

    def thaw(self) -> None:
        """What came meanwhile is heard now."""

        def thaw() -> None:
            self._frozen.clear()
            for end in list(self._ends):
                end.thaw()

        self.call(thaw)

    def know(self, *brokers: str) -> None:
        """The members of the cluster are `brokers`."""
        members = {broker: self.addresses[broker] for broker in brokers}
        self.call(lambda: (self.cluster.know(members), self.pump()))

    def clients(self, *brokers: str) -> int:
        """How many connections `brokers` have."""
        return self.call(lambda: sum(end.name in brokers for end in self._ends))

    def pass_time(self, ms: int) -> None:
        self.call(lambda: (self.cluster.pass_time(ms), self.pump()))

    def said(self, kind: type[Any]) -> list[Any]:
        """All frames of a kind that clients have sent."""
        return self.call(lambda: [frame for frame in self.received if isinstance(frame, kind)])

    # ---- in the broker's thread

    def pump(self) -> None:
        """Carry what the machines have said to the sockets."""
        for end in list(self._ends):
            if end.name not in self._frozen:
                end.pump(self._holding)


class _End(asyncio.Protocol):
    """The broker's end of one connection."""

    def __init__(self, broker: FakeBroker, name: str) -> None:
        self.broker = broker
        self.name = name
        self.buffer = FrameBuffer()
        self._late: list[bytes | None] = []  # what came while frozen; None: the end

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.client: Client = self.broker.cluster.client(self.name, opened=False)
        self.broker._ends.append(self)

    def data_received(self, data: bytes) -> None:
        broker = self.broker
        if self.name in broker._frozen:
            self._late.append(data)
            return
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

    def thaw(self) -> None:
        late, self._late = self._late, []
        for data in late:
            if data is None:
                self.connection_lost(None)
            else:
                self.data_received(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.name in self.broker._frozen:
            self._late.append(None)
            return
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
        if self.client.closed and not self.transport.is_closing():
            self.transport.write(encode_frame(Refused(*self.client.closed)))
            self.transport.close()
