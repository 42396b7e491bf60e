"""Which queues of a story are of another kind than plain, and in whose words they are declared."""

from __future__ import annotations

import random
from typing import Any

RINGS = 0.4
"""The share of stories in which queues may be rings."""
LIMITS: tuple[dict[str, int], ...] = (
    {"count": 1}, {"count": 3}, {"count": 20}, {"size": 300}, {"size": 2_000}, {"count": 20, "size": 1_500},
)  # fmt: skip
NAMES = {"count": ("qpid.max_count", "x-max-length"), "size": ("qpid.max_size", "x-max-length-bytes")}
POLICIES = (("qpid.policy_type", "ring"), ("x-overflow", "drop-head"))


class Kinds:
    """Of one story; its choices are its own, so that they do not move those of others."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"kinds of {seed}")
        self._rings = self._rng.random() < RINGS

    def limits(self) -> dict[str, int]:
        """Of a new queue; empty: it has none."""
        return self._rng.choice(LIMITS) if self._rings and self._rng.random() < 0.5 else {}

    def spelled(self, limits: dict[str, int]) -> dict[str, Any]:
        """Arguments for a queue with these limits, in Qpid's words, in RabbitMQ's, or in some of both."""
        rng, arguments = self._rng, dict[str, Any]()
        for what, most in limits.items():
            name = rng.choice(NAMES[what])
            arguments[name] = rng.choice([most, str(most)])
        if limits and (not any(name.startswith("x-") for name in arguments) or rng.random() < 0.5):
            policy, value = rng.choice(POLICIES)
            arguments[policy] = value
        return arguments

    def typed(self, limits: dict[str, int]) -> dict[str, Any]:
        """The same as keywords of the client."""
        typed: dict[str, Any] = {f"max_{what}": most for what, most in limits.items()}
        return typed | ({"overflow": "ring"} if limits else {})
