"""Which queues of a story give to one consumer at a time, and that it is the one that is first in line by the log.

The line is a list of the model's. Lines of a user that it has left for another broker, and brokers that are out, do not
count: what they still give has no effect.
"""

from __future__ import annotations

import random
from typing import Any

from mantamq.protocol.wire import events
from mantamq.protocol.wire.client_frames import Attached, AttachReceiver, Delivery
from mantamq.protocol.wire.queue_frames import Consume, Deliver

from .checkers import Watcher
from .lines import Line
from .model import Violation
from .world import World

STORIES = 0.3
"""The share of stories with such queues."""
SHARE = 0.5
"""Of their queues."""
SLACK_US = 1_000_000
"""So much less than the product's own time it need not wait."""
ARGUMENT = "x-single-active-consumer"


class Actives:
    """Of one story; its choices are its own, so that they do not move those of others. `judged`: deliveries; `passed`, of
    those, to one that was not the first consumer of its queue."""

    def __init__(self, world: World, watch: Watcher, seed: int) -> None:
        self._rng = random.Random(f"actives of {seed}")
        self._some = self._rng.random() < STORIES
        self._chosen: dict[str, bool] = {}
        self.judged = self.passed = 0
        self._world, self._watch = world, watch
        self._waits_us = world.timing.resume_unseen_ms * 1000 - SLACK_US
        self._asked: dict[tuple[str, int], AttachReceiver] = {}
        self._ids: dict[tuple[str, int], str] = {}  # (line, handle) -> the queue it consumes from
        self._first: dict[str, str] = {}
        self._turn_us: dict[tuple[str, int], int] = {}  # (replica, sub) -> when its turn began
        self._holders: dict[tuple[str, str, int], str] = {}  # (queue id, broker, acquisition) -> who has it
        world.watch(
            sent={AttachReceiver: self._asks, Attached: self._comes, Delivery: self._gives, Deliver: self._hands_out},
            arrived={Consume: self._begins},
        )
        watch.on_wiring.append(self._ordered)

    def _chose(self, name: str) -> bool:
        if name not in self._chosen:
            self._chosen[name] = self._some and self._rng.random() < SHARE
        return self._chosen[name]

    def spelled(self, name: str) -> dict[str, Any]:
        """Arguments for a new queue; of rivals for one name the same."""
        return {ARGUMENT: self._rng.choice([True, True, "true"])} if self._chose(name) else {}

    def typed(self, name: str) -> dict[str, Any]:
        """The same as keywords of the client."""
        return {"single_active": True} if self._chose(name) else {}

    def queues(self) -> list[str]:
        """Names of such queues that there are."""
        return [name for name, chosen in self._chosen.items() if chosen and name in self._watch.wiring.ids]

    def _asks(self, source: str, target: str, frame: AttachReceiver) -> None:
        self._asked[source, frame.handle] = frame

    def _comes(self, source: str, target: str, frame: Attached) -> None:
        asked = self._asked.get((target, frame.handle))
        if asked is not None and asked.mode == "consume" and self._chosen.get(frame.queue.rpartition("#")[0]):
            self._ids[target, frame.handle] = frame.queue

    def _ordered(self, event: events.AnyEvent) -> None:
        """Users say which of their connections each is, so that a later one has the place of the one before."""
        if type(event) is events.InUse and event.place and event.on and event.claim.startswith("u") and not event.life:
            raise Violation(f"{event} is a user's, and does not say on which connection")

    def _begins(self, source: str, target: str, frame: Consume) -> None:
        if frame.mode == "consume":
            self._turn_us[target, frame.sub] = self._world.now_us

    def _hands_out(self, source: str, target: str, frame: Deliver) -> None:
        """What those before it held is back, or gone, before one is given anything; for a time it waits for that."""
        model, machine = self._watch.models.get(frame.queue), self._world.machines.get(target)
        known = machine is not None and frame.sub in machine.receivers.subs
        if not frame.acquisition or not known or model is None or frame.queue not in self._watch.wiring.lines:
            return
        session, link = machine.receivers.subs[frame.sub]
        name = f"{session.client}/{link.handle}"
        self._holders[frame.queue, target, frame.acquisition] = name
        waited_us = self._world.now_us - self._turn_us[source, frame.sub]
        if waited_us >= self._waits_us or machine.inc <= self._watch.wiring.over.get(target, -1):
            return
        for position, place in model.place.items():
            if not isinstance(place, tuple):
                continue
            holder = self._holders.get((frame.queue, place[1], place[3]), name)
            if holder != name:
                raise Violation(f"{target} gives {frame.ranges} of {frame.queue} to {name}, {holder} has {position}")

    def _gives(self, source: str, target: str, frame: Delivery) -> None:
        id = self._ids.get((target, frame.handle))
        wiring, line = self._watch.wiring, self._world.clients.get(target)
        if (
            id is None
            or id in self._watch.gone
            or line is None
            or (isinstance(line, Line) and line.user.line is not line)
        ):
            return
        if self._world.machines[source].inc <= wiring.over.get(source, -1):
            return
        name = f"{target.partition('~')[0]}/{frame.handle}"
        first = wiring.lines.get(id, [])[:1]
        if [(one.claim, one.broker) for one in first] != [(name, source)]:
            raise Violation(
                f"{target} gets messages of {id} by {frame.handle} at {source}, and {first} is first in line"
            )
        self.judged += 1
        self.passed += self._first.setdefault(id, name) != name
