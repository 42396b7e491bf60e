"""The bare pipeline: asyncio streams and msgpack in our shape, with no broker in it. The limit we measure against.

Client, broker, sequencer, three replicas, acknowledgements, confirmation after two of three; the owner's replica hands
on to the second broker and its consumer, whose accept goes the same way. No state to speak of, no failure handling, and
it delivers before commit: no real broker of this shape can be faster. With `committed` the owner delivers only what two
replicas hold, as a broker must that promises to lose nothing: two more hops, and the limit for latency.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import msgpack

from .processes import Consumed, Job, Produced, padding, run, summary

NAME = "bare-pipeline"
EVENT, ACKNOWLEDGE, JOIN, CREDIT, ACCEPT, DELIVER, CONFIRM, COMMIT = range(8)
STAMP = struct.Struct("!d")
_pack = msgpack.packb


class _Link(asyncio.Protocol):
    def __init__(self, handle: Callable[[_Link, list[Any]], None]) -> None:
        self._handle = handle
        self._unpacker = msgpack.Unpacker(max_buffer_size=1 << 30)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport: Any = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        self._unpacker.feed(data)
        for message in self._unpacker:
            self._handle(self, message)

    def send(self, message: list[Any]) -> None:
        self.transport.write(_pack(message))


async def _serve(port: int, handle: Callable[[_Link, list[Any]], None]) -> None:
    await asyncio.get_running_loop().create_server(lambda: _Link(handle), "127.0.0.1", port)


async def _dial(port: int, handle: Callable[[_Link, list[Any]], None]) -> _Link:
    for _ in range(200):
        try:
            return (await asyncio.get_running_loop().create_connection(lambda: _Link(handle), "127.0.0.1", port))[1]
        except OSError:
            await asyncio.sleep(0.05)
    raise RuntimeError(f"nobody listens on port {port}")


async def _sequencer(ports: list[int], committed: bool) -> None:
    replicas: list[_Link] = []
    pending: dict[int, list[Any]] = {}
    sequence = 0

    def handle(link: _Link, message: list[Any]) -> None:
        nonlocal sequence
        if message[0] == EVENT:
            sequence += 1
            pending[sequence] = [link, message[2], 0]
            frame = _pack([sequence, message[1], message[3]])
            for replica in replicas:
                replica.transport.write(frame)
        elif message[0] == ACKNOWLEDGE:
            entry = pending[message[1]]
            entry[2] += 1
            if entry[2] == 2:
                if committed:
                    for replica in replicas:
                        replica.send([COMMIT, message[1], 0])
                entry[0].send([CONFIRM, entry[1]])
            elif entry[2] == 3:
                del pending[message[1]]
        else:
            replicas.append(link)

    await _serve(ports[0], handle)


async def _replica(ports: list[int], index: int, owner: bool, committed: bool) -> None:
    bodies: dict[int, bytes] = {}
    ready: deque[int] = deque()
    waiting: dict[int, range] = {}
    position = credit = 0
    consumer: _Link | None = None

    def dispatch() -> None:
        nonlocal credit
        count = min(credit, len(ready))
        if consumer is not None and count:
            positions = [ready.popleft() for _ in range(count)]
            credit -= count
            consumer.send([DELIVER, positions, [bodies[p] for p in positions]])
            sequencer.send([EVENT, JOIN, 0, [positions[0], positions[-1]]])

    def from_sequencer(link: _Link, message: list[Any]) -> None:
        nonlocal position
        if len(message) == 2:
            return
        sequence, kind, payload = message
        if sequence == COMMIT and payload == 0:
            if owner and kind in waiting:
                ready.extend(waiting.pop(kind))
                dispatch()
            return
        if kind == EVENT:
            first = position + 1
            for body in payload:
                position += 1
                bodies[position] = body
            if owner and committed:
                waiting[sequence] = range(first, position + 1)
            elif owner:
                ready.extend(range(first, position + 1))
                dispatch()
        elif kind == ACCEPT:
            for each in payload:
                bodies.pop(each, None)
        sequencer.send([ACKNOWLEDGE, sequence])

    def from_broker(link: _Link, message: list[Any]) -> None:
        nonlocal consumer, credit
        consumer = link
        credit += message[1]
        dispatch()

    await _serve(ports[1 + index], from_broker)
    sequencer = await _dial(ports[0], from_sequencer)
    sequencer.send([JOIN])


async def _broker(ports: list[int], index: int) -> None:
    clients: dict[int, tuple[_Link, int]] = {}
    number = 0
    consumer: _Link | None = None

    def from_sequencer(link: _Link, message: list[Any]) -> None:
        client, theirs = clients.pop(message[1])
        client.send([CONFIRM, theirs])

    def from_replica(link: _Link, message: list[Any]) -> None:
        assert consumer is not None
        consumer.send(message)

    def from_client(link: _Link, message: list[Any]) -> None:
        nonlocal number, consumer
        if message[0] == CREDIT:
            consumer = link
            replica.send(message)
            return
        number += 1
        clients[number] = (link, message[1])
        if message[0] == ACCEPT:
            replica.send([CREDIT, len(message[2])])
        sequencer.send([EVENT, message[0], number, message[2]])

    sequencer = await _dial(ports[0], from_sequencer)
    replica = await _dial(ports[1 + index], from_replica)
    await _serve(ports[4 + index], from_client)


async def produce(port: int, count: int, batch: int, window: int, rate: int, ready: Any) -> Produced:
    stamps: set[int] = set()
    room = asyncio.Semaphore(window)

    def handle(link: _Link, message: list[Any]) -> None:
        stamps.discard(message[1])
        room.release()

    link = await _dial(port, handle)
    pad = padding()
    await ready()
    await asyncio.sleep(0.2)
    start = time.time()
    for number in range(count // batch):
        await room.acquire()
        stamps.add(number)
        stamp = STAMP.pack(time.time())
        link.send([EVENT, number, [stamp + pad for _ in range(batch)]])
        if rate:
            await asyncio.sleep(max(0.0, start + (number + 1) / rate - time.time()))
    while stamps:
        await asyncio.sleep(0.001)
    return Produced(start, time.time(), count)


async def consume(port: int, count: int, ready: Any) -> Consumed:
    latencies: list[float] = []
    sent = confirmed = 0
    done = asyncio.Event()

    def handle(link: _Link, message: list[Any]) -> None:
        nonlocal sent, confirmed
        if message[0] == DELIVER:
            now = time.time()
            latencies.extend(now - STAMP.unpack_from(body)[0] for body in message[2])
            sent += 1
            link.send([ACCEPT, sent, message[1]])
        else:
            confirmed += 1
        if len(latencies) >= count and confirmed == sent:
            done.set()

    link = await _dial(port, handle)
    link.send([CREDIT, 2000])
    await ready()
    await done.wait()
    return Consumed(time.time(), len(latencies), latencies)


def _forever(role: Any, *arguments: Any) -> None:
    async def main() -> None:
        await role(*arguments)
        await asyncio.Event().wait()

    asyncio.run(main())


def trial(
    count: int, batch: int, window: int, rate: int = 0, committed: bool = False, pipelines: int = 1
) -> dict[str, float]:
    """One run of the pipeline, or of several at once with `count` messages in all, in fresh processes: see
    `processes.summary`."""
    all_ports = free_ports(6 * pipelines)
    spawn = multiprocessing.get_context("spawn")
    roles: list[tuple[Any, ...]] = []
    producers: list[Job] = []
    consumers: list[Job] = []
    for first in range(0, len(all_ports), 6):
        ports = all_ports[first : first + 6]
        roles.append((_sequencer, ports, committed))
        roles += [(_replica, ports, index, index == 1, committed) for index in range(3)]
        roles += [(_broker, ports, index) for index in (0, 1)]
        producers.append(Job(__name__, "produce", (ports[4], count // pipelines, batch, window, rate)))
        consumers.append(Job(__name__, "consume", (ports[5], count // pipelines)))
    servers = [spawn.Process(target=_forever, args=role, daemon=True) for role in roles]
    for server in servers:
        server.start()
    try:
        results = run(producers + consumers)
        return summary(results[:pipelines], results[pipelines:])
    finally:
        for server in servers:
            server.kill()
            server.join()


def free_ports(count: int) -> list[int]:
    """So many local ports that nobody listens on just now."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
