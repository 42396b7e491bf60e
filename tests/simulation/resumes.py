"""Consumers that come from another broker: what they held there is back before they are given anything."""

from __future__ import annotations

from typing import Any

from mantamq.protocol.wire.queue_frames import ACCEPT, Cancel, Consume, Deliver, Settle

from .checkers import Watcher
from .model import Violation, each_run
from .world import World


class Resumes:
    """Watches replicas and their brokers.

    Attributes:
        judged: deliveries to such consumers.
    """

    def __init__(self, world: World, watch: Watcher) -> None:
        self.world = world
        self.watch = watch
        self.judged = 0
        # (replica, subscription) -> when it came, behind how many frames, and what it said
        self._came: dict[tuple[str, int], tuple[int, int, Consume]] = {}
        # (replica, queue, acquisition) -> the subscription it is of: a broker that comes back counts from 1 again, so what
        # a consumer held at an earlier incarnation of it has the numbers of what is others' now.
        self._of: dict[tuple[str, str, int], int] = {}
        # The same of those that have left, and when, counted in frames: they were others' for who had come before.
        self._left: dict[tuple[str, str, int], int] = {}
        self._frames = 0
        # (broker, queue, acquisition, position) -> when it was given last: what a consumer says it held it had before it
        # came, so what is given later under those numbers is of a later incarnation, and another's.
        self._when: dict[tuple[str, str, int, int], int] = {}
        # (replica, queue) -> (acquisition, position) that were accepted there before their consumer left: on their way.
        self._accepted: dict[tuple[str, str], set[tuple[int, int]]] = {}
        arrived = {Consume: self._comes, Cancel: self._leaves, Settle: self._settles}
        world.watch(sent={Deliver: self._given}, arrived=arrived)
        world.deaths.append(self._died)

    def _died(self, name: str, machine: Any) -> None:
        self._came = {key: came for key, came in self._came.items() if key[0] != name}
        self._of = {key: sub for key, sub in self._of.items() if key[0] != name}
        self._left = {key: when for key, when in self._left.items() if key[0] != name}
        self._accepted = {key: runs for key, runs in self._accepted.items() if key[0] != name}

    def _settles(self, source: str, target: str, frame: Settle) -> None:
        if frame.kind == ACCEPT:
            self._accepted.setdefault((target, frame.queue), set()).update(each_run(frame.runs))

    def _comes(self, source: str, target: str, frame: Consume) -> None:
        self._frames += 1
        if frame.before and frame.mode == "consume":
            self._came[target, frame.sub] = self.world.now_us, self._frames, frame

    def _leaves(self, source: str, target: str, frame: Cancel) -> None:
        self._frames += 1
        for key in [key for key, sub in self._of.items() if (key[0], sub) == (target, frame.sub)]:
            del self._of[key]
            self._left[key] = self._frames

    def _given(self, source: str, target: str, frame: Deliver) -> None:
        self._of[source, frame.queue, frame.acquisition] = frame.sub
        self._frames += 1
        if frame.acquisition:
            for n in range(0, len(frame.ranges), 2):
                for position in range(frame.ranges[n], frame.ranges[n + 1] + 1):
                    self._when[source.split(".")[0], frame.queue, frame.acquisition, position] = self._frames
        if (source, frame.sub) not in self._came:
            return
        since_us, behind, consume = self._came.pop((source, frame.sub))  # from then on it is served
        model = self.watch.models.get(frame.queue)
        if model is None or frame.queue in self.watch.gone:
            return  # of a deleted queue the model is no longer told what happens
        if self.world.now_us - since_us >= (self.world.timing.resume_held_ms - 1000) * 1000:
            return
        self.judged += 1
        accepted = self._accepted.get((source, frame.queue), set())
        for broker, _, runs in consume.before:
            for acquisition, position in each_run(runs):
                place = model.place.get(position)
                key = source, frame.queue, acquisition
                if self._when.get((broker, frame.queue, acquisition, position), 0) > behind:
                    continue
                if source.startswith(broker + ".") and (key in self._of or self._left.get(key, 0) > behind):
                    continue
                if source.startswith(broker + ".") and (acquisition, position) in accepted:
                    continue
                if isinstance(place, tuple) and place[:2] == ("held", broker) and place[3] == acquisition:
                    raise Violation(
                        f"{source} gives {frame.ranges} of {frame.queue} to a consumer that comes from {broker}, where "
                        f"{position} is held for it still"
                    )
