"""Which queues of a story have alerts, and what is told of them: each word is true, one replica speaks for all, and an
alert is over where the queue has been emptied."""

from __future__ import annotations

import random
import re
from typing import Any

from .checkers import Watcher
from .model import Violation
from .world import World

SHARE = 0.2
"""Of the stories in which queues may have alerts."""
SOME: tuple[dict[str, Any], ...] = (
    {"alert_count_up": 1}, {"alert_count_up": 4, "alert_count_down": 1}, {"alert_count_up": 10},
    {"alert_size_up": 500}, {"alert_count_up": 3, "alert_size_up": 300}, {"alert_age_up": 1},
)  # fmt: skip
NAMES = {
    "alert_count_up": ("qpid.alert_count_up", "qpid.alert_count"),
    "alert_size_up": ("qpid.alert_size_up", "qpid.alert_size"),
    "alert_count_down": ("qpid.alert_count_down",),
    "alert_age_up": ("manta.alert_age_up",),
    "alert_repeat_gap": ("qpid.alert_repeat_gap",),
}
WORD = re.compile(r"queue '(.*)': \D*([\d,]+) \w+.*, and alert_(\w+)_(up|down) is ([\d,]+)")


class AlertChoices:
    """Of one story; its choices are its own, so that they do not move those of others."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"alerts of {seed}")
        self._any = self._rng.random() < SHARE

    def some(self) -> dict[str, Any]:
        """Of a new queue; mostly none."""
        if not self._any or self._rng.random() < 0.4:
            return {}
        return self._rng.choice(SOME) | {"alert_repeat_gap": self._rng.choice((0, 0, 1))}


class Alerted:
    """Hears what is told.

    Attributes:
        words: (queue id, which level) -> (broker, "up" or "down"), in the order in which it was told.
    """

    def __init__(self, world: World, watch: Watcher, faulty: bool) -> None:
        self.words: dict[tuple[str, str], list[tuple[str, str]]] = {}
        self._world = world
        self._watch = watch
        self._faulty = faulty
        world.warned.append(self._warned)

    def _warned(self, name: str, text: str) -> None:
        found = WORD.fullmatch(text)
        if found is None:
            raise Violation(f"{name} tells what nobody can read: {text}")
        queue, level, what, way, threshold = found.groups()
        said, most = (int(number.replace(",", "")) for number in (level, threshold))
        if not (said >= most if way == "up" else said <= most):
            raise Violation(f"{name} tells an alert that is none: {text}")
        for id in self._world.machines[name].queues:
            if id.rpartition("#")[0] == queue:
                if (declared := self._threshold(id, what, way)) != most:
                    raise Violation(f"{name} tells an alert at {most}, {id} was declared with {declared}: {text}")
                self.words.setdefault((id, what), []).append((name.partition(".")[0], way))

    def _threshold(self, id: str, what: str, way: str) -> int:
        arguments = self._watch.models[id].arguments
        up = next(int(arguments[name]) for name in NAMES[f"alert_{what}_up"] if name in arguments)
        return up if way == "up" else int(arguments.get(f"qpid.alert_{what}_down", up // 2))

    def finish(self) -> None:
        for (id, what), words in self.words.items():
            model = self._watch.models.get(id)
            if model is None or id in self._watch.gone:
                continue
            speakers = {broker for broker, _ in words}
            if not model.out and len(speakers) > 1:
                raise Violation(f"{id}: {sorted(speakers)} tell its alerts, though nobody is out")
            ways = [way for _, way in words]
            if self._faulty:
                continue  # who spoke may have died before it could
            gap = int(model.arguments.get("qpid.alert_repeat_gap", 60))
            if not gap and not model.out and ways != ["up", "down"] * (len(ways) // 2) + ["up"] * (len(ways) % 2):
                raise Violation(f"{id}: alerts of its {what} are told as {ways}")
            if not model.live and ways[-1] == "up":
                raise Violation(f"{id}: nothing is in it, and nobody has told that the alert of its {what} is over")
