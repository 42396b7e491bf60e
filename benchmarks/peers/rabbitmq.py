"""RabbitMQ, three nodes on loopback, a quorum queue on all, by aio-pika."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import shutil
import struct
import subprocess
import tempfile
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

from ..processes import Consumed, Produced, padding

NAME = "rabbitmq-quorum"
STAMP = struct.Struct("!d")
PORTS = (5671, 5672, 5673)


def _program(name: str) -> str | None:
    # Debian's wrappers in sbin change the user; the programs themselves lie here.
    private = f"/usr/lib/rabbitmq/bin/{name}"
    return private if os.path.exists(private) else shutil.which(name)


def missing() -> str:
    """Why it cannot be measured here, or ""."""
    if not _program("rabbitmq-server"):
        return "rabbitmq-server is not installed (apt-get install rabbitmq-server)"
    if importlib.util.find_spec("aio_pika") is None:
        return "aio-pika is not installed"
    return ""


@contextlib.contextmanager
def servers() -> Generator[list[str]]:
    """Run the cluster; yields the client addresses."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / ".erlang.cookie").write_text("MANTABENCHMARKCOOKIE")
        (home / ".erlang.cookie").chmod(0o400)
        environment = os.environ | {"HOME": folder}

        def control(node: int, *words: str) -> None:
            command = [str(_program("rabbitmqctl")), "-n", f"r{node}@localhost", *words, "-q"]
            subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)

        started: list[int] = []
        try:
            for node, port in enumerate(PORTS, 1):
                base = home / f"r{node}"
                base.mkdir()
                (base / "plugins").write_text("[].")
                (base / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\n")
                subprocess.run(
                    [str(_program("rabbitmq-server")), "-detached"],
                    check=True,
                    capture_output=True,
                    env=environment
                    | {
                        "RABBITMQ_NODENAME": f"r{node}@localhost",
                        "RABBITMQ_CONFIG_FILE": str(base / "rabbitmq"),
                        "RABBITMQ_MNESIA_BASE": str(base / "mnesia"),
                        "RABBITMQ_LOG_BASE": str(base / "log"),
                        "RABBITMQ_DIST_PORT": str(25670 + node),
                        "RABBITMQ_PID_FILE": str(base / "pid"),
                        "RABBITMQ_ENABLED_PLUGINS_FILE": str(base / "plugins"),
                        "RABBITMQ_GENERATED_CONFIG_DIR": str(base / "gen"),
                    },
                )
                started.append(node)
            for node in started:
                _until_up(control, node)
            for node in started[1:]:
                control(node, "stop_app")
                control(node, "join_cluster", "r1@localhost")
                control(node, "start_app")
            addresses = [f"amqp://guest:guest@127.0.0.1:{port}/" for port in PORTS]
            asyncio.run(_prepare(addresses[0]))
            yield addresses
        finally:
            for node in reversed(started):
                with contextlib.suppress(subprocess.SubprocessError):
                    control(node, "stop")


def _until_up(control: Any, node: int) -> None:
    until = time.monotonic() + 120
    while True:
        try:
            control(node, "await_startup")
            return
        except subprocess.SubprocessError:
            if time.monotonic() > until:
                raise
            time.sleep(1)


async def _prepare(address: str) -> None:
    import aio_pika

    connection = await aio_pika.connect(address)
    channel = await connection.channel()
    await channel.declare_queue("b", durable=True, arguments={"x-queue-type": "quorum"})
    await connection.close()


async def produce(address: str, count: int, rate: int, window: int, ready: Any) -> Produced:
    import aio_pika

    connection = await aio_pika.connect(address)
    channel = await connection.channel(publisher_confirms=True)
    exchange = channel.default_exchange
    pad = padding()
    room = asyncio.Semaphore(window)
    tasks: set[asyncio.Task[None]] = set()

    async def publish() -> None:
        try:
            body = STAMP.pack(time.time()) + pad
            await exchange.publish(aio_pika.Message(body, delivery_mode=2), routing_key="b")
        finally:
            room.release()

    await ready()
    start = time.time()
    for number in range(count):
        await room.acquire()
        task = asyncio.create_task(publish())
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        if rate:
            await asyncio.sleep(max(0.0, start + (number + 1) / rate - time.time()))
    while tasks:
        await asyncio.wait(list(tasks))
    end = time.time()
    await connection.close()
    return Produced(start, end, count)


async def consume(address: str, count: int, fetch: int, ready: Any) -> Consumed:
    import aio_pika

    connection = await aio_pika.connect(address)
    channel = await connection.channel()
    await channel.set_qos(prefetch_count=fetch)
    queue = await channel.declare_queue("b", durable=True, passive=True)
    latencies: list[float] = []
    done = asyncio.Event()

    async def take(message: Any) -> None:
        latencies.append(time.time() - STAMP.unpack_from(message.body)[0])
        await message.ack()
        if len(latencies) >= count:
            done.set()

    await queue.consume(take)
    await ready()
    await done.wait()
    end = time.time()
    await connection.close()
    return Consumed(end, len(latencies), latencies)
