"""Queues that go when nobody has used them for long: as those of `auto_deletes.py`, and from their declaration on, and each
declaration is a use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mantamq.client.management import _declare_queue

from .auto_deletes import AutoDeletes
from .users import Task

if TYPE_CHECKING:
    from .workload import Story

STORIES = 0.25
"""The share of stories with such queues."""
AGAIN = 0.05
"""How often one is declared again."""
EXPIRE_S = (0.2, 0.5, 1, 2)


class IdleQueues(AutoDeletes):
    """Of one story."""

    what, prefix = "idle queues", "te"

    def _share(self) -> float:
        return STORIES

    def _typed(self) -> dict[str, Any]:
        # By its name each has its time: whoever declares it again says the same.
        return {"expires_s": EXPIRE_S[self._declared % len(EXPIRE_S)]}

    def _left(self) -> dict[str, int]:
        return self._watch.wiring.unused

    def _waits_us(self, arguments: dict[str, Any]) -> int:
        return arguments["x-expires"] * 1_000

    def maybe(self, story: Story) -> None:
        super().maybe(story)
        here = [name for name in self._names if name in self._watch.wiring.ids]
        if self.some and here and self._rng.random() < AGAIN:
            self._again(story, self._rng.choice(here))

    def _again(self, story: Story, name: str) -> None:
        user, more = story.user(True), story.declared_as(name)
        expires_s = EXPIRE_S[int(name.removeprefix(self.prefix)) % len(EXPIRE_S)]
        ask = _declare_queue(name, more.get("durable", False), "", None, False, expires_s=expires_s)

        def begin() -> Task:
            yield lambda: user.opened or user.over
            if not user.over:
                yield from user.asked(ask)

        user.start(begin())
