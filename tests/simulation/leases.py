"""The lease (`sequencer.md` B4), watched from outside: who has lost the majority soon stops serving clients."""

from __future__ import annotations

from typing import Any

from mantamq.protocol.wire.client_frames import Completed, Delivery
from mantamq.protocol.wire.events import Ballot
from mantamq.protocol.wire.log_frames import Heartbeat

from .model import Violation
from .world import World

SLACK_US = 10_000


class Leases:
    """Watches beats arrive and what brokers tell their clients."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._heard: dict[tuple[str, Ballot, int], int] = {}  # (broker, ballot, beat) -> when
        self._sure: dict[str, int] = {}  # broker -> when it heard the last beat that a majority has answered
        world.watch(sent={Delivery: self._serves, Completed: self._serves}, arrived={Heartbeat: self._beaten})
        world.deaths.append(self._died)

    def _beaten(self, source: str, target: str, frame: Heartbeat) -> None:
        stored = self.world.stores is not None and target in self.world.brokers
        if stored and not self.world.machines[target].store.opened:
            return  # it hears none yet: the first one behind that begins its lease
        self._heard[target, frame.ballot, frame.number] = self.world.now_us
        at_us = self._heard.get((target, frame.ballot, frame.sure))
        if at_us is not None:
            self._sure[target] = max(at_us, self._sure.get(target, 0))

    def _serves(self, source: str, target: str, frame: Delivery | Completed) -> None:
        if source in self._sure:
            silent_us = self.world.now_us - self._sure[source]
            timing = self.world.timing
            if silent_us > (timing.lease_ms + timing.heartbeat_ms) * 1000 + SLACK_US:
                raise Violation(
                    f"B4: {source} serves {target}; its majority was last sure of it {silent_us / 1000} ms ago"
                )

    def _died(self, name: str, machine: Any) -> None:
        self._sure.pop(name, None)
        for key in [key for key in self._heard if key[0] == name]:
            del self._heard[key]
