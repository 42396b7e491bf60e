"""Which stories have exchanges of more kinds, what is bound to them, and who sends to them.

What comes by them is judged as what comes by others: `deliveries.py` knows what must be in a queue, `alternates.py` what may.
"""

from __future__ import annotations

import random

from mantamq.client.management import _bind, _declare_exchange

from .users import User

SHARE = 0.35
"""Of the stories."""
MARKED = "marked"
"""A headers exchange that looks at headers which begin with x-, too."""
FIXED = frozenset((MARKED,))
"""Exchanges whose bindings stay as they are."""
SENT_TO: tuple[tuple[str, str | None], ...] = ((MARKED, ""), (MARKED, None))


class Exchanges:
    """Of one story; its choices are its own, so that they do not move those of others."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"exchanges of {seed}")
        self.some = self._rng.random() < SHARE

    def declare(self, user: User, queues: list[str]) -> None:
        if not self.some:
            return
        user.ask(_declare_exchange(MARKED, "headers", False, "", None, False))
        user.ask(_bind(MARKED, queues[1], "", {"x-match": "all-with-x", "x-d": "x", "c": 1}))
        user.ask(_bind(MARKED, queues[-1], "2", {"x-match": "any-with-x", "x-d": "y", "d": "x"}))

    def senders(self, user: User) -> None:
        """Of a user who has no other."""
        for exchange, key in self._rng.sample(SENT_TO, 2):
            user.sender(exchange, key, self._rng.choice([1, 5, 50]), mandatory=self._rng.random() < 0.3)
