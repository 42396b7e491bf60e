"""A broker's part in the end of deleted queues whose messages go to their alternate exchange (`queue/dissolution.py`).

A broker that has applied the deletion routes nothing to the queue any more, and says so in the queue's stream, behind
all that it has sent there. Then it looks how the queue is, in the order of that stream, until all brokers have said so
and nothing is left; then it orders the end. Every broker does, the first of the voters at once and each next one later,
so it does not matter who has died. What an earlier life of a broker has said counts for later ones: these serve nobody
before they know of the deletion.

A broker that is out of the queue and says nothing is either gone, and its requests are refused, or has only lost its
replica, and is heard soon: after `Timing.dissolve_ms` it is not waited for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..errors import PeerError
from ..log.outbox import FollowerOutbox
from ..timing import DEFAULT_TIMING, Timing
from ..wire.deletion_events import Dissolve, Dissolved
from ..wire.events import AnyEvent, Lost, encode_event
from ..wiring.definitions import QueueDefinition
from ..wiring.wiring import Outcome
from .cluster_state import ClusterState
from .questions import Questions
from .requests import Requests

Counted = Callable[[int], object]
"""Told how many messages have gone, or go, to the alternate."""


class Dissolutions:
    """The deleted queues that are not empty yet, as one broker sees to them."""

    def __init__(
        self,
        outbox: FollowerOutbox,
        cluster: ClusterState,
        requests: Requests,
        questions: Questions,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._outbox = outbox
        self._cluster = cluster
        self._requests = requests
        self._questions = questions
        self._timing = timing
        self._since_ms: dict[str, int] = {}  # queue id -> since when this broker knows of it
        self._asked: set[str] = set()  # of which a look is under way
        self._ordered: set[str] = set()  # whose end is on its way
        self._short_ms: dict[str, int] = {}  # since when only brokers that are out have not said it
        self._counted: dict[str, int] = {}
        self._waiting: dict[str, list[Counted]] = {}

    def begun(self, queue: QueueDefinition) -> None:
        """The queue is deleted, and has to be emptied."""
        self._since_ms[queue.id] = self._outbox.now_ms

        def said() -> None:
            if queue.id in self._waiting:
                self._look(queue.id)

        self._requests.request([(queue.id, encode_event(Dissolve(self._cluster.broker)))], said)

    def restored(self) -> None:
        """The wiring is another broker's, or an earlier life's."""
        for queue in self._cluster.wiring.dissolving.snapshot():
            if queue.id not in self._since_ms:
                self.begun(queue)

    def applied(self, event: AnyEvent, outcome: Outcome) -> None:
        """An event of the cluster's stream has applied: perhaps a queue is gone."""
        if isinstance(event, Dissolved | Lost) and outcome.queue is not None:
            id = event.queue
            letters = event.letters if isinstance(event, Dissolved) else self._counted.get(id, 0)
            self._tell(id, letters)
            for known in (self._since_ms, self._short_ms, self._counted):
                known.pop(id, None)
            self._asked.discard(id)

    def count(self, id: str, then: Counted) -> None:
        """Call it when it is known how many messages of that deleted queue go to its alternate."""
        if id not in self._cluster.wiring.dissolving:
            then(self._counted.get(id, 0))
            return
        self._waiting.setdefault(id, []).append(then)
        self._look(id)

    def look(self, now_ms: int) -> None:
        """Called every beat: what is to be seen to?"""
        later_ms = self._cluster.rank * self._timing.auto_delete_rank_ms
        for id in self._cluster.wiring.dissolving:
            if id in self._waiting or now_ms >= self._since_ms.get(id, 0) + later_ms:
                self._look(id)

    def _look(self, id: str) -> None:
        queue = self._cluster.wiring.kept(id)
        if queue is None or id in self._asked:
            return
        self._asked.add(id)
        try:
            self._questions.look(queue, partial(self._seen, id))
        except PeerError:  # no replica of this broker keeps it now
            self._asked.discard(id)

    def _seen(self, id: str, report: dict[str, Any]) -> None:
        self._asked.discard(id)
        if not report.get("dissolved"):
            return  # it could not say, or nothing is set aside yet: at the next beat
        letters = self._counted[id] = report["dead_deleted"]
        self._tell(id, letters)
        left = report["messages"] or report["dead_lettering"]
        if not left and self._all_have_said(id, report) and id not in self._ordered:
            self._ordered.add(id)
            self._requests.order(Dissolved(id, letters), lambda outcome: self._ordered.discard(id))

    def _all_have_said(self, id: str, report: dict[str, Any]) -> bool:
        silent = set(self._cluster.voters) - set(report["dissolved"])
        if not silent:
            return True
        if silent - set(report["absent"]):
            self._short_ms.pop(id, None)
            return False
        return self._outbox.now_ms >= self._short_ms.setdefault(id, self._outbox.now_ms) + self._timing.dissolve_ms

    def _tell(self, id: str, letters: int) -> None:
        for then in self._waiting.pop(id, ()):
            then(letters)
