"""Which stories have brokers with stores, and what such a story has besides: disks, and those who compare them.

A generator of its own chooses, so all other stories are what they were.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from mantamq.protocol.store.machine import StoreMachine
from mantamq.protocol.stored.broker import StoredBrokerMachine
from mantamq.protocol.stored.replica import StoredReplicaMachine

from .disk_checker import DiskChecker
from .stores import RESERVE_BYTES, Stores
from .world import World

SHARE = 0.25
"""The share of stories whose brokers have stores."""
LASTING = 0.8
"""The share of those that have durable queues, and replicas with stores."""
DURABLE = 0.75
"""The share of queues that are durable, where all may be."""
ALIKE = 0.3
"""The share of stories with stores in which all queues are durable; in a third as many none is."""
STORED = {"broker": StoredBrokerMachine, "replica": StoredReplicaMachine}
"""The machines that know stores, by role."""
STALLS = (0.0, 0.0, 0.0005, 0.002)


def has_stores(seed: int) -> bool:
    """Whether the brokers of a seed's story have stores."""
    return random.Random(f"stores {seed}").random() < SHARE


def machines(seed: int) -> dict[str, type]:
    """What its processes run, by role."""
    return STORED if has_lasting(seed) else {"broker": StoredBrokerMachine}


def has_lasting(seed: int) -> bool:
    """Whether a story with stores has durable queues."""
    return random.Random(f"lasting {seed}").random() < LASTING


def all_lasting(seed: int) -> bool:
    """Whether all queues of a story are durable: then all nodes may lose power at once, and nothing is lost."""
    return has_lasting(seed) and random.Random(f"durable {seed}").random() < ALIKE


def lasting(seed: int) -> Callable[[str], bool]:
    """Which queues of a story are durable, by their names."""
    if not has_lasting(seed):
        return lambda name: False
    chance = random.Random(f"durable {seed}").random()
    if all_lasting(seed):
        return lambda name: True
    if chance < ALIKE * 4 / 3:
        return lambda name: False
    return lambda name: random.Random(f"durable {seed} {name}").random() < DURABLE


def stalls(seed: int) -> float:
    """The share of flushes that stall in a story, behind its beginning."""
    return random.Random(f"stalls {seed}").choice(STALLS)


def equip(world: World) -> DiskChecker:
    """Give each broker of a world that has just been built its store."""
    stores = Stores(world, partial(StoreMachine, reserve_bytes=RESERVE_BYTES), stalls=0.0)
    checker = DiskChecker(stores)
    for broker in world.brokers:
        stores.begin(broker)
    return checker
