"""A queue that has destroyed itself is deleted: each broker whose replica says so orders it, by the queue's id, so that
the first order counts and no newer queue of that name is meant."""

from __future__ import annotations

from ..wire.events import DeleteQueue
from .cluster_state import ClusterState
from .requests import Requests


class SelfDestruction:
    def __init__(self, cluster: ClusterState, requests: Requests) -> None:
        self._cluster = cluster
        self._requests = requests
        self._ordered: set[str] = set()  # ids of queues whose deletion is on its way

    def order(self, queue: str) -> None:
        """A replica says that the queue of that id destroys itself; it may say so again."""
        definition = self._cluster.wiring.by_id(queue)
        if definition is not None and queue not in self._ordered:
            self._ordered.add(queue)
            event = DeleteQueue(definition.name, id=queue)
            self._requests.order(event, lambda outcome: self._ordered.discard(queue))
