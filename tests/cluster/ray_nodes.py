"""Several Ray nodes on this machine. The one place that uses `ray.cluster_utils` (semi-private: Ray is pinned)."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any

import ray

os.environ.setdefault("RAY_worker_niceness", "0")
OBJECT_STORE_BYTES = 100 * 1024 * 1024


class RayNodes:
    """A Ray cluster of `count` raylets, joined by this process.

    Args:
        count: how many nodes, the head among them.
        resources: custom resources of each node after the head; the head has none.
    """

    def __init__(self, count: int, resources: dict[str, float] | None = None) -> None:
        from ray.cluster_utils import Cluster

        self._cluster = Cluster(
            initialize_head=True,
            head_node_args={
                "num_cpus": 2,
                "object_store_memory": OBJECT_STORE_BYTES,
                "include_dashboard": False,
            },
        )
        self.nodes: list[Any] = [self._cluster.head_node]
        for _ in range(count - 1):
            self.nodes.append(
                self._cluster.add_node(num_cpus=2, object_store_memory=OBJECT_STORE_BYTES, resources=resources or {})
            )
        ray.init(address=self._cluster.address, logging_level="ERROR", log_to_driver=False)

    @property
    def ids(self) -> list[str]:
        """Ray node ids, the head's first."""
        return [node.node_id for node in self.nodes]

    def kill(self, index: int) -> None:
        """Kill a node's processes and reap them (an unreaped raylet would keep its workers alive)."""
        self._cluster.remove_node(self.nodes.pop(index), allow_graceful=False)

    def __enter__(self) -> RayNodes:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ray.shutdown()
        self._cluster.shutdown()
