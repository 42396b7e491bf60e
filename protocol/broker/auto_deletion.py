"""A broker's part in the end of queues that nobody uses any more: it says that their time is over.

How long a queue has been left is for a clock to say. Every broker counts from when it knows that the last consumer has
gone, which is no earlier than that was ordered. The first of the voters orders the deletion when the time is over, and
each next one waits longer, in case those before it are gone; a broker that begins anew counts anew. The order names the
event with which the last consumer went: it has no effect once somebody has come again (`wiring/vacancies.py`).
"""

from __future__ import annotations

from ..queue.settings import QueueSettings
from ..timing import Timing
from ..wire.events import DeleteQueue
from ..wire.settings import read
from ..wire.version import KNOWS_AUTO_DELETE, KNOWS_TIMES
from ..wiring.definitions import QueueDefinition
from .cluster_state import ClusterState
from .requests import Requests

IDLE = "was deleted, as nobody had used it for long enough (expires_s)"
VACANT = "was deleted, as its last consumer had gone and none had come again in time (auto_delete)"
PARTED = "was deleted, as the connection that had it for itself (exclusive) was over"


def why_gone(definition: QueueDefinition) -> str:
    """Why a queue went by itself, for its clients."""
    settings = read(QueueSettings, definition.arguments)
    if definition.client:
        return PARTED
    return VACANT if settings.auto_delete and not settings.expires_ms else IDLE


class AutoDeletion:
    def __init__(self, cluster: ClusterState, requests: Requests, timing: Timing) -> None:
        self._cluster = cluster
        self._requests = requests
        self._rank_ms = timing.auto_delete_rank_ms
        # (queue id, index of the event with which its last consumer, or its client, went) -> when this broker heard it
        self._heard_ms: dict[tuple[str, int], int] = {}
        self._ordered: set[tuple[str, int]] = set()  # whose deletion is on its way

    def look(self, now_ms: int) -> None:
        """Called every beat: is some queue's time over?"""
        waits = self._cluster.wiring.left()
        if not waits and not self._heard_ms:
            return
        self._heard_ms = {left: self._heard_ms.get(left, now_ms) for left in waits}
        if self._cluster.versions.least < KNOWS_AUTO_DELETE:
            return  # such a member has come since
        later_ms = self._cluster.rank * self._rank_ms
        idle = self._cluster.wiring.idle.waits() if self._cluster.versions.least < KNOWS_TIMES else {}
        for left, wait_s in waits.items():
            if left in idle:
                continue  # such a member would keep it
            if now_ms >= self._heard_ms[left] + wait_s * 1000 + later_ms and left not in self._ordered:
                self._order(left)

    def _order(self, left: tuple[str, int]) -> None:
        id, since = left
        definition = self._cluster.wiring.by_id(id)
        if definition is not None:
            self._ordered.add(left)
            event = DeleteQueue(definition.name, id=id, vacant=since, aside=self._cluster.versions.sets_aside)
            self._requests.order(event, lambda outcome: self._ordered.discard(left))
