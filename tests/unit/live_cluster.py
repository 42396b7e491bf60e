"""A live cluster without Ray: its actors in one process and one loop, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from mantamq.actors.config import BrokerConfig, MemberConfig, OwnershipConfig, ReplicaConfig, SequencerConfig
from mantamq.actors.links.handshake import Credentials
from mantamq.actors.members.broker_node import BrokerNode
from mantamq.actors.members.ownership import Ownership
from mantamq.actors.members.queue_replica import QueueReplica
from mantamq.actors.members.sequencer import Sequencer
from mantamq.protocol.machine import OWNERSHIP, SEQUENCER
from mantamq.protocol.wire.frame import Frame
from mantamq.protocol.wire.framing import FrameBuffer, encode_frame

LIMIT_S = 5.0


def own(name: str, cluster: str = "toy", **more: Any) -> Credentials:
    return Credentials(cluster, b"s" * 32, name, **more)


async def until(true: Any) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not true():
            await asyncio.sleep(0.005)


class Far:
    """The far end of a connection, made of plain streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self._buffer, self._frames = FrameBuffer(), list[Frame]()

    def say(self, *data: bytes | Frame) -> None:
        self.writer.write(b"".join(one if isinstance(one, bytes) else encode_frame(one) for one in data))

    async def hear(self, kind: type[Any]) -> Any:
        async with asyncio.timeout(LIMIT_S):
            while True:
                while self._frames:
                    if isinstance(frame := self._frames.pop(0), kind):
                        return frame
                data = await self.reader.read(1 << 16)
                assert data, f"the end, and no {kind.__name__}"
                self._frames += self._buffer.feed(data)


@asynccontextmanager
async def connection(address: str) -> AsyncIterator[Far]:
    host, port = address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Far(reader, writer)
    finally:
        writer.close()


Via = Callable[[str, str, str], Awaitable[str]]
"""(caller, callee, its address) -> the address the caller is given."""


async def straight(caller: str, callee: str, address: str) -> str:
    return address


@asynccontextmanager
async def cluster(
    mine: Callable[[str], Credentials] = own, via: Via = straight, **options: Any
) -> AsyncIterator[dict[str, Any]]:
    """Three brokers with a replica each, two sequencers, and Ownership, by name.

    Args:
        mine: an actor's credentials.
        via: where each link is dialled.
        options: of all members, as in `MemberConfig`.
    """
    voters = ("b1", "b2", "b3")
    actors: dict[str, Any] = {}
    listening: dict[str, str] = {}

    async def peers(caller: str, *callees: str) -> dict[str, str]:
        return {callee: await via(caller, callee, listening[callee]) for callee in callees}

    def began(name: str, addresses: dict[str, str]) -> None:
        listening[name] = addresses["peers"]

    def of(name: str, inc: int, peers: dict[str, str] | None = None) -> MemberConfig:
        return MemberConfig(credentials=replace(mine(name), inc=inc), bind="127.0.0.1", peers=peers or {}, **options)

    order = (SEQUENCER, SEQUENCER + "2")
    try:
        for uid, name in enumerate(order, 7):
            actors[name] = Sequencer(name)
            config = SequencerConfig(member=of(name, uid), voters=voters, leading=name == SEQUENCER)
            began(name, await actors[name].start(config))
        actors[OWNERSHIP] = Ownership(OWNERSHIP)
        dialled = await peers(OWNERSHIP, *order)
        config = OwnershipConfig(member=of(OWNERSHIP, 1, dialled), slice_ms=20)
        began(OWNERSHIP, await actors[OWNERSHIP].start(config))
        fellows: list[str] = []
        for broker in voters:
            node = actors[broker] = BrokerNode(broker)
            dialled = await peers(broker, *order)
            config = BrokerConfig(member=of(broker, 5, dialled), client_port=0, voters=voters, blank=False)
            began(broker, await node.start(config, lambda broker: None))
            name = f"{broker}.r0"
            replica = actors[name] = QueueReplica(name)
            dialled = await peers(name, *order, OWNERSHIP, broker, *fellows)
            began(name, await replica.start(ReplicaConfig(member=of(name, 6, dialled), broker=broker)))
            fellows.append(name)
            assert await replica.until_linked(dialled, LIMIT_S) == []
            assert await node.until_linked(order, LIMIT_S) == []
        yield actors
    finally:
        for actor in reversed(actors.values()):
            await actor.stop()


class Silence:
    """Proxies that can stop to carry anything, and break nothing: packets that vanish.

    Attributes:
        carries: cleared while nothing is carried between the two of `muted`.
        muted: (caller, callee).
    """

    def __init__(self, muted: tuple[str, str]) -> None:
        self.muted = muted
        self.carries = asyncio.Event()
        self.carries.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._servers: list[asyncio.Server] = []

    async def via(self, caller: str, callee: str, address: str) -> str:
        if (caller, callee) != self.muted:
            return address
        host, port = address.rsplit(":", 1)

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self.carries.wait()
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            for source, target in ((reader, far_writer), (far_reader, writer)):
                task = asyncio.create_task(self._carry(source, target))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self._servers.append(server)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(1 << 16):
                await self.carries.wait()
                target.write(data)
            await self.carries.wait()
        except OSError:
            pass
        target.transport.abort()

    async def stop(self) -> None:
        self.carries.set()
        for server in self._servers:
            server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.sleep(0)
