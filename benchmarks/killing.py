"""Systems whose servers can be killed, all seen alike: Manta, NATS, RabbitMQ."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
import time
from collections.abc import Generator
from typing import Any, Protocol

from ..client import Connection, Message, connect, connect_async
from ..protocol.status.cluster import ClusterStatus
from ..protocol.status.members import SequencerMember
from . import durable
from .health import crew, unwell
from .peers import nats, rabbitmq

QUEUE = "recovery"
LEADER, SENDER, RECEIVER = "leader", "broker of the sender", "broker of the receiver"
VICTIMS = (LEADER, SENDER, RECEIVER)
"""Who orders the queue's messages; the broker the sender is connected to; the one the receiver is connected to (which
in Manta owns the queue). The last two are never the first, where the system lets us choose."""


class Killable(Protocol):
    """A running system of three brokers.

    Attributes:
        module: where its `Sender` and `Receiver` are.
        addresses: for clients, by broker's number. They may be others after a kill.
    """

    module: str
    addresses: list[str]

    def places(self) -> tuple[int, int]:
        """The brokers that the sender and the receiver are to use now: two that do not lead, if there are."""
        ...

    def kill(self, victim: str, sender: int, receiver: int) -> tuple[float, str]:
        """SIGKILL to it; returns the time of it (monotonic) and its name."""
        ...

    def until_whole(self, limit_s: float) -> None:
        """Start what was killed, if the system does not by itself, and wait until nothing is missing.

        Raises:
            RuntimeError: something is missing at the limit.
        """
        ...


class Peer:
    """NATS or RabbitMQ, through its own module."""

    def __init__(self, module: Any, servers: Any) -> None:
        self.module: str = module.__name__
        self.addresses: list[str] = servers.addresses
        self._servers = servers
        self._dead: int | None = None

    def places(self) -> tuple[int, int]:
        others = [index for index in range(len(self.addresses)) if index != self._servers.leader()]
        return others[0], others[1]

    def kill(self, victim: str, sender: int, receiver: int) -> tuple[float, str]:
        index = {LEADER: self._servers.leader, SENDER: lambda: sender, RECEIVER: lambda: receiver}[victim]()
        self._dead = index
        return self._servers.kill(index), f"server {index}"

    def until_whole(self, limit_s: float) -> None:
        if self._dead is not None:
            self._servers.start(self._dead)
            self._dead = None
        self._servers.until_whole(limit_s)


class Manta:
    """A started cluster.

    Args:
        cluster: from `start_cluster`; needs `status` and `actor_pids`.
        durable: its queue is.
    """

    module = __name__

    def __init__(self, cluster: Any, durable: bool = False) -> None:
        self._cluster = cluster
        self._brokers: list[str] = sorted(cluster.addresses)
        self.addresses = [cluster.addresses[broker] for broker in self._brokers]
        counted = crew(cluster.report())
        self._wanted = {role: count for role, count in counted.items() if role != "QueueReplica"}
        with self._connect() as connection:
            connection.declare_queue(QUEUE, durable=durable)

    def _connect(self) -> Connection:
        return connect(self.addresses)

    def _pids(self) -> dict[str, int]:
        return self._cluster.actor_pids()

    def places(self) -> tuple[int, int]:
        """Any two: the sequencer is a process of its own, and all are on one Ray node."""
        return 0, 1

    def kill(self, victim: str, sender: int, receiver: int) -> tuple[float, str]:
        name = {LEADER: self._sequencer, SENDER: lambda: self._brokers[sender], RECEIVER: self._owner}[victim]()
        os.kill(self._pids()[name], signal.SIGKILL)
        return time.monotonic(), name

    def _sequencer(self) -> str:
        """The one that reigns: of the highest ballot."""
        status: ClusterStatus = self._cluster.report()
        found = [actor for actor in status.actors if isinstance(actor, SequencerMember)]
        return max(found, key=lambda actor: actor.machine.ballot if actor.machine else [0, 0]).name

    def _owner(self) -> str:
        with self._connect() as connection:
            owner: str = connection.queue(QUEUE)["owner"]
        if not owner:
            raise RuntimeError("nobody owns the queue now")
        return owner

    def until_whole(self, limit_s: float) -> None:
        until = time.monotonic() + limit_s
        while True:
            try:
                status: ClusterStatus = self._cluster.report()
                wrong = unwell(status, self._wanted)
                self._brokers = sorted(status.members)
                self.addresses[:] = [status.members[broker] for broker in self._brokers]
            except Exception as error:
                wrong = [str(error)]
            if not wrong:
                return
            if time.monotonic() > until:
                raise RuntimeError(f"manta was not healthy again within {limit_s:g} s: {'; '.join(wrong)}")
            time.sleep(0.1)


@contextlib.contextmanager
def manta() -> Generator[Killable]:
    from ..actors.cluster import start_cluster

    with start_cluster(brokers=3, address="local", detached=True) as cluster:
        yield Manta(cluster)


@contextlib.contextmanager
def manta_durable() -> Generator[Killable]:
    from ..actors.cluster import start_cluster

    with tempfile.TemporaryDirectory(prefix="mantamq-recovery-") as directory:
        stored: dict[str, Any] = {"data": directory}
        with start_cluster(brokers=3, address="local", detached=True, **stored) as cluster:
            yield Manta(cluster, durable=True)


@contextlib.contextmanager
def peer(module: Any, *durable: bool) -> Generator[Killable]:
    with module.cluster(*durable) as servers:
        yield Peer(module, servers)


DURABLE_NAME = "manta-durable"
SYSTEMS: dict[str, tuple[Any, Any]] = {
    "manta": (manta, lambda: ""),
    nats.NAME: (lambda: peer(nats), nats.missing),
    DURABLE_NAME: (manta_durable, durable.missing),
    nats.DURABLE_NAME: (lambda: peer(nats, True), lambda: nats.missing(True)),
    rabbitmq.NAME: (lambda: peer(rabbitmq), rabbitmq.missing),
}
"""Name -> how to start it (a context manager that gives a `Killable`), and why it cannot be measured here, or ""."""


class Sender:
    """Sends one message at a time, each confirmed."""

    async def open(self, address: str) -> None:
        self._connection = await connect_async(address, timeout=1.0)
        self._sender = await self._connection.session().sender(QUEUE)

    async def send(self, body: bytes) -> None:
        """Returns when it is complete."""
        await self._sender.send(Message(body))
        await self._sender.sync()

    async def close(self) -> None:
        await self._connection.close()


class Receiver:
    """Receives one message at a time, and accepts it."""

    async def open(self, address: str) -> None:
        self._connection = await connect_async(address, timeout=1.0)
        self._session = self._connection.session()
        self._receiver = await self._session.receiver(QUEUE, capacity=100)

    async def receive(self) -> bytes:
        message = await self._receiver.fetch()
        await self._session.acknowledge(message)
        return message.body

    async def close(self) -> None:
        await self._connection.close()
