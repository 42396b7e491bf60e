"""How far the moves of a queue are, and where their batches go: a part of its state (`move_rules.py`)."""

from __future__ import annotations

from typing import NamedTuple

MOVED = "moved"
"""As a batch's cause."""
KEPT = 64
"""Of so many moves a queue knows how far they are; the one that went on longest ago is forgotten first."""


class MoveTarget(NamedTuple):
    """Where a batch goes on to: fields of `Move`."""

    token: str
    exchange: str
    key: str
    by: str


class MoveProgress(NamedTuple):
    """How far a move is. Attributes: after, it stands behind that position; last, as in `Move`; taken, so many messages
    have been set aside, or discarded; back, so many of them have returned."""

    after: int
    last: int
    taken: int = 0
    back: int = 0


class QueueMoves(dict[str, MoveProgress]):
    """Token of a move -> how far it is, the one that went on last behind all others. Part of a queue's state.

    Attributes:
        targets: index of a batch of moved messages -> where it goes.
    """

    def __init__(
        self, moves: dict[str, MoveProgress] | None = None, targets: dict[int, MoveTarget] | None = None
    ) -> None:
        super().__init__(moves or {})
        self.targets = targets or {}

    def note(self, token: str, progress: MoveProgress) -> None:
        self.pop(token, None)
        self[token] = progress
        if len(self) > KEPT:
            del self[next(iter(self))]

    def under_way(self, token: str) -> int:
        """How many batches of a move are on their way."""
        return sum(target.token == token for target in self.targets.values())
