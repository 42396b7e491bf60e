"""Brokers that join and leave in the course of a story, in their own good time: choices come from a generator of their
own, so that the rest of a story is the same with and without them."""

from __future__ import annotations

import random
from typing import Any

from mantamq.protocol.wire import events

from .model import ModelQueue, Violation
from .world import World

SHARE = 0.5
"""The share of stories with moves."""
RATE = 0.03
FORGOTTEN = 0.0
"""How often a member with a store loses power while it leaves, and nobody asks it again: it is back, and stays. Usual
stories have none of it."""
LEAVES_US = 60_000
"""The power goes out within this time."""
BROKERS_MAX = 6
LEAVING = "this broker leaves the cluster: connect to another member"


class Moves:
    """Attributes: counts (what -> how often), left (brokers that were asked to leave)."""

    def __init__(self, world: World, seed: int) -> None:
        self.world = world
        self.rng = random.Random(f"moves {seed}")
        self.on = self.rng.random() < SHARE
        self.counts: dict[str, int] = {}
        self.left: set[str] = set()
        self._forgets = random.Random(f"forgotten moves {seed}")

    def maybe(self) -> None:
        """Perhaps somebody joins or leaves now."""
        if not self.on or self.rng.random() >= RATE:
            return
        world = self.world
        staying = [broker for broker in world.brokers if broker not in world.leaving]
        serving = [broker for broker in staying if world.serves(broker)]
        if self.rng.random() < 0.5 and len(world.brokers) < BROKERS_MAX:
            self._count("join")
            world.add_broker()
        elif len(serving) > 1 and (len(staying) > 2 or world.calm()):  # the clients must have somewhere to go
            self._count("leave")
            broker = self.rng.choice(staying)
            self.left.add(broker)
            # Only where all is well: a transient queue might lose its majority otherwise.
            forgets = world.standby and self._forgets.random() < FORGOTTEN and self.done()
            world.remove_broker(broker)
            if forgets:
                world.after(self._forgets.randrange(LEAVES_US), lambda: self._forget(broker))

    def _forget(self, broker: str) -> None:
        if broker in self.world.leaving and self.world.stores is not None:
            self._count("forgotten")
            self.world.leaving.discard(broker)
            self.world.stores.power(broker)

    def before(self, stream: str, event: Any, model: ModelQueue) -> None:
        """Where nothing breaks, who leaves a queue has given back all it held there."""
        if self.world.standby or not isinstance(event, events.Member) or event.present:
            return
        held = [position for position, place in model.place.items() if place[:2] == ("held", event.broker)]
        if held:
            raise Violation(f"{event.broker} leaves {stream} with {held}")

    def _count(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def done(self) -> bool:
        """All who were asked to leave have left, and all who came are members by everybody's word."""
        world = self.world
        if world.leaving:
            return False
        everybody = set(world.brokers)
        for broker in world.brokers:
            machine = world.machines.get(broker)
            if machine is None or machine.keeper.blank or set(machine.cluster.voters) != everybody:
                return False
            for id in (queue.id for queue in machine.wiring.all_kept()):
                replica = world.machines.get(machine.placement.of.get(id, ""))
                hosted = replica.queues.get(id) if replica is not None else None
                if hosted is None or hosted.keeper.blank or set(hosted.keeper.voters) != everybody:
                    return False
        return True

    def check_closed(self, closed: dict[str, tuple[str, str]], brokers: dict[str, str]) -> None:
        """Where nothing breaks, nobody loses a connection but by his broker's leaving. `brokers`: by client."""
        for client, why in closed.items():
            if why != ("unavailable", LEAVING) or brokers[client] not in self.left:
                raise Violation(f"a well-behaved client of {brokers[client]} was closed: {why}")
