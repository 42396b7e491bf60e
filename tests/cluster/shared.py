"""One running cluster for all tests that need no more than a healthy one: starting it is most of what they would cost."""

from __future__ import annotations

import time

import psutil
import ray
from mantamq.actors.cluster import Cluster, start_cluster
from mantamq.actors.ray_control.local_ray import wait_gone
from mantamq.client import connect

GONE_S = 10.0
WHOLE_S = 30.0
MESSAGE_BYTES = 12 * 1024 * 1024
"""Not the default: each broker has to be told."""


class Shared:
    """Three brokers on a fresh local Ray. They start when somebody asks for them, and end when somebody is to be alone.

    Nothing that a test has done is there for the next one: its queues are deleted, and once processes had to be replaced
    the cluster is only for who needs no more than that it is whole.
    """

    def __init__(self) -> None:
        self._cluster: Cluster | None = None
        self._pids: dict[str, int] = {}
        self._hurt = False

    def get(self, healed: bool) -> Cluster:
        """The cluster: whole, and without a queue.

        Args:
            healed: whether its processes may be others than those it was started with.
        """
        if self._hurt and not healed:
            self.stop()
        if self._cluster is None:
            assert not ray.is_initialized(), "an earlier test left Ray running"
            self._cluster = start_cluster(brokers=3, max_message_bytes=MESSAGE_BYTES)
            self._pids = self._cluster.actor_pids()
            self._hurt = False
        return self._cluster

    def clean(self, hurt: bool) -> None:
        """Away with what a test has left behind.

        Args:
            hurt: whether it has had processes die: then the cluster is to be whole again, else they are to be there.
        """
        try:
            wrong = self._what_is_wrong(hurt)
        except BaseException:
            self.stop()
            raise
        if wrong:
            self.stop()
        assert not wrong, f"this test has left the cluster so: {'; '.join(wrong)}"

    def _what_is_wrong(self, hurt: bool) -> list[str]:
        cluster = self._cluster
        if cluster is None:
            return []
        with connect(list(cluster.addresses.values())) as connection:
            for queue in connection.queues():
                connection.delete_queue(queue["name"])
        until = time.monotonic() + WHOLE_S
        while (wrong := whole(cluster)) and time.monotonic() < until:
            time.sleep(0.05)
        self._hurt = self._hurt or hurt
        pids = cluster.actor_pids()
        if not self._hurt:
            wrong += [f"{name} is not the process it was" for name in self._pids if pids.get(name) != self._pids[name]]
        if sorted(cluster.refresh()) != ["b1", "b2", "b3"]:
            wrong.append(f"its brokers are {', '.join(cluster.addresses)}")
        return wrong

    def stop(self) -> None:
        """End the cluster, if there is one, and see that no process is left."""
        if self._cluster is None:
            return
        cluster, self._cluster = self._cluster, None
        pids = set(self._pids.values())
        try:
            pids.update(cluster.actor_pids().values())
        finally:
            cluster.stop()
        left = wait_gone(list(pids), GONE_S)
        assert not left, f"these of its processes are left: {left}"
        others = ray_children()
        assert not others, f"these of Ray's processes are left: {others}"


def whole(cluster: Cluster) -> list[str]:
    """What is wrong with it."""
    return cluster.health()["unhealthy"]


def ray_children() -> list[str]:
    """Ray processes below this one, after giving them a moment to leave."""
    until = time.monotonic() + GONE_S
    while True:
        left = [
            f"{child.pid} {child.name()}"
            for child in psutil.Process().children(recursive=True)
            if child.status() != psutil.STATUS_ZOMBIE and ("ray" in child.name() or "gcs" in child.name())
        ]
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.05)
