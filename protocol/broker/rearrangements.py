"""A broker's part in the change of queues by policies: it says in each queue's stream what has become of the queue.

Every broker that has applied the policy's event does so, behind all that it has sent to the queue as it was: the first
of these counts (`queue/arrangement.py`). So the queue changes whoever dies meanwhile, and what a broker sends to it as
it is now comes behind that.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..limits import DEFAULT, Limits
from ..wire.events import encode_event
from ..wire.policy_events import Configure
from ..wiring.arguments import OF_QUEUES
from ..wiring.definitions import QueueDefinition
from .cluster_state import ClusterState
from .requests import Requests
from .routing import in_requests


class Rearrangements:
    """Args: as those of the broker."""

    def __init__(self, cluster: ClusterState, requests: Requests, limits: Limits = DEFAULT) -> None:
        self._cluster = cluster
        self._requests = requests
        self._most_bytes = limits.request_bytes

    def tell(self, queues: Iterable[QueueDefinition]) -> None:
        """Those are otherwise now."""
        parts = [(queue.id, encode_event(self._configure(queue))) for queue in queues]
        for request in in_requests(parts, self._most_bytes):
            self._requests.request(request, lambda: None)

    def restored(self) -> None:
        """The wiring is another broker's, or an earlier life's, which may have said nothing."""
        self.tell(queue for queue in self._cluster.wiring.queues() if queue.changed)

    def _configure(self, queue: QueueDefinition) -> Configure:
        arguments = {name: value for name, value in queue.arguments.items() if name in OF_QUEUES}
        who, since = self._cluster.broker, queue.since
        return Configure(queue.changed, arguments, queue.alternate, who, since, queue.brokers)
