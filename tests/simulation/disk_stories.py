"""Which stories have brokers with stores, and what such a story has besides: disks, and those who compare them.

A generator of its own chooses, so all other stories are what they were.
"""

from __future__ import annotations

import random

from mantamq.protocol.store.machine import StoreMachine

from .disk_checker import DiskChecker
from .stores import Stores
from .world import World

SHARE = 0.25
"""The share of stories whose brokers have stores."""
STALLS = (0.0, 0.0, 0.0005, 0.002)


def has_stores(seed: int) -> bool:
    """Whether the brokers of a seed's story have stores."""
    return random.Random(f"stores {seed}").random() < SHARE


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
