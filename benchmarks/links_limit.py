"""Our links with nothing behind them: what a message's way costs before anything is decided.

The processes, links, frames, batching and client of a real cluster, in the real order: sender, broker, sequencer, a
replica's vote, the owner that has waited for it, the other broker, receiver. But the machines only pass frames on: no
log, no queue, no lock, no number is looked at. What ours takes longer than this, its rules take; what this takes longer
than the bare pipeline, its links and the client take. Without Ray, which is not on a message's way.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import secrets
from collections import deque
from typing import Any

import uvloop

from ..protocol.machine import Effect, Input, Multicast, Received, Send
from ..protocol.wire.client_frames import (
    Attached,
    AttachReceiver,
    AttachSender,
    Command,
    Completed,
    Delivery,
    Dispose,
    Disposed,
    Flow,
    Open,
    Opened,
    Reply,
    Transfer,
)
from ..protocol.wire.events import Entry
from ..protocol.wire.frame import Frame
from ..protocol.wire.log_frames import Ack, Append, Request, Results
from ..protocol.wire.queue_frames import Deliver
from .manta import consume, produce
from .pipeline_limit import free_ports
from .processes import Job, run, summary

NAME = "bare-links"
HOST = "127.0.0.1"
START_S = 30.0
QUEUE = "q"
BALLOT = (1, 1)
REPLICAS = ["b1.r0", "b3.r0", "b2.r0"]
OWNER = REPLICAS[-1]


class _Machine:
    """Passes on what `answer` says to a frame."""

    def step(self, input: Input) -> list[Effect]:
        return self.answer(input.peer, input.frame) if type(input) is Received else []

    def answer(self, peer: str, frame: Frame) -> list[Effect]:
        raise NotImplementedError


class _Broker(_Machine):
    def __init__(self) -> None:
        self._sent = 0
        self._uncommitted: deque[tuple[str, Completed]] = deque()
        self._receiver = ("", 0)

    def answer(self, peer: str, frame: Frame) -> list[Effect]:
        kind = type(frame)
        if kind is Transfer:
            self._sent += 1
            last = frame.first + len(frame.blobs) - 1  # type: ignore[attr-defined]
            self._uncommitted.append((peer, Completed(frame.handle, [frame.first, last])))  # type: ignore[attr-defined]
            parts = [(QUEUE, blob) for blob in frame.blobs]  # type: ignore[attr-defined]
            return [Send("sequencer", Request("b1", 1, self._sent, parts))]
        if kind is Results:
            return [Send(*self._uncommitted.popleft()) for _ in frame.numbers]  # type: ignore[attr-defined]
        if kind is Deliver:
            client, handle = self._receiver
            delivery = Delivery(handle, frame.acquisition, frame.ranges, frame.blobs)  # type: ignore[attr-defined]
            return [Send(client, delivery)]
        if kind is Dispose:
            return [Send(peer, Disposed(frame.handle, frame.number, []))]  # type: ignore[attr-defined]
        if kind is Open:
            return [Send(peer, Opened("b", {}, 1 << 20, 1000, 1000))]
        if kind is Command:
            return [Send(peer, Reply(frame.number, {"kind": "queue"}))]  # type: ignore[attr-defined]
        if kind is AttachSender or kind is AttachReceiver:
            return [Send(peer, Attached(frame.handle))]  # type: ignore[attr-defined]
        if kind is Flow:
            self._receiver = (peer, frame.handle)  # type: ignore[attr-defined]
        return []


class _Sequencer(_Machine):
    def __init__(self) -> None:
        self._seq = 0
        self._requests: deque[tuple[int, int]] = deque()  # seq of the last entry, number

    def answer(self, peer: str, frame: Frame) -> list[Effect]:
        if type(frame) is Request:
            first = self._seq + 1
            self._seq += len(frame.parts)
            self._requests.append((self._seq, frame.number))
            entries = [
                Entry(BALLOT, seq, frame.origin, 1, frame.number, event)
                for seq, (_, event) in enumerate(frame.parts, first)
            ]
            return [Multicast(REPLICAS, Append(BALLOT, QUEUE, first - 1, BALLOT, 0, 0, entries, OWNER, 1))]
        if type(frame) is Ack:
            numbers: list[int] = []
            while self._requests and self._requests[0][0] <= frame.match:
                numbers.append(self._requests.popleft()[1])
            return [Send("b1", Results(1, numbers))] if numbers else []
        return []


class _Voter(_Machine):
    def answer(self, peer: str, frame: Frame) -> list[Effect]:
        if type(frame) is not Append:
            return []
        return [Send(OWNER, Ack(BALLOT, QUEUE, "b1", frame.entries[-1].seq, 0))]


class _Owner(_Machine):
    """Delivers what another one has, too."""

    def __init__(self) -> None:
        self._held: deque[Entry] = deque()
        self._match = 0

    def answer(self, peer: str, frame: Frame) -> list[Effect]:
        if type(frame) is Append:
            self._held += frame.entries
        elif type(frame) is Ack:
            self._match = max(self._match, frame.match)
        held = self._held
        if not held or held[0].seq > self._match:
            return []
        entries: list[Entry] = []
        while held and held[0].seq <= self._match:
            entries.append(held.popleft())
        first, last = entries[0].seq, entries[-1].seq
        return [
            Send("b2", Deliver(QUEUE, 0, first, [first, last], [entry.event for entry in entries])),
            Send("sequencer", Ack(BALLOT, QUEUE, "b2", last, last)),
        ]


_ROLES: dict[str, tuple[type[_Machine], list[str]]] = {
    "sequencer": (_Sequencer, []),
    "b2": (_Broker, []),
    OWNER: (_Owner, ["sequencer", "b2"]),
    "b1.r0": (_Voter, ["sequencer", OWNER]),
    "b3.r0": (_Voter, ["sequencer", OWNER]),
    "b1": (_Broker, ["sequencer"]),
}
"""Name -> its machine, and whom it dials."""


async def _serve(name: str, secret: bytes, ports: dict[str, int], clients: dict[str, int], up: Any) -> None:
    from ..actors.links.handshake import Credentials
    from ..actors.members.shell import Shell

    machine, peers = _ROLES[name]
    shell = Shell(machine(), Credentials("bench", secret, name))
    await shell.listen_peers(HOST, ports[name])
    if name in clients:
        await shell.listen_clients(HOST, clients[name])
    for peer in peers:
        shell.dial(peer, f"{HOST}:{ports[peer]}")
    missing = await shell.until_up(peers, START_S)
    up.put(missing)
    await asyncio.Event().wait()


def _process(*arguments: Any) -> None:
    uvloop.install()  # as Ray's actors run it
    logging.getLogger("mantamq").setLevel(logging.ERROR)  # who dials before the other one listens says so
    asyncio.run(_serve(*arguments))


def trial(count: int, rate: int) -> dict[str, float]:
    """`count` messages at `rate` a second, in fresh processes: see `processes.summary`.

    Raises:
        RuntimeError: the processes did not find each other.
    """
    free = free_ports(len(_ROLES) + 2)
    ports = dict(zip(_ROLES, free, strict=False))
    clients = {"b1": free[-2], "b2": free[-1]}
    spawn = multiprocessing.get_context("spawn")
    up = spawn.Queue()
    secret = secrets.token_bytes(32)
    servers = [spawn.Process(target=_process, args=(name, secret, ports, clients, up), daemon=True) for name in _ROLES]
    for server in servers:
        server.start()
    try:
        for _ in servers:
            if missing := up.get(timeout=2 * START_S):
                raise RuntimeError(f"no link came up to {', '.join(missing)}")
        produced, consumed = run(
            [
                Job(produce.__module__, "produce", (f"{HOST}:{clients['b1']}", [QUEUE], count, rate)),
                Job(consume.__module__, "consume", (f"{HOST}:{clients['b2']}", QUEUE, count)),
            ]
        )
        return summary([produced], [consumed])
    finally:
        for server in servers:
            server.kill()
            server.join()
