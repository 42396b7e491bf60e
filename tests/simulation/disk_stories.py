"""Which stories have brokers with stores, and what such a story has besides: disks, and those who compare them.

A generator of its own chooses, so all other stories are what they were.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from zlib import crc32

from mantamq.protocol.store.machine import StoreMachine
from mantamq.protocol.stored.broker import StoredBrokerMachine

from .disk_checker import DiskChecker
from .stores import Stores
from .world import World

SHARE = 0.25
"""The share of stories whose brokers have stores."""
DURABLE = 0.0
"""The share of those that have durable queues: none, until such stories break no rule."""
ALL_DURABLE = 0.5
"""The share of those in which all queues are durable."""
STORED = {"broker": StoredBrokerMachine}
"""The machines that know stores, by role."""
STALLS = (0.0, 0.0, 0.0005, 0.002)


def has_stores(seed: int) -> bool:
    """Whether the brokers of a seed's story have stores."""
    return random.Random(f"stores {seed}").random() < SHARE


def lasting(seed: int) -> Callable[[str], bool]:
    """Which queues of a story are durable, by their names."""
    rng = random.Random(f"durable {seed}")
    if rng.random() >= DURABLE:
        return lambda name: False
    if rng.random() < ALL_DURABLE:
        return lambda name: True
    return lambda name: crc32(f"{seed} {name}".encode()) % 2 == 0


def stalls(seed: int) -> float:
    """The share of flushes that stall in a story, behind its beginning."""
    return random.Random(f"stalls {seed}").choice(STALLS)


def equip(world: World) -> DiskChecker:
    """Give each broker of a world that has just been built its store."""
    stores = Stores(world, StoreMachine, stalls=0.0)
    checker = DiskChecker(stores)
    for broker in world.brokers:
        stores.begin(broker)
    return checker
