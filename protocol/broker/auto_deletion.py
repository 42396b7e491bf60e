"""A broker's part in the end of queues that nobody uses any more: it says that their time is over.

How long a queue has been left is for a clock to say. Every broker counts from when it knows that the last consumer has
gone, which is no earlier than that was ordered. The first of the voters orders the deletion when the time is over, and
each next one waits longer, in case those before it are gone; a broker that begins anew counts anew. The order names the
event with which the last consumer went: it has no effect once somebody has come again (`wiring/vacancies.py`).

A queue that goes only when it is empty is condemned first (`deletion.py`). Where something is in it, it is condemned
again when this broker's replica has said that nothing is any more.
"""

from __future__ import annotations

from typing import Any

from ..errors import NOT_EMPTY
from ..queue.settings import QueueSettings
from ..timing import Timing
from ..wire.events import DeleteQueue
from ..wire.queue_frames import Emptied
from ..wire.settings import read
from ..wire.version import KNOWS_AUTO_DELETE, KNOWS_LIFETIMES, KNOWS_TIMES
from ..wiring.definitions import QueueDefinition
from .cluster_state import ClusterState
from .deletion import Condition, Deletions
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
    """Args: deletions: of queues that go only when they are empty."""

    def __init__(self, cluster: ClusterState, requests: Requests, timing: Timing, deletions: Deletions) -> None:
        self._cluster = cluster
        self._requests = requests
        self._rank_ms = timing.auto_delete_rank_ms
        # (queue id, index of the event with which its last consumer, or its client, went) -> when this broker heard it
        self._heard_ms: dict[tuple[str, int], int] = {}
        self._ordered: set[tuple[str, int]] = set()  # whose deletion is on its way
        self._deletions = deletions
        self._full: set[tuple[str, int]] = set()  # that had something in them when they would have gone
        self._emptied: set[str] = set()  # ids of queues that are empty since, as far as is known here

    def look(self, now_ms: int) -> None:
        """Called every beat: is some queue's time over?"""
        waits, if_empty = self._cluster.wiring.left(), self._cluster.wiring.vacancies.waits_if_empty()
        if not waits and not if_empty and not self._heard_ms:
            return
        self._heard_ms = {left: self._heard_ms.get(left, now_ms) for left in (*waits, *if_empty)}
        self._full.intersection_update(if_empty)
        if self._cluster.versions.least < KNOWS_AUTO_DELETE:
            return  # such a member has come since
        later_ms = self._cluster.rank * self._rank_ms
        idle = self._cluster.wiring.idle.waits() if self._cluster.versions.least < KNOWS_TIMES else {}
        for left, wait_s in waits.items():
            if left in idle:
                continue  # such a member would keep it
            if now_ms >= self._heard_ms[left] + wait_s * 1000 + later_ms and left not in self._ordered:
                self._order(left)
        for left, wait_s in if_empty.items():
            if now_ms >= self._heard_ms[left] + wait_s * 1000 + later_ms and left not in self._ordered | self._full:
                self._ask(left)

    def _order(self, left: tuple[str, int]) -> None:
        id, since = left
        definition = self._cluster.wiring.by_id(id)
        if definition is not None:
            self._ordered.add(left)
            event = DeleteQueue(definition.name, id=id, vacant=since, aside=self._cluster.versions.sets_aside)
            self._requests.order(event, lambda outcome: self._ordered.discard(left))

    def _ask(self, left: tuple[str, int]) -> None:
        """Have it go if nothing is in it."""
        id, since = left
        definition = self._cluster.wiring.by_id(id)
        if definition is None or self._cluster.versions.least < KNOWS_LIFETIMES:
            return  # such a member would delete it with what is in it

        def answered(value: Any, code: str = "", text: str = "") -> None:
            self._ordered.discard(left)
            if code == NOT_EMPTY and id not in self._emptied:
                self._full.add(left)

        self._ordered.add(left)
        self._emptied.discard(id)
        self._deletions.ask(definition, Condition(True, True, since), answered)

    def emptied(self, peer: str, frame: Emptied) -> None:
        """A replica of this broker has nothing in that queue any more."""
        self._emptied.add(frame.queue)
        self._full = {left for left in self._full if left[0] != frame.queue}
