"""Policies come, change and go, in the middle of what goes on, and so do queues that get by their names what they say;
also queues that are there, with all that is in them. The wiring of every broker is compared with the model's
(`model_policies.py`), and each queue with a model that keeps to what its own stream says, so nothing is checked here."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from mantamq.client.management import _add_policy, _declare_queue, _delete_policy

from .users import Task

if TYPE_CHECKING:
    from .checkers import Watcher
    from .workload import Story

STORIES = 0.03
"""The share of stories with policies."""
RATE = 0.15
"""How often somebody puts, drops or tries one alone."""
MOST = 6
"""Of their queues at a time."""
PREFIX = "pz"
PATTERNS = (
    "^pz",
    "^pz[12]",
    "^pz.*[0-4]$",
    "z1|z2",
    "^pz(1|3|5)+$",
    "^none$",
    "^q",
    "^q1$",
    "[12]$",
    "q2|z3",
    "^q[^1]",
)
"""The names that begin with q are those of the story's own queues."""
OWN: tuple[dict[str, Any], ...] = ({}, {}, {"max_count": 20, "overflow": "ring"}, {"delivery_limit": 4})


class Policies:
    """Of one story; its choices are its own, so that they do not move those of others.

    Attributes:
        some: the story has any. asked: how many policies were asked for.
    """

    def __init__(self, watch: Watcher, seed: int) -> None:
        self._rng = random.Random(f"policies of {seed}")
        self.some = self._rng.random() < STORIES
        self.asked = 0
        self._watch = watch
        self._declared = 0

    def maybe(self, story: Story) -> None:
        rng = self._rng
        if not self.some or rng.random() >= RATE:
            return
        users = [user for user in story.users if user.opened and user.alive and user.reconnects]
        if not users:
            return
        user = rng.choice(users)
        there = [name for name in self._watch.wiring.ids if name.startswith(PREFIX)]
        name, operator = rng.choice("abc"), rng.random() < 0.3
        what = rng.random()
        if what < 0.3:
            self.asked += 1
            ask: Any = _add_policy(
                name, rng.choice(PATTERNS), rng.randrange(3), operator, "", **self._settings(operator)
            )
        elif what < 0.45:
            ask = _delete_policy(name, operator)
        elif len(there) < MOST:
            self._declared += 1
            queue = f"{PREFIX}{self._declared}" if rng.random() < 0.8 or not there else rng.choice(there)
            durable = story.declared_as(queue).get("durable", False)
            ask = _declare_queue(queue, durable, "", None, False, **rng.choice(OWN))
        else:
            story.client().command("delete_queue", name=rng.choice(there))
            return

        def begin() -> Task:
            yield from user.asked(ask)

        user.start(begin())

    def _settings(self, operator: bool) -> dict[str, Any]:
        rng = self._rng
        found: dict[str, Any] = {}
        if rng.random() < 0.6:
            found["max_count"] = rng.randrange(6, 40)
            if not operator and rng.random() < 0.7:
                found["overflow"] = rng.choice(["ring", "reject"])
        elif rng.random() < 0.3:
            found["max_size"] = rng.choice([300, 900, 4_000])
        if rng.random() < 0.25:
            found["message_ttl_s"] = rng.choice([0, 0.05, 0.5, 2])
        if not operator and rng.random() < 0.2:
            found["flow_stop_count"] = rng.randrange(1, 6)
        if not operator and rng.random() < 0.15:
            found["arguments"] = {"manta.retry_delay_s": rng.choice([[0.1], [0, 0.3]])}
        if rng.random() < 0.3 or not found:
            found["delivery_limit"] = rng.randrange(1, 9)
        return {"arguments": None} | found
