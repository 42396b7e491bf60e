"""Queues without a name: each command makes one queue, whose name its user hears, whatever breaks meanwhile."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from mantamq.client.management import _declare_queue

from .model import Violation
from .users import Task, User

if TYPE_CHECKING:
    from .checkers import Watcher
    from .workload import Story

STORIES = 0.2
"""The share of stories with such queues."""
RATE = 0.03
"""How often one is declared."""
CUT = 0.4
"""How likely the line of its user breaks just then."""
MADE = "manta.gen-"


class MadeNames:
    """Of one story; its choices are its own, so that they do not move those of others.

    Attributes:
        some: the story has any.
        asked: how often one was asked for. told: the names that users have heard.
    """

    def __init__(self, watch: Watcher, seed: int) -> None:
        self._rng = random.Random(f"made names of {seed}")
        self.some = self._rng.random() < STORIES
        self.asked = 0
        self.told: list[str] = []
        self._watch = watch

    def maybe(self, story: Story) -> None:
        if self.some and self._rng.random() < RATE:
            users = [user for user in story.users if user.opened and user.alive and user.reconnects]
            if users:
                user = self._rng.choice(users)
                self.asked += 1
                user.start(self._declare(user, f"{self._rng.getrandbits(128):032x}"))
                if self._rng.random() < CUT:
                    user.world.after(self._rng.randrange(20_000), user.cut)

    def _declare(self, user: User, fresh: str) -> Task:
        name = yield from user.asked(_declare_queue("", False, "", None, False, fresh))
        if name is not None:
            self._hears(user, name["name"])

    def _hears(self, user: User, name: str) -> None:
        if not name.startswith(MADE) or name in self.told:
            raise Violation(f"{user.name} hears that its queue is {name!r}, and others have heard {self.told}")
        self.told.append(name)
        if name not in self._watch.wiring.ids:
            raise Violation(f"{user.name} hears that its queue is {name!r}, which is not there")

    def finish(self, others: set[str]) -> None:
        """At rest: there are no more than were asked for, and no other was made. Args: others: for answers."""
        made = [name for name in self._watch.wiring.every if name.startswith(MADE) and name not in others]
        if len(made) > self.asked:
            raise Violation(f"{self.asked} queues without a name were asked for, and {len(made)} were made: {made}")
