"""NATS JetStream, three servers on loopback, a replicated (R3) work queue in memory, by nats-py."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
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

NAME = "nats-r3-memory"
PORTS, ROUTES = (4221, 4222, 4223), (6221, 6222, 6223)
STAMP = struct.Struct("!d")


def missing() -> str:
    """Why it cannot be measured here, or ""."""
    if not shutil.which("nats-server"):
        return "nats-server is not installed (apt-get install nats-server)"
    if importlib.util.find_spec("nats") is None:
        return "nats-py is not installed"
    return ""


@contextlib.contextmanager
def servers() -> Generator[list[str]]:
    """Run the cluster; yields the client addresses."""
    with tempfile.TemporaryDirectory() as folder:
        routes = ", ".join(f"nats://127.0.0.1:{port}" for port in ROUTES)
        running: list[subprocess.Popen[bytes]] = []
        try:
            for index, (port, route) in enumerate(zip(PORTS, ROUTES, strict=True), 1):
                config = Path(folder) / f"n{index}.conf"
                config.write_text(
                    f"port: {port}\nhost: 127.0.0.1\nserver_name: n{index}\n"
                    f"jetstream {{ store_dir: {folder}/n{index} }}\n"
                    f"cluster {{ name: peers, listen: 127.0.0.1:{route}, routes: [{routes}] }}\n"
                )
                log = open(Path(folder) / f"n{index}.log", "wb")  # noqa: SIM115
                running.append(subprocess.Popen(["nats-server", "-c", str(config)], stdout=log, stderr=log))
            addresses = [f"nats://127.0.0.1:{port}" for port in PORTS]
            asyncio.run(_prepare(addresses[0]))
            yield addresses
        finally:
            for server in running:
                server.terminate()
            for server in running:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    server.wait(5)
                server.kill()


async def _prepare(address: str) -> None:
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
            await stream.add_stream(name="B", subjects=["b"], num_replicas=3, storage="memory", retention="workqueue")
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
