"""Queues that end consumers which hold a message for too long: none is ended before, and none holds one for longer."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, NamedTuple

from mantamq.protocol.wire.queue_frames import Deliver, HeldTooLong, Settle

from .model import Violation, each, each_run

if TYPE_CHECKING:
    from .checkers import Watcher
    from .world import World

STORIES = 0.2
"""The share of stories with such queues."""
QUEUES = 0.6
"""Of the queues that may go at any time, in those."""
TIMEOUTS_MS = (50, 200, 1_000)
LATE_US = 2_000_000
"""Where nothing else happens, who holds a message for too long is ended after that."""
SLACK_US = 1_000
"""Machines count milliseconds."""


class TimeoutChoices:
    """Of one story; its choices are its own, so that they do not move those of others."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"timeouts of {seed}")
        self._any = self._rng.random() < STORIES

    def some(self, kind: dict[str, Any], fleeting: bool) -> dict[str, Any]:
        """A queue's kind, with a time-out of its consumers perhaps."""
        if fleeting and self._any and self._rng.random() < QUEUES:
            return kind | {"consumer_timeout_ms": self._rng.choice(TIMEOUTS_MS)}
        return kind


class _Given(NamedTuple):
    """What a replica has given out, and when."""

    queue: str
    acquisition: int
    positions: list[int]
    at_us: int


class Timeouts:
    """Attributes: ended: consumers that were ended."""

    def __init__(self, world: World, watch: Watcher) -> None:
        self._world, self._watch = world, watch
        self._given: dict[tuple[str, int], list[_Given]] = {}  # (replica, consumer) -> what, oldest first
        self._settled: dict[tuple[str, int], set[tuple[int, int]]] = {}  # what it has heard of, (acquisition, position)
        self.ended = 0
        world.watch(sent={Deliver: self._gives, HeldTooLong: self._ends}, arrived={Settle: self._settles})

    def _allowed_us(self, queue: str) -> int:
        """How long a consumer of a queue may hold a message; 0: for ever."""
        model = self._watch.models.get(queue)
        return 0 if model is None else int(model.arguments.get("x-consumer-timeout", 0)) * 1_000

    def _gives(self, source: str, target: str, frame: Deliver) -> None:
        if frame.acquisition and self._allowed_us(frame.queue):
            given = _Given(frame.queue, frame.acquisition, each(frame.ranges), self._world.now_us)
            self._given.setdefault((source, frame.sub), []).append(given)

    def _settles(self, source: str, target: str, frame: Settle) -> None:
        if (target, frame.sub) in self._given:
            self._settled.setdefault((target, frame.sub), set()).update(each_run(frame.runs))

    def _ends(self, source: str, target: str, frame: HeldTooLong) -> None:
        self.ended += 1
        until_us = self._world.now_us - self._allowed_us(frame.queue) + SLACK_US
        settled = self._settled.get((source, frame.sub), set())
        for given in self._given.get((source, frame.sub), ()):
            held = {(given.acquisition, position) for position in given.positions}
            if given.at_us <= until_us and held - settled:
                return
        raise Violation(
            f"{source} has consumer {frame.sub} of {frame.queue} ended, and it has held nothing for so long"
        )

    def over(self) -> bool:
        """At rest: nobody holds anything for longer."""
        for (replica, sub), parts in self._given.items():
            machine = self._world.machines.get(replica)
            for given in parts if machine is not None else ():
                hosted = machine.queues.get(given.queue)
                subscription = hosted.dispatcher.subscriptions.get(sub) if hosted is not None else None
                if subscription is not None and given.acquisition in subscription.held:
                    if self._world.now_us > given.at_us + self._allowed_us(given.queue) + LATE_US:
                        return False
        return True
