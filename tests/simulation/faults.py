"""Faults of one story: processes die, stand still, come back as zombies, or are cut off; and the end of all faults.

As many brokers' copies may be gone at a time as the cluster can bear; sequencers and Ownership may die at any time.
"""

from __future__ import annotations

import random

from mantamq.protocol.effects import OWNERSHIP

from .world import World

RATE = 0.04
LONG_US = 600_000
"""A process that stands still or is cut off for longer may be evicted, and its copies are lost."""

SETTLE_US = 5_000_000
"""After the last fault: who was taken for dead is evicted by then, and has learned of it."""


class Faults:
    """Attributes: counts (kind of fault -> how often)."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.counts: dict[str, int] = {}
        self._until_us = 0  # when the longest pause or cut will be over

    def maybe(self, rng: random.Random) -> None:
        """Perhaps something happens now."""
        if rng.random() >= RATE:
            return
        kind = rng.choice(
            ["sequencer", "sequencer", "ownership", "broker", "replica", "pause", "isolate", "link", "join", "leave"]
        )
        getattr(self, f"_{kind}")(rng)
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def _sequencer(self, rng: random.Random) -> None:
        names = self.world.sequencers()
        if names:
            self.world.crash(rng.choice(names))

    def _ownership(self, rng: random.Random) -> None:
        self.world.crash(OWNERSHIP)

    def _broker(self, rng: random.Random) -> None:
        if self._may_lose():
            self.world.crash(rng.choice([b for b in self.world.brokers if b in self.world.machines]))

    def _replica(self, rng: random.Random) -> None:
        names = [name for name in self.world.machines if "." in name]
        if names and self._may_lose():
            self.world.crash(rng.choice(names))

    def _pause(self, rng: random.Random) -> None:
        name = rng.choice(sorted(self.world.machines))
        us = rng.choice([20_000, 300_000, 2_500_000, 6_000_000])
        if us > LONG_US and name != OWNERSHIP and not name.startswith("sequencer"):
            if not self._may_lose():
                return
            self._lasts(us)
        self.world.pause(name, us)

    def _isolate(self, rng: random.Random) -> None:
        """Cut a broker off, or a sequencer with fewer than all brokers."""
        us = rng.choice([20_000, 400_000, 2_000_000, 6_000_000])
        if us > LONG_US and not self._may_lose():
            return
        brokers = [rng.choice(self.world.brokers)]
        others = [name for name in self.world.sequencers() if rng.random() < 0.5]
        if us > LONG_US:
            self._lasts(us)
        self.world.partition(brokers, others, us)

    def _join(self, rng: random.Random) -> None:
        if len(self.world.brokers) < 6:
            self.world.add_broker()

    def _leave(self, rng: random.Random) -> None:
        world = self.world
        if len(world.brokers) > 2 and not self.missing() and not world.leaving:
            world.remove_broker(rng.choice(world.brokers))

    def _link(self, rng: random.Random) -> None:
        links = self.world.links_of_order()
        for _ in range(rng.choice([1, 1, 5]) if links else 0):
            self.world.cut_link(*rng.choice(links), down_us=rng.choice([100, 2_000, 300_000]))

    def _lasts(self, us: int) -> None:
        self._until_us = max(self._until_us, self.world.now_us + us)

    def _may_lose(self) -> bool:
        """Whether one more broker's copies may go without anything being lost."""
        world = self.world
        if world.now_us < self._until_us + 1_000_000:
            return False
        return self.missing() < (len(world.brokers) - 1) // 2 or (len(world.brokers) == 2 and not self.missing())

    def missing(self) -> int:
        """Brokers that do not vote in all streams."""
        return sum(not self._whole(broker) for broker in self.world.brokers)

    def _whole(self, broker: str) -> bool:
        machine = self.world.machines.get(broker)
        if machine is None or machine.keeper.blank or broker in self.world.leaving:
            return False
        for queue in machine.wiring.queues():
            replica = self.world.machines.get(machine.hosts.of.get(queue.id, ""))
            hosted = replica.queues.get(queue.id) if replica is not None else None
            if hosted is None or hosted.keeper.blank:
                return False
        return True

    def heal(self) -> None:
        """No more faults; what is under way ends."""
        self.world.run(max(self.world.now_us, self._until_us))
        self.world.run_for(SETTLE_US)

    def healthy(self) -> bool:
        """Everybody is there, votes everywhere, and follows one sequencer that leads."""
        world = self.world
        if (
            self.missing()
            or world.leaving & set(world.brokers)
            or OWNERSHIP not in world.machines
            or len(world.sequencers()) < 2
        ):
            return False
        leaders = {(world.machines[b].following.leader, world.machines[b].following.promised) for b in world.brokers}
        return len(leaders) == 1 and all(world.machines[b].following.attached for b in world.brokers)
