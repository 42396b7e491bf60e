"""Questions of a broker to its queue replicas, each kept until it is answered or can be no more.

A queue answers in the order of its stream, so one without a majority answers nothing: a question that changes nothing
is then given up, with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, NamedTuple

from ..errors import UNAVAILABLE, PeerError
from ..log.outbox import FollowerOutbox
from ..timing import DEFAULT_TIMING, Timing
from ..wire.events import Named
from ..wire.queue_frames import MoveOrder, QueueCommand, QueueReply
from ..wiring.definitions import QueueDefinition
from .cluster_state import ClusterState
from .fellows import Fellows

Asked = Callable[[dict[str, Any]], None]

STAT = "stat"
SENDER = "sender"
PURGE = "purge"
MOVE = "move"


class Question(NamedTuple):
    """To a queue's replica.

    Attributes:
        replica, queue: the replica that is asked, and the id of the queue it is asked about.
        what: `STAT`, which changes nothing, `SENDER`, `PURGE` or `MOVE`.
        since_ms: when it was asked. limit_ms: how long it may take; 0 for any time.
        then: told the answer, or an "error" with its "code".
    """

    replica: str
    queue: str
    what: str
    since_ms: int
    limit_ms: int
    then: Asked


class Questions:
    """Args:
    replica_of: queue id -> the replica that keeps it.
    stands_still: whether a queue, by its id, is known to have no majority at this time.

    Attributes:
        fellows: the other brokers, who are asked what they alone know.
    """

    fellows: Fellows

    def __init__(
        self,
        outbox: FollowerOutbox,
        cluster: ClusterState,
        replica_of: Mapping[str, str],
        stands_still: Callable[[str, int], bool],
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._timing = timing
        self._outbox = outbox
        self._cluster = cluster
        self._replica_of = replica_of
        self._stands_still = stands_still
        self._numbers = count(1)
        self._asked: dict[int, Question] = {}

    def ask(
        self, queue: QueueDefinition, what: str, argument: int, then: Asked, limit_ms: int = 0,
        move: MoveOrder | None = None,
    ) -> None:  # fmt: skip
        """Ask a queue's replica.

        Raises:
            PeerError: no replica keeps it here.
        """
        replica = self._replica_of.get(queue.id)
        if replica is None:
            raise PeerError(UNAVAILABLE, no_replica(queue))
        number = next(self._numbers)
        self._asked[number] = Question(replica, queue.id, what, self._outbox.now_ms, limit_ms, then)
        self._outbox.send(replica, QueueCommand(queue.id, number, what, argument, move))

    def begins(self, queue: QueueDefinition, sender: Named, then: Asked) -> None:
        """Have a named sender begin (`Named`)."""
        replica = self._replica_of.get(queue.id)
        if replica is None:
            then({"error": no_replica(queue), "code": UNAVAILABLE})
            return
        number, limit_ms = next(self._numbers), self._timing.question_ms
        self._asked[number] = Question(replica, queue.id, SENDER, self._outbox.now_ms, limit_ms, then)
        self._outbox.send(replica, QueueCommand(queue.id, number, SENDER, sender=sender))

    def look(self, queue: QueueDefinition, then: Asked) -> None:
        """Ask for a queue's report, for at most `Timing.question_ms`."""
        self.ask(queue, STAT, 0, then, self._timing.question_ms)

    def replied(self, frame: QueueReply) -> None:
        """A queue replica has answered."""
        question = self._asked.pop(frame.number, None)
        if question is not None:
            question.then(frame.value)

    def undeclared(self, queue: str, code: str, text: str) -> None:
        """A queue is gone: what was asked of it is not answered any more."""
        for number in [n for n, question in self._asked.items() if question.queue == queue]:
            self._asked.pop(number).then({"error": text, "code": code})

    def lost(self, replica: str) -> None:
        """A replica has died: what it was asked is not answered any more."""
        numbers = [n for n, question in self._asked.items() if question.replica == replica]
        self._fail(numbers, "the replica of queue {!r} has stopped: ask again")

    def overdue(self, now_ms: int) -> None:
        """Give up the questions that have waited for too long, and go on without brokers that do not answer."""
        self.fellows.overdue(now_ms)
        waits, slow = [], []
        for number, question in self._asked.items():
            for_ms = now_ms - question.since_ms
            if question.what == PURGE or for_ms < self._timing.question_waits_ms:
                continue
            if self._stands_still(question.queue, now_ms):
                waits.append(number)
            elif 0 < question.limit_ms <= for_ms:
                slow.append(number)
        self._fail(waits, "queue {!r} has no majority of its replicas and answers nothing: see `mantamq status`")
        limit_s = self._timing.question_ms // 1000
        self._fail(slow, f"queue {{!r}} has not answered for {limit_s} s: ask again, or see `mantamq status`")

    def _fail(self, numbers: list[int], text: str) -> None:
        """`text`: with the queue's name to be put in."""
        for number in numbers:
            question = self._asked.pop(number)
            definition = self._cluster.wiring.kept(question.queue)
            name = definition.name if definition is not None else question.queue
            question.then({"error": text.format(name), "code": UNAVAILABLE})


def no_replica(queue: QueueDefinition) -> str:
    return f"queue {queue.name!r} has no replica at this broker now: ask another broker"
