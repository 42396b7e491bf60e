"""The Supervisor: starts a cluster's actors on their nodes, introduces them to each other, keeps the address book.

    choose nodes -> start every process at once -> Sequencer listens -> Ownership and brokers listen and dial it
                 -> warm queue replicas dial all three -> brokers learn each other's client address -> all links up

It makes the cluster's secret, and gives it to the actors in calls only: constructor arguments would be kept by Ray's
control store. When a broker has used up a warm queue replica it asks here for another. The data plane never comes here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from dataclasses import dataclass, replace
from typing import Any

from ..protocol.effects import OWNERSHIP, SEQUENCER
from ..protocol.errors import LocalError
from .broker_actor import BrokerNode
from .handshake import Credentials
from .member import fence
from .ownership_actor import Ownership
from .placement import SUPERVISOR, Node, Placement, alive_nodes, broker_nodes
from .ray_handles import ActorGone, Handle, Teller
from .replica_actor import QueueReplica
from .sequencer_actor import Sequencer

log = logging.getLogger(__name__)

START_S = 90.0
STOP_S = 5.0


@dataclass(frozen=True)
class Plan:
    """What to start.

    Attributes:
        brokers: how many; ids b1 .. bn.
        token: what clients must present; "" admits everybody.
        slice_ms: an owner's time on a contended queue.
        spares: warm queue replicas per broker at the start.
        queue_actors_max: most queue replicas per broker.
        client_port: brokers' client ports count up from here; 0 for any port.
        bind: host every listener binds; "" for the address Ray knows the node by.
    """

    brokers: int = 3
    token: str = ""
    slice_ms: int = 20
    spares: int = 2
    queue_actors_max: int = 4
    client_port: int = 0
    bind: str = ""

    def __post_init__(self) -> None:
        if self.brokers < 1:
            raise LocalError(f"a cluster has at least one broker, not {self.brokers}")
        if not 1 <= self.spares <= self.queue_actors_max:
            raise LocalError(
                f"warm queue replicas per broker must be 1 to {self.queue_actors_max} (queue_actors_max), "
                f"not {self.spares}"
            )


@dataclass(frozen=True)
class Entry:
    """A line of the address book."""

    handle: Handle
    role: str
    node: str
    host: str
    pid: int = 0
    loop: str = ""
    peers: str = ""
    clients: str = ""


class Supervisor:
    """One per cluster, an ordinary class that `cluster.py` makes an actor."""

    def __init__(self, name: str, placement: Placement, fenced: bool = False) -> None:
        self.name = name
        self.cluster = secrets.token_hex(6)
        self._placement = placement
        self._plan = Plan()
        self._secret = secrets.token_bytes(32)
        self._book: dict[str, Entry] = {}
        self._nodes: dict[str, Node] = {}
        self._incs: dict[str, int] = {}
        self._stage = "starting"
        self._refilling = asyncio.Lock()
        self._began = time.time()
        if fenced:
            fence(os.getppid())

    def __repr__(self) -> str:
        return f"Supervisor({self.cluster}, {self._stage})"

    # ---- starting

    async def start_cluster(self, plan: Plan) -> None:
        """Start everything; returns when all links are up.

        Raises:
            LocalError: something is missing at the time limit, and what; what was started has been killed.
        """
        if self._book:
            raise LocalError("this cluster has been started already")
        self._plan = plan
        try:
            await self._start(time.monotonic() + START_S)
        except BaseException:
            await self.stop()
            raise
        self._stage = "running"

    async def _start(self, deadline: float) -> None:
        def left() -> float:
            return max(0.1, deadline - time.monotonic())

        plan = self._plan
        swept = self._placement.sweep()
        if swept:
            log.warning("killed what an earlier cluster left behind: %s", ", ".join(swept))
            await self._names_free(left())
        ids = [f"b{number}" for number in range(1, plan.brokers + 1)]
        self._launch(ids)
        self._stage = "waiting for processes"
        await asyncio.gather(*(self._verify(name, left()) for name in self._book))

        self._stage = "listening"
        await self._start_actor(SEQUENCER, _fresh(), ids)
        sequencer = self._book[SEQUENCER].peers
        starts = [self._start_actor(OWNERSHIP, _fresh(), ids, plan.slice_ms, sequencer)]
        me = self._placement.find(SUPERVISOR)
        assert me is not None
        for index, broker in enumerate(ids):
            port = plan.client_port + index if plan.client_port else 0
            inc = self._incs[broker] = _fresh()
            starts.append(self._start_actor(broker, port, inc, ids, plan.token, sequencer, Teller(me, "want_spare")))
        await asyncio.gather(*starts)
        await asyncio.gather(*(self._start_replica(name) for name in self._replicas()))
        await asyncio.gather(*(self._introduce(name) for name in self._replicas()))

        self._stage = "linking"
        addresses = self.addresses_now()
        await asyncio.gather(*(self._book[broker].handle.call("members", addresses) for broker in ids))
        missing = await asyncio.gather(*(self._missing(name, left()) for name in self._book))
        lines = [line for lines in missing for line in lines]
        if lines:
            raise LocalError(
                f"these links did not come up within {START_S:g} s: {'; '.join(lines)}; see the actors' logs"
            )

    def _launch(self, ids: list[str]) -> None:
        """Begin every process at once: starting them is what takes the time."""
        nodes = alive_nodes()
        carriers = broker_nodes(nodes)
        where = {broker: carriers[index % len(carriers)] for index, broker in enumerate(ids)}
        # Sequencer and Ownership live beside the Supervisor if that is a node for brokers, else with the first broker.
        home = where[ids[0]]
        self._nodes = where
        self._book = {
            SEQUENCER: self._new(Sequencer, SEQUENCER, home),
            OWNERSHIP: self._new(Ownership, OWNERSHIP, home),
        }
        for broker in ids:
            self._book[broker] = self._new(BrokerNode, broker, where[broker])
        for broker in ids:
            for number in range(self._plan.spares):
                name = f"{broker}.r{number}"
                self._book[name] = self._new(QueueReplica, name, where[broker])

    def _new(self, cls: type, name: str, node: Node) -> Entry:
        return Entry(self._placement.actor(cls, name, node.id, True), cls.__name__, node.id, node.host)

    async def _verify(self, name: str, timeout_s: float) -> None:
        entry = self._book[name]
        place = await self._placement.verify(entry.handle, entry.node, timeout_s)
        self._book[name] = replace(entry, pid=place["pid"], loop=place["loop"])
        up = sum(entry.pid > 0 for entry in self._book.values())
        self._stage = f"{up} of {len(self._book)} processes are up"

    async def _start_actor(self, name: str, *args: Any) -> None:
        entry = self._book[name]
        addresses = await entry.handle.call("start", self._credentials(name), self._plan.bind or entry.host, *args)
        self._book[name] = replace(entry, peers=addresses.get("peers", ""), clients=addresses.get("clients", ""))

    async def _start_replica(self, name: str) -> None:
        broker = _broker_of(name)
        peers = [self._book[other].peers for other in (SEQUENCER, OWNERSHIP, broker)]
        await self._start_actor(name, broker, self._incs[broker], *peers)

    async def _introduce(self, name: str) -> None:
        """A replica dials those of other brokers that stand before it in the book."""
        fellows = self._fellows_before(name)
        await self._book[name].handle.call("meet", {other: self._book[other].peers for other in fellows})

    def _fellows_before(self, name: str) -> list[str]:
        names = self._replicas()
        before = names[: names.index(name)]
        return [other for other in before if _broker_of(other) != _broker_of(name) and self._book[other].peers]

    def _credentials(self, name: str) -> Credentials:
        return Credentials(self.cluster, self._secret, name)

    async def _missing(self, name: str, timeout_s: float) -> list[str]:
        """The links of `name` that are not up in time."""
        wanted = self._links_of(name)
        if not wanted:
            return []
        missing = await self._book[name].handle.call("until_linked", wanted, timeout_s, timeout_s=timeout_s + 5)
        return [f"{name} to {other}" for other in missing]

    def _links_of(self, name: str) -> list[str]:
        """Links counted at one end: the one that is needed first."""
        role = self._book[name].role
        if role == "QueueReplica":
            return [SEQUENCER, OWNERSHIP, _broker_of(name), *self._fellows_before(name)]
        if role == "BrokerNode":
            return [SEQUENCER, *(other for other in self._replicas() if _broker_of(other) == name)]
        return [SEQUENCER] if role == "Ownership" else []

    def _replicas(self) -> list[str]:
        return [name for name, entry in self._book.items() if entry.role == "QueueReplica"]

    async def _names_free(self, timeout_s: float) -> None:
        """Killed actors keep their names for a moment."""
        until = time.monotonic() + min(timeout_s, 10)
        while self._placement.sweep() and time.monotonic() < until:
            await asyncio.sleep(0.05)

    # ---- running

    async def want_spare(self, broker: str) -> bool:
        """Start another warm queue replica for `broker` if the limit allows; whether one was started."""
        async with self._refilling:
            mine = [name for name in self._replicas() if _broker_of(name) == broker]
            if self._stage != "running" or len(mine) >= self._plan.queue_actors_max:
                return False
            name = f"{broker}.r{1 + max(int(name.rsplit('r', 1)[1]) for name in mine)}"
            self._book[name] = self._new(QueueReplica, name, self._nodes[broker])
            try:
                await self._verify(name, START_S)
                await self._start_replica(name)
                await self._introduce(name)
            except Exception:
                log.exception("no warm queue replica %s for broker %s", name, broker)
                self._book.pop(name).handle.kill()
                return False
            finally:
                if self._stage != "stopped":
                    self._stage = "running"
            return True

    def addresses_now(self) -> dict[str, str]:
        return {name: entry.clients for name, entry in self._book.items() if entry.clients}

    async def stage(self) -> str:
        """What the start is doing now, for a progress display."""
        return self._stage

    async def book(self) -> dict[str, Any]:
        """What a client or the command line needs to know: addresses, token, where each broker is, pids."""
        return {
            "cluster": self.cluster,
            "namespace": self._placement.namespace,
            "token": self._plan.token,
            "addresses": self.addresses_now(),
            "nodes": {name: entry.node for name, entry in self._book.items() if entry.clients},
            "pids": {SUPERVISOR: os.getpid()} | {name: entry.pid for name, entry in self._book.items() if entry.pid},
        }

    async def status(self, timeout_s: float = 3.0) -> dict[str, Any]:
        """The whole cluster as plain values; an actor that does not answer is reported as not alive."""
        book = {name: entry for name, entry in self._book.items() if entry.pid}
        reports = await asyncio.gather(*(self._report(entry.handle, timeout_s) for entry in book.values()))
        actors = [
            {
                "name": name,
                "role": entry.role,
                "pid": entry.pid,
                "node": entry.node,
                "host": entry.host,
                "loop": entry.loop,
                "address": entry.clients or entry.peers,
                **report,
            }
            for (name, entry), report in zip(book.items(), reports, strict=True)
        ]
        return {
            "cluster": self.cluster,
            "namespace": self._placement.namespace,
            "stage": self._stage,
            "uptime_s": round(time.time() - self._began, 1),
            "members": self.addresses_now(),
            "authenticated": bool(self._plan.token),
            "supervisor": {"pid": os.getpid()},
            "actors": actors,
        }

    async def _report(self, handle: Handle, timeout_s: float) -> dict[str, Any]:
        try:
            return {"alive": True, **await handle.call("status", timeout_s=timeout_s)}
        except ActorGone as error:
            return {"alive": False, "error": str(error)}
        except LocalError as error:
            return {"alive": True, "error": str(error)}

    async def place(self) -> dict[str, Any]:
        from .placement import current_place

        return current_place()

    # ---- stopping

    async def stop(self) -> dict[str, int]:
        """Close all links, clients' first, then kill every actor but this one; returns the pids by name."""
        self._stage = "stopped"
        order = ["BrokerNode", "QueueReplica", "Ownership", "Sequencer"]
        for role in order:
            handles = [entry.handle for entry in self._book.values() if entry.role == role]
            await asyncio.gather(*(h.call("stop", timeout_s=STOP_S) for h in handles), return_exceptions=True)
        pids = {name: entry.pid for name, entry in self._book.items()}
        for entry in self._book.values():
            entry.handle.kill()
        self._book = {}
        return pids


def _broker_of(replica: str) -> str:
    return replica.split(".", 1)[0]


def _fresh() -> int:
    """A number for an incarnation: 48 bits, rising with time (a newer one wins), the last seven random."""
    return (int(time.time() * 1000) << 7 | secrets.randbits(7)) & ((1 << 48) - 1)
