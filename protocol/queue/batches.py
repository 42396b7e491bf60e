"""The messages of a queue that are on their way to its alternate exchange: batches, and why each is on its way.

A message leaves a queue for its alternate for one of five causes; the words of four are RabbitMQ's. What becomes of it
then is the same for all: its place is kept until its copies are committed elsewhere (`sequencer.md` section 3), and any
replica can finish what another began, since a batch is known by the index of the event that set it aside.
"""

from __future__ import annotations

from typing import Any

from .moves import MoveProgress, MoveTarget, QueueMoves
from .snapshot import QueueSnapshot

REJECTED, EXPIRED, DELIVERY_LIMIT, MAXLEN = "rejected", "expired", "delivery_limit", "maxlen"
"""A consumer has rejected it; its time is over; it came back too often; the queue had no room for it any more."""
DELETED = "deleted"
"""Its queue was deleted."""
NOBODY = ""
"""As a batch's broker: no event says who sees to it (`replica/seeing_to.py`)."""


class Batches(dict[int, tuple[str, list[int]]]):
    """Index of the event that set them aside -> the broker that sees to the copies, and their ranges. Part of a queue's
    replicated state.

    Attributes:
        died: cause -> how many messages were set aside for it since the queue was declared; of those that nobody has
            rejected.
        dissolved: the brokers that know that the queue is deleted, in order; none: it is not.
        moves: how far moves are, and where their batches go.
    """

    __slots__ = ("_causes", "died", "dissolved", "moves")

    def __init__(self, batches: dict[int, tuple[str, list[int]]] | None = None) -> None:
        super().__init__(batches or {})
        self._causes: dict[int, str] = {}  # of those that nobody has rejected
        self.died: dict[str, int] = {}
        self.dissolved: list[str] = []
        self.moves = QueueMoves()

    @classmethod
    def of(cls, snapshot: QueueSnapshot) -> Batches:
        batches = cls({index: (broker, ranges) for index, broker, ranges in snapshot.batches})
        batches._causes, batches.died = dict(snapshot.causes), dict(snapshot.died)
        batches.dissolved = list(snapshot.dissolved)
        targets = {index: MoveTarget(*target) for index, *target in snapshot.move_targets}
        batches.moves = QueueMoves({token: MoveProgress(*stands) for token, *stands in snapshot.moves}, targets)
        return batches

    def told(self) -> dict[str, Any]:
        """The fields of a `QueueSnapshot` that `of` reads."""
        batches = [(index, *batch) for index, batch in self.items()]
        causes, died = list(self._causes.items()), sorted(self.died.items())
        targets = [(index, *target) for index, target in self.moves.targets.items()]
        moves = [(token, *stands) for token, stands in self.moves.items()]
        told = {"batches": batches, "causes": causes, "died": died, "dissolved": list(self.dissolved)}
        return told | {"move_targets": targets, "moves": moves}

    def begin(self, index: int, broker: str, ranges: list[tuple[int, int]], cause: str = REJECTED) -> None:
        """Event `index` sets messages aside; more of them, if it has before."""
        if not ranges:
            return
        self[index] = broker, [*self.get(index, (broker, []))[1], *(edge for part in ranges for edge in part)]
        if cause != REJECTED:
            self._causes[index] = cause
            self.died[cause] = self.died.get(cause, 0) + sum(last - first + 1 for first, last in ranges)

    def cause(self, index: int) -> str:
        """Why the messages of a batch are on their way."""
        return self._causes.get(index, REJECTED)

    def end(self, index: int) -> list[int]:
        """Its copies are there. Returns its ranges; none, if there is no such batch."""
        self._causes.pop(index, None)
        return self.pop(index, (NOBODY, []))[1]
