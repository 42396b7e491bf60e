"""Receivers of users that stop and start, in some of the stories: one that has stopped is sent nothing at any broker, has
given back what it had not fetched, and settles what it holds."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from .model import Violation

if TYPE_CHECKING:
    from .boxes import Inbox
    from .users import Task

STORIES = 0.4
"""The share of stories with such receivers."""
STOP, START = 0.1, 0.2
"""Of the turns of a receiver."""


class Stops:
    """Of one story; its choices are its own, so that a story without is as it was. `stopped`: how often one has."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"stops of {seed}")
        self._some = self._rng.random() < STORIES
        self.stopped = 0

    def turn(self, inbox: Inbox) -> bool:
        """Whether a receiver has used its turn for this."""
        core = inbox.core
        if not self._some or inbox.single or core is None:
            return False
        if inbox.silent:
            if self._rng.random() < START:
                start(inbox)
                return True
        elif not core.stopped and self._rng.random() < STOP:
            inbox.user.start(self._stop(inbox))
            return True
        return False

    def _stop(self, inbox: Inbox) -> Task:
        """As the drivers' `stop`."""
        core = inbox.core
        assert core is not None
        mark = core.stop()
        yield lambda: core.drained >= mark or core.failure is not None
        if core.failure is not None:
            return
        core.give_back()
        self.stopped += 1
        inbox.silent = True
        if inbox.settles and core.available:
            raise Violation(f"{inbox.user.name} has stopped {inbox.handle}, and keeps {core.available} from others")


def start(inbox: Inbox) -> None:
    """As the drivers' `start`."""
    assert inbox.core is not None
    inbox.silent = False
    if inbox.core.failure is None:
        inbox.core.start()


def nothing_comes(inbox: Inbox | None, what: str) -> None:
    """Neither a delivery nor a grant of credit while it is stopped."""
    if inbox is not None and inbox.silent:
        raise Violation(f"{inbox.user.name} has stopped {inbox.handle}: {what}")
