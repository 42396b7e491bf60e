"""The cluster under attack: started on one Ray node or on several, looked at from outside, and never trusted."""

from __future__ import annotations

import contextlib
import random
import re
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import ray
from mantamq.actors.cluster import Cluster, find_cluster, start_cluster
from mantamq.actors.ray_control.local_ray import kill_ray, wait_gone
from mantamq.actors.ray_control.placement import Placement
from mantamq.actors.ray_control.ray_handles import Handle
from mantamq.benchmarks.health import crew, unwell
from mantamq.client import Connection, MantaError, connect
from mantamq.protocol.errors import LocalError
from mantamq.protocol.status.cluster import ClusterStatus
from mantamq.protocol.status.members import OwnershipMember, ReplicaMember

from .closing import Closer
from .disks import Disks
from .nodes import Nodes
from .proxy import Proxies

LOOK_S = 0.2
GONE_S = 10.0
_NAMES = {
    "broker": re.compile(r"b\d+"),
    "replica": re.compile(r"b\d+\.r\d+"),
    "store": re.compile(r"b\d+\.store"),
    "sequencer": re.compile(r"sequencer.*"),
    "ownership": re.compile(r"ownership.*"),
    "supervisor": re.compile(r"supervisor.*"),
}


@dataclass
class World:
    """A running cluster and what is around it.

    Attributes:
        wanted: how many actors of each role a healthy cluster has at least.
        nodes: the Ray nodes, when there are several.
        proxies: before the brokers, when links are to be cut.
        disks: of the brokers' stores, when the cluster has such.
        closer: who closes clients' connections, in this round.
    """

    cluster: Cluster
    nodes: Nodes | None = None
    proxies: Proxies | None = None
    disks: Disks | None = None
    closer: Closer | None = None
    wanted: Mapping[str, int] = field(default_factory=dict[str, int])
    _addresses: dict[str, str] = field(default_factory=dict[str, str])

    @staticmethod
    def start(brokers: int, nodes: Nodes | None, proxied: bool, disks: Disks | None = None) -> World:
        """Start a cluster and wait until it is healthy.

        Raises:
            LocalError: it did not start.
        """
        # Detached: else Ray itself would end all actors with the supervisor that started them.
        stored: dict[str, Any] = {"data": str(disks.data)} if disks else {}
        cluster = start_cluster(brokers=brokers, address="auto" if nodes else "local", detached=True, **stored)
        world = World(cluster, nodes, disks=disks, _addresses=dict(cluster.addresses))
        if proxied:
            world.proxies = Proxies(sorted(cluster.addresses), lambda broker: world._addresses.get(broker, ""))
        counted = crew(cluster.report())
        # Warm queue replicas come and go; the others are what the cluster was started with.
        world.wanted = {role: count for role, count in counted.items() if role != "QueueReplica"}
        return world

    # ---- looking

    def status(self) -> ClusterStatus:
        """The cluster's report of itself.

        Raises:
            LocalError: nobody answers.
        """
        try:
            return self.cluster.report()
        except LocalError:
            self.cluster = find_cluster(namespace=self.cluster.namespace)  # its supervisor may be another by now
            return self.cluster.report()

    def unwell(self) -> list[str]:
        """The reasons why the cluster is not healthy."""
        try:
            status = self.status()
        except Exception as error:
            return [f"nobody tells its status: {error}"]
        self._addresses = dict(status.members) or self._addresses
        return unwell(status, self.wanted)

    def until_well(self, limit_s: float) -> list[str]:
        """Wait until the cluster is healthy; returns what it still lacks at the limit."""
        until = time.monotonic() + limit_s
        while (wrong := self.unwell()) and time.monotonic() < until:
            time.sleep(LOOK_S)
        return wrong

    def addresses(self) -> dict[str, str]:
        """Where clients connect to, by broker."""
        proxied = self.proxies.addresses if self.proxies else {}
        return {broker: proxied.get(broker, address) for broker, address in self._addresses.items()}

    def names(self, kind: str) -> dict[str, int]:
        """Names and process ids of the actors of a kind, as the cluster says."""
        pids = self.cluster.actor_pids()
        return {name: pid for name, pid in pids.items() if _NAMES[kind].fullmatch(name)}

    def busy_replicas(self) -> set[str]:
        """The queue replicas that carry queues."""
        return {actor.name for actor in self.status().actors if isinstance(actor, ReplicaMember) and actor.machine}

    def broker_nodes(self) -> Counter[str]:
        """Ids of the Ray nodes that carry brokers, and how many of the members each carries."""
        status = self.status()
        return Counter(actor.node for actor in status.actors if actor.name in status.members)

    def owners(self) -> set[str]:
        """The brokers that hold a consume lock now."""
        found = [actor.machine or {} for actor in self.status().actors if isinstance(actor, OwnershipMember)]
        return {queue.owner for queues in found for queue in queues.values() if queue.owner}

    def handle(self, name: str) -> Handle | None:
        return Placement(self.cluster.namespace).find(name)

    def connect(self, chance: random.Random, limit_s: float = 20.0) -> Connection:
        """A connection of the observer's own, to any broker, past the proxies.

        Raises:
            MantaError: no broker took it in time.
        """
        until = time.monotonic() + limit_s
        while True:
            addresses = list(self._addresses.values())
            chance.shuffle(addresses)
            try:
                return connect(addresses, timeout=5.0)
            except MantaError:
                if time.monotonic() > until:
                    raise
                time.sleep(LOOK_S)

    # ---- the power

    def power_off(self, seed: int) -> list[str]:
        """Everything stops at once, and the disks have what a power cut might have left; returns what was lost."""
        assert self.disks is not None
        kill_ray()
        return self.disks.cut(seed)

    def power_on(self) -> None:
        """Start the cluster again on the same disks.

        Raises:
            LocalError: it did not start.
        """
        assert self.disks is not None
        stored: dict[str, Any] = {"data": str(self.disks.data)}
        self.cluster = start_cluster(brokers=self.disks.brokers, address="local", detached=True, **stored)
        self._addresses = dict(self.cluster.addresses)

    # ---- ending

    def stop(self) -> list[int]:
        """End everything; returns the pids of actors that would not go."""
        pids: list[int] = []
        with contextlib.suppress(Exception):
            pids = list(self.cluster.actor_pids().values())
        if self.proxies:
            self.proxies.stop()
        with contextlib.suppress(Exception):
            self.cluster.stop()
        if self.nodes:
            self.nodes.stop()
        with contextlib.suppress(Exception):
            ray.shutdown()  # a cluster found again does not know that its Ray is ours
        if self.disks:
            wait_gone(pids, GONE_S)
            self.disks.remove()
        return wait_gone(pids, GONE_S)
