"""In some stories the processes of a broker have more memory than they may, for a while: flow control is on for that
broker meanwhile, and as long as they have not come down to nine tenths of it.

Where nothing breaks it is judged how soon; everywhere, that it is off in the end (`flows.py`).
"""

from __future__ import annotations

import random

from mantamq.protocol.limits import DEFAULT
from mantamq.protocol.machine import Measured, broker_of
from mantamq.protocol.wire import events

from .checkers import Watcher
from .flows import Flows
from .model import Violation
from .world import World

SHARE = 0.1
"""The share of stories in which that happens."""
MIB = 1024 * 1024
WATERMARK_BYTES = 1_000 * MIB
BEAT_US = 20_000
SOON_US = 200_000
LEVELS = {"low": (300, 600), "between": (920, 990), "high": (1_100, 3_000)}
"""What all processes of a broker have together, in MiB."""


def drawn(seed: int) -> int:
    """The watermark of a story; 0: none, for nobody measures."""
    return WATERMARK_BYTES if random.Random(f"memory of {seed}").random() < SHARE else 0


class Memories:
    """
    Args:
        judged: nothing breaks in this story.

    Attributes:
        raised: how often a broker's processes had too much; looked: at so many beats that was judged.
    """

    def __init__(self, world: World, watch: Watcher, flows: Flows, seed: int, judged: bool) -> None:
        self.world = world
        self.watch = watch
        self.flows = flows
        self.raised = self.looked = 0
        self._rng = random.Random(f"levels of {seed}")
        self._judged = judged
        self._calm = False
        self._levels: dict[str, int] = {}  # broker -> what its processes have, in MiB
        self._should: dict[str, tuple[bool, int]] = {}  # broker -> whether it has too much, since when
        if world.limits.memory_bytes:
            flows.crowded = lambda broker: self._should.get(broker, (False, 0))[0]
            world.after(BEAT_US, self._beat)

    def calm(self) -> None:
        """From here on all have little."""
        self._calm = True
        self._levels = dict.fromkeys(self._levels, 300)

    def _beat(self) -> None:
        rng, world = self._rng, self.world
        if not self._calm and rng.random() < 0.1:
            broker = rng.choice(sorted(world.brokers))
            self._levels[broker] = rng.randrange(*LEVELS[rng.choice(["low", "between", "high"])])
        for broker in sorted(world.brokers):
            total = self._levels.get(broker, 300)
            names = [name for name in sorted(world.machines) if broker_of(name) == broker and name != broker]
            names = [name for name in names if not name.endswith(".store")]
            own = total // 3 if names else total
            for place, name in enumerate(names):
                rest = total - own
                share = rest // len(names) + (rest % len(names) if place == 0 else 0)
                world.give(name, Measured(share * MIB, 0))
            if broker in world.machines:
                world.give(broker, Measured(own * MIB, 0))
            self._judge(broker, total)
        world.after(BEAT_US, self._beat)

    def _judge(self, broker: str, total: int) -> None:
        world = self.world
        too_much, since_us = self._should.get(broker, (False, world.now_us))
        now = total > 1_000 or (too_much and total >= 900)
        if now != too_much or broker not in self._should:
            self.raised += now
            self._should[broker] = now, world.now_us
            return
        member = broker in self.watch.voters.get(events.CLUSTER, ()) and broker not in world.leaving
        if not self._judged or not member or world.now_us - since_us < SOON_US:
            return
        self.looked += 1
        on = broker in self.flows.on(self.watch.commits.get(events.CLUSTER, 0))
        if too_much and not on:
            raise Violation(f"{broker} has {total} MiB since {since_us} us, and flow control is not on for it")
        if on and not too_much and world.limits.backlog_bytes == DEFAULT.backlog_bytes:
            raise Violation(f"{broker} has {total} MiB since {since_us} us, and flow control is on for it")
