"""How consume locks have moved lately: who owned which queue before, seen from look to look."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

KEPT_S = 60.0
MOST = 1000


class LockMove(NamedTuple):
    """A lock was somewhere else at the look before.

    Attributes:
        time_s: when it was seen; Unix time in seconds.
        queue: name of the queue.
        before, owner: the brokers, "" for nobody.
        handovers: how often it went from broker to broker meanwhile: more than once where it came back or went on.
    """

    time_s: float
    queue: str
    before: str
    owner: str
    handovers: int


class LockMoves:
    """The moves of the last minute, the newest first, 1,000 at most."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, int]] = {}
        self._moves: deque[LockMove] = deque(maxlen=MOST)

    def take(self, queues: Iterable[Mapping[str, Any]], time_s: float) -> None:
        """A look at all queues: rows with id, name, owner, handovers."""
        known: dict[str, tuple[str, int]] = {}
        for queue in queues:
            owner, count = queue.get("owner", ""), queue.get("handovers", 0)
            known[queue["id"]] = owner, count
            before, counted = self._known.get(queue["id"], (owner, count))
            if (before, counted) != (owner, count):
                self._moves.appendleft(LockMove(time_s, queue["name"], before, owner, max(0, count - counted)))
        self._known = known
        while self._moves and self._moves[-1].time_s < time_s - KEPT_S:
            self._moves.pop()

    def lately(self, queue: str = "") -> list[LockMove]:
        """Of one queue, by its name, or of all."""
        return [move for move in self._moves if not queue or move.queue == queue]
