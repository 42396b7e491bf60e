"""Messages that are delayed, by their senders and by those who give them back, in half of the stories: none is given out
early, each becomes available once, and all do in time once the cluster is left alone.

What is delayed, and until when, is read off the committed log here; who says it is compared with what was put by
`ledger.py`. A broker that is out, or lags, may give out what another has put off since: it is judged by what it has applied.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from mantamq.protocol.wire import events
from mantamq.protocol.wire.queue_frames import Deliver

from .checkers import Watcher
from .model import ModelQueue, Violation, each

if TYPE_CHECKING:
    from .world import World

STORIES = 0.5
"""The share of stories with such messages."""
SENT, BACK = 0.15, 0.3
"""Of what users send, and of what they would release, in these."""
RETRYING = 0.3
"""The share of stories in which some queues have what comes back wait."""
RISING = 0.5
"""Of those, that wait longer by the same each time, with a bound or without."""
NAMES = {
    "retry_delay_s": "manta.retry_delay_s",
    "retry_delay_min_ms": "x-delayed-retry-min",
    "retry_delay_max_ms": "x-delayed-retry-max",
}
TIMES_MS = (0, 1, 20, 200, 200, 1_000, 3_000)
STALE_MS = 60_000
"""What is said of the present is not older when it is committed."""
LATE_MS = 1_000
"""When all is well and queues have consumers, each is available so long after it is due at the latest."""


class Delays:
    """Of one story; its choices are its own, so that a story without is as it was."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"delays of {seed}")
        self._some = self._rng.random() < STORIES

    def sent(self, now_ms: int) -> tuple[int, bool] | None:
        """For how many ms a message waits, or until when since the epoch; None: it is not delayed."""
        rng = self._rng
        if not self._some or rng.random() > SENT:
            return None
        ms = rng.choice(TIMES_MS)
        return (now_ms + ms, True) if rng.random() < 0.3 else (ms, False)

    def back(self) -> int:
        """For how many ms a message that is released waits."""
        rng = self._rng
        return rng.choice(TIMES_MS) if self._some and rng.random() < BACK else 0


class Retries:
    """Which queues have what comes back wait, in some of the stories; their choices move nobody's."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"retries of {seed}")
        self._some = self._rng.random() < RETRYING
        self._rises = random.Random(f"retries of {seed} that wait longer by the same each time")

    def some(self) -> dict[str, Any]:
        if not self._some or self._rng.random() < 0.5:
            return {}
        if self._rises.random() < RISING:
            most = self._rises.choice([{}, {"retry_delay_max_ms": 300}, {"retry_delay_max_ms": 120}])
            return {"retry_delay_min_ms": self._rises.choice([20, 100])} | most
        return {"retry_delay_s": self._rng.choice([[0.05], [0, 0.2], [0.02, 0.3, 1], [1]])}


class Due:
    """When messages are due. Attributes: judged (deliveries of such as were delayed), calm_ms (since when all is well)."""

    def __init__(self, world: World, watch: Watcher) -> None:
        self.judged, self.calm_ms = 0, 1 << 60
        self._world = world
        self._watch = watch
        # (queue id, position) -> (when it is due, index of the event that says so), and those that are due by an event
        self._due: dict[tuple[str, int], tuple[int, int]] = {}
        self._open: set[tuple[str, int]] = set()
        world.watch(sent={Deliver: self._given})
        watch.on_commit.append(self._committed)

    def _committed(self, stream: str, event: events.AnyEvent, model: ModelQueue, effective: bool) -> None:
        if isinstance(event, events.Enqueue) and event.delays:
            fresh = len(model.place) - len(event.blobs)  # what it brings again has its place before these
            for index, due_ms in zip(event.delays[::2], event.delays[1::2], strict=True):
                position = fresh + index + 1
                if model.at.get((event.client, each(event.numbers)[index])) == model.index and position in model.blobs:
                    self._wait(model, position, due_ms)
        elif isinstance(event, events.Modify | events.Release) and (model.retry or getattr(event, "due_ms", 0)):
            for position in each([n for i in range(0, len(event.runs), 3) for n in event.runs[i + 1 : i + 3]]):
                if model.place.get(position) == "delayed" and (stream, position) not in self._open:
                    self._returns(model, position, event)
        elif isinstance(event, events.Due):
            now_ms = self._world.now_us // 1000
            if event.now_ms > now_ms:
                raise Violation(f"{stream}: {event} says a time that has not come")
            for position in each(event.ranges):
                due_ms, _ = self._due.get((stream, position), (0, 0))
                if model.place.get(position) == "available" and (stream, position) in self._open:
                    if due_ms > now_ms:
                        raise Violation(f"{stream}: {position} is available at {now_ms}, and due at {due_ms}")
                    if due_ms > self.calm_ms and now_ms - due_ms > LATE_MS:
                        raise Violation(f"{stream}: {position} is available at {now_ms} only, and due at {due_ms}")
                    self._open.discard((stream, position))

    def _returns(self, model: ModelQueue, position: int, event: events.Modify | events.Release) -> None:
        if isinstance(event, events.Modify) and event.due_ms:
            self._wait(model, position, event.due_ms)
        elif not 0 <= self._world.now_us // 1000 - event.at_ms < STALE_MS:
            raise Violation(f"{model.id}: {event} says a time that is not now")
        else:
            self._wait(model, position, model.due[position])

    def _wait(self, model: ModelQueue, position: int, due_ms: int) -> None:
        self._due[model.id, position] = due_ms, model.index
        self._open.add((model.id, position))

    def _given(self, source: str, target: str, frame: Deliver) -> None:
        machine = self._world.machines.get(source)
        queue = machine.queues.get(frame.queue) if machine is not None and frame.acquisition else None
        if queue is None:
            return
        now_ms = self._world.now_us // 1000
        for position in each(frame.ranges):
            due_ms, index = self._due.get((frame.queue, position), (0, 0))
            if due_ms and queue.applied >= index:
                self.judged += 1
                if now_ms < due_ms:
                    raise Violation(f"{source} gives {position} of {frame.queue} at {now_ms}, which is due at {due_ms}")

    def over(self) -> None:
        """All has been given out."""
        if self._open and (left := [one for one in self._open if one in self._still_there()]):
            raise Violation(f"these were delayed, and have never become available: {left[:5]}")

    def _still_there(self) -> set[tuple[str, int]]:
        return {
            (model.id, position)
            for model in self._watch.models.values()
            if model.id not in self._watch.gone
            for position in model.live
        }
