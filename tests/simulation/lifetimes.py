"""Queues whose messages live so long and no longer, whatever their senders say: which there are, and that what is over goes
in time, wherever it is in its queue."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from .model import ModelQueue, Violation

if TYPE_CHECKING:
    from .checkers import Watcher
    from .world import World

STORIES = 0.25
"""The share of stories with such queues."""
QUEUES = 0.5
"""Of their queues."""
TTLS_MS = (0, 1, 20, 200, 1_000)
LATE_MS = 2_000
"""Where nothing else happens, what is over is gone after that."""


class LifetimeChoices:
    """Of one story; its choices are its own, so that they do not move those of others."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"lifetimes of {seed}")
        self._any = self._rng.random() < STORIES

    def some(self, kind: dict[str, Any]) -> dict[str, Any]:
        """A queue's kind, with a time to live perhaps."""
        if self._any and self._rng.random() < QUEUES:
            return kind | {"message_ttl_ms": self._rng.choice(TTLS_MS)}
        return kind


def in_seconds(kind: dict[str, Any]) -> dict[str, Any]:
    """As a client's user says it."""
    return {
        f"{what.removesuffix('_ms')}_s" if what.endswith("_ms") else what: value / 1000
        if what.endswith("_ms")
        else value
        for what, value in kind.items()
    }


def same_expiry(where: str, state: Any, model: ModelQueue) -> None:
    """A machine's messages expire when the model's do, those that are not dead yet."""
    alive = {position for position in model.live if model.place[position] != "dead_lettering"}
    wanted = {position: ends_ms for position, ends_ms in model.expiry.items() if position in alive}
    if (found := {position: ends_ms for position, ends_ms in state.expiry.items() if position in alive}) != wanted:
        differ = [p for p in sorted(found.keys() | wanted.keys()) if found.get(p) != wanted.get(p)][:5]
        told = {p: (found.get(p), wanted.get(p)) for p in differ}
        raise Violation(f"{where}: position -> when it expires (machine, model): {told}")


class Lifetimes:
    """What is over by its queue's own time has gone.

    Attributes:
        judged: messages that were over when everybody had come to rest.
    """

    def __init__(self, world: World, watch: Watcher) -> None:
        self._world, self._watch = world, watch
        self.judged = 0

    def over(self) -> bool:
        """At rest: no message waits that is over for long."""
        return not self._late(LATE_MS)

    def _late(self, by_ms: int) -> list[tuple[str, int]]:
        now_ms = self._world.now_us // 1000
        late = [
            (model.id, position)
            for model in self._watch.models.values()
            if model.id not in self._watch.gone
            for position in model.live
            if model.place[position] == "available" and model.expiry.get(position, now_ms) + by_ms < now_ms
        ]
        return late

    def finish(self) -> None:
        """Each message that lives on in such a queue is one that may."""
        now_ms = self._world.now_us // 1000
        for model in self._watch.models.values():
            if model.lives is None or model.id in self._watch.gone:
                continue
            self.judged += sum(how == "expired" for how in model.place.values()) + len(model.expired)
            for position in model.live:
                if model.place[position] == "available" and model.came[position] + model.lives + LATE_MS < now_ms:
                    raise Violation(f"{model.id}: {position} came at {model.came[position]}, and waits at {now_ms}")
