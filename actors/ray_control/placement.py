"""The one place where ordinary classes become Ray actors: names, nodes, lifetimes, resources.

Every actor is named ``manta/<peer name>`` in the cluster's namespace: ``manta/supervisor``, ``manta/sequencer``,
``manta/ownership``, ``manta/b1``, ``manta/b1.r0``. Actors are pinned to a node with a small but non-zero resource,
since Ray places actors that ask for nothing where it likes; and where they run is verified afterwards.

All are detached, also those of a cluster that ends with its program (`bound.py`): Ray ends other actors together with
their creator, and their creator here, the Supervisor, may die like any other.

Never restarted by Ray, never retried: a restart is an empty constructor (amnesia), and a retry may run twice.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import ray
from ray._private.ray_constants import KV_NAMESPACE_DASHBOARD
from ray.exceptions import RayError
from ray.experimental.internal_kv import _internal_kv_get  # pyright: ignore[reportPrivateUsage]
from ray.util import list_named_actors
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from ...protocol.errors import LocalError
from ...protocol.supervisor.layout import Node
from ..config import LogConfig
from .ray_handles import Handle

PREFIX = "manta/"
SUPERVISOR = "supervisor"
"""The first supervisor's name. One that takes the place of another which Ray still holds for alive is called after its
number: ``supervisor4``."""
BROKER_RESOURCE = "manta_broker"
"""Nodes that offer this custom resource carry the brokers; if none does, all nodes do."""
ACTOR_CPUS = 0.01
DEFAULT_LOGS = LogConfig()
KILL_S = 3.0


def is_supervisor(name: str) -> bool:
    return name.startswith(SUPERVISOR)


def number_of_supervisor(name: str) -> int:
    """By which the later ones are told from the earlier."""
    return int(name[len(SUPERVISOR) :] or 0)


def alive_nodes() -> list[Node]:
    """All nodes alive, in a stable order."""
    found = [
        Node(node["NodeID"], node["NodeManagerAddress"], node["Resources"]) for node in ray.nodes() if node["Alive"]
    ]
    return sorted(found, key=lambda node: (node.host, node.id))


def ended_hosts(alive: list[Node]) -> list[str]:
    """Hosts that had a Ray node and have none any more."""
    there = {node.host for node in alive}
    return sorted({node["NodeManagerAddress"] for node in ray.nodes() if not node["Alive"]} - there)


def broker_nodes(nodes: list[Node]) -> list[Node]:
    """The nodes that may carry brokers."""
    return [node for node in nodes if node.resources.get(BROKER_RESOURCE)] or nodes


def queue_actors(brokers: int, nodes: list[Node]) -> int:
    """How many of a broker's processes may well keep queues: twice the cores it has to itself, and at least one.

    More than that keep each other from the cores, and each of them finds smaller batches.
    """
    carrying = broker_nodes(nodes)
    cores = min((node.resources.get("CPU", 1.0) for node in carrying), default=1.0)
    together = -(-brokers // max(1, len(carrying)))
    return max(1, int(2 * cores / together))


def current_place() -> dict[str, Any]:
    """Of the calling actor: Ray node id, pid."""
    return {"node": ray.get_runtime_context().get_node_id(), "pid": os.getpid()}


def dashboard() -> str:
    """Where this Ray has its dashboard, "host:port", as seen from the head's host; "": it has none.

    Asked of Ray's control store: what Ray offers for it names the default port also where nothing listens.
    """
    found = _internal_kv_get("webui:url", namespace=KV_NAMESPACE_DASHBOARD)
    return found.decode() if found else ""


@dataclass(frozen=True)
class Placement:
    """How the actors of one cluster are placed.

    Attributes:
        namespace: Ray namespace; one cluster each.
        logs: how they write their logs.
    """

    namespace: str
    logs: LogConfig = DEFAULT_LOGS

    def actor(self, cls: type, name: str, node: str, *args: Any) -> Handle:
        """Start an actor of `cls` on the Ray node `node`. Returns at once; `verify` when it matters that it runs."""
        actor: Any = (
            ray.remote(cls)
            .options(
                name=PREFIX + name,
                namespace=self.namespace,
                lifetime="detached",
                num_cpus=ACTOR_CPUS,
                max_restarts=0,
                max_task_retries=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False),
            )
            .remote(name, *args)
        )
        return Handle(name, actor)

    async def verify(self, handle: Handle, node: str, timeout_s: float) -> dict[str, Any]:
        """Wait until the actor runs; returns its place.

        Raises:
            ActorGone: it did not start in time.
            LocalError: it runs on another node.
        """
        place = await handle.call("place", timeout_s=timeout_s)
        if place["node"] != node:
            raise LocalError(f"{handle.name} was to run on Ray node {node} but runs on {place['node']}")
        return place

    def find(self, name: str) -> Handle | None:
        """The actor of that name, or None."""
        try:
            return Handle(name, ray.get_actor(PREFIX + name, namespace=self.namespace))
        except ValueError:
            return None

    def supervisor(self) -> Handle | None:
        """The supervisor that came last, or None: an older one that was cut off may still have its name."""
        found = sorted((number_of_supervisor(name), name) for name in self.names() if is_supervisor(name))
        return self.find(found[-1][1]) if found else None

    def names(self) -> list[str]:
        """Peer names of this cluster's actors, as Ray knows them."""
        named: list[Any] = list_named_actors(all_namespaces=True)
        return [
            entry["name"][len(PREFIX) :]
            for entry in named
            if entry["namespace"] == self.namespace and entry["name"].startswith(PREFIX)
        ]

    def others(self) -> list[str]:
        """Other namespaces of this Ray in which a cluster runs."""
        named: list[Any] = list_named_actors(all_namespaces=True)
        found = {entry["namespace"] for entry in named if entry["name"].startswith(PREFIX + SUPERVISOR)}
        return sorted(found - {self.namespace})

    def sweep(self) -> list[str]:
        """Kill what an earlier cluster of this namespace left behind, except supervisors; returns the names."""
        left = [name for name in self.names() if not is_supervisor(name)]
        for name in left:
            if (handle := self.find(name)) is not None:
                handle.kill()
        return left

    def answering(self, nodes: list[str], timeout_s: float) -> set[str]:
        """Those of these Ray nodes that run a trifle when they are asked to, within the time. Blocks."""
        return set(self.ask_nodes(nodes, _trifle, timeout_s=timeout_s))

    def ask_nodes(self, nodes: list[str], question: Callable[..., Any], *args: Any, timeout_s: float) -> dict[str, Any]:
        """What a function returns on each of these Ray nodes; a node on which it does not end in time is left out.
        Blocks."""
        if not nodes:
            return {}
        asked: dict[ray.ObjectRef[Any], str] = {}
        for node in nodes:
            strategy = NodeAffinitySchedulingStrategy(node, soft=False)
            task: Any = ray.remote(question).options(num_cpus=0, max_retries=0, scheduling_strategy=strategy)
            asked[task.remote(*args)] = node
        ended, late = ray.wait(list(asked), num_returns=len(asked), timeout=timeout_s)
        for one in late:
            ray.cancel(one, force=True)
        found: dict[str, Any] = {}
        for one in ended:
            with suppress(RayError):
                found[asked[one]] = ray.get(one)
        return found

    def kill_process(self, node: str, pid: int) -> None:
        """End a process on another node for good: one that stands still does not hear Ray. Waits a little at most."""
        strategy = NodeAffinitySchedulingStrategy(node, soft=False)
        done: Any = ray.remote(_kill).options(num_cpus=0, max_retries=0, scheduling_strategy=strategy).remote(pid)
        if not ray.wait([done], timeout=KILL_S)[0]:
            ray.cancel(done, force=True)  # it must not run at some later time


def _trifle() -> None:
    """Ran where it was wanted."""


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
