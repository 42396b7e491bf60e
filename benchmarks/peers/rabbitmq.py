"""RabbitMQ, three nodes on loopback, a quorum queue on all, by aio-pika. Such a queue flushes before it confirms."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import shutil
import signal
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


def about() -> str:
    """Which servers these are."""
    found = sorted(path.name for path in Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*"))
    return ", ".join(found) or missing() or str(_program("rabbitmq-server"))


class Servers:
    """Three nodes, numbered from 0, that can be killed and started again.

    Attributes:
        addresses: for clients.
    """

    def __init__(self, folder: str) -> None:
        self.addresses = [f"amqp://guest:guest@127.0.0.1:{port}/" for port in PORTS]
        self._home = Path(folder)
        self._up: set[int] = set()
        (self._home / ".erlang.cookie").write_text("MANTABENCHMARKCOOKIE")
        (self._home / ".erlang.cookie").chmod(0o400)
        self._environment = os.environ | {"HOME": folder}

    def control(self, index: int, *words: str) -> str:
        """Run rabbitmqctl; returns what it says. Raises subprocess.SubprocessError."""
        command = [str(_program("rabbitmqctl")), "-n", f"r{index}@localhost", *words, "-q"]
        ran = subprocess.run(
            command, env=self._environment, check=True, capture_output=True, timeout=120, text=True, cwd=self._home
        )
        return ran.stdout

    def start(self, index: int) -> None:
        """Start a node; returns at once."""
        base = self._home / f"r{index}"
        base.mkdir(exist_ok=True)
        (base / "plugins").write_text("[].")
        (base / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{PORTS[index]}\n")
        (base / "pid").unlink(missing_ok=True)
        subprocess.run(
            [str(_program("rabbitmq-server")), "-detached"],
            check=True,
            capture_output=True,
            env=self._environment
            | {
                "RABBITMQ_NODENAME": f"r{index}@localhost",
                "RABBITMQ_CONFIG_FILE": str(base / "rabbitmq"),
                "RABBITMQ_MNESIA_BASE": str(base / "mnesia"),
                "RABBITMQ_LOG_BASE": str(base / "log"),
                "RABBITMQ_DIST_PORT": str(25671 + index),
                "RABBITMQ_PID_FILE": str(base / "pid"),
                "RABBITMQ_ENABLED_PLUGINS_FILE": str(base / "plugins"),
                "RABBITMQ_GENERATED_CONFIG_DIR": str(base / "gen"),
            },
        )
        self._up.add(index)

    def until_up(self, index: int) -> None:
        until = time.monotonic() + 120
        while True:
            try:
                self.control(index, "await_startup")
                return
            except subprocess.SubprocessError:
                if time.monotonic() > until:
                    raise
                time.sleep(1)

    def join(self) -> None:
        """Make one cluster of the three."""
        for index in range(1, len(PORTS)):
            for words in (["stop_app"], ["join_cluster", "r0@localhost"], ["start_app"]):
                self.control(index, *words)

    def kill(self, index: int) -> float:
        """SIGKILL; returns the time of it (monotonic)."""
        pid = int((self._home / f"r{index}" / "pid").read_text())
        os.kill(pid, signal.SIGKILL)
        killed = time.monotonic()
        self._up.discard(index)
        return killed

    def leader(self) -> int:
        """The number of the node that leads the queue.

        Raises:
            RuntimeError: there is none now.
        """
        return self._standing()[0]

    def until_whole(self, limit_s: float) -> None:
        """Wait until all three are up and take part in the queue.

        Raises:
            RuntimeError: they do not at the limit.
        """
        until = time.monotonic() + limit_s
        while True:
            try:
                if self._standing()[1] == len(PORTS):
                    return
            except (RuntimeError, subprocess.SubprocessError):
                pass
            if time.monotonic() > until:
                raise RuntimeError(f"{NAME} was not whole again within {limit_s:g} s")
            time.sleep(0.5)

    def _standing(self) -> tuple[int, int]:
        """The leader's number, and how many nodes take part."""
        said = self.control(min(self._up), "list_queues", "name", "leader", "online", "--no-table-headers")
        for line in said.splitlines():
            name, _, rest = line.partition("\t")
            leader, _, online = rest.partition("\t")
            if name == "b" and leader.startswith("r"):
                return int(leader[1 : leader.index("@")]), online.count("@")
        raise RuntimeError(f"{NAME} has no leader now: {said}")

    def stop(self) -> None:
        for index in sorted(self._up, reverse=True):
            with contextlib.suppress(subprocess.SubprocessError):
                self.control(index, "stop")


@contextlib.contextmanager
def cluster(data: str | None = None) -> Generator[Servers]:
    """Run the nodes, with an empty queue on all. `data`: where their directories are made, for as long as they run."""
    with tempfile.TemporaryDirectory(dir=data) as folder:
        servers = Servers(folder)
        try:
            for index in range(len(PORTS)):
                servers.start(index)
            for index in range(len(PORTS)):
                servers.until_up(index)
            servers.join()
            asyncio.run(_prepare(servers.addresses[0]))
            yield servers
        finally:
            servers.stop()


@contextlib.contextmanager
def servers(data: str | None = None) -> Generator[list[str]]:
    """Run the cluster; yields the client addresses."""
    with cluster(data) as running:
        yield running.addresses


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


class Sender:
    """Sends one message at a time, each confirmed."""

    async def open(self, address: str) -> None:
        import aio_pika

        self._connection = await aio_pika.connect(address, timeout=1)
        channel = await self._connection.channel(publisher_confirms=True)
        self._exchange = channel.default_exchange

    async def send(self, body: bytes) -> None:
        """Returns when it is confirmed."""
        import aio_pika

        await self._exchange.publish(aio_pika.Message(body, delivery_mode=2), routing_key="b")

    async def close(self) -> None:
        await self._connection.close()


class Receiver:
    """Receives one message at a time, and acknowledges it."""

    async def open(self, address: str) -> None:
        import aio_pika

        self._connection = await aio_pika.connect(address, timeout=1)
        channel = await self._connection.channel()
        await channel.set_qos(prefetch_count=100)
        queue = await channel.declare_queue("b", durable=True, passive=True)
        self._came: asyncio.Queue[Any] = asyncio.Queue()
        self._connection.close_callbacks.add(lambda *_: self._came.put_nowait(None))
        await queue.consume(self._came.put)

    async def receive(self) -> bytes:
        message = await self._came.get()
        if message is None:
            raise ConnectionError("the connection is closed")
        await message.ack()
        return message.body

    async def close(self) -> None:
        await self._connection.close()
