"""What befalls the disks and stores of brokers in the midst of a story (`durable.md` 6, 10).

A node loses power, or all of them do; a store or a whole group is killed, or the store stands still; a disk stalls,
fails, runs full, rots, is emptied or put back from an earlier copy. A broker that keeps its log comes back with its vote;
what was in its memory alone is lost with its process, so as many may be away at a time as the cluster can bear
(`Faults._may_lose`).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from mantamq.protocol.wire.log_frames import Evicted

from ..store.disks import Fault
from .stores import RESERVE_BYTES, STALL_US

if TYPE_CHECKING:
    from .faults import Faults
    from .stores import Stores

KINDS = ["power", "power", "kill_store", "disk_error", "disk_torn", "stall", "empty_disk", "old_disk_copy", "rot",
         "full_disk", "blackout", "pause_store"]  # fmt: skip
PAUSE_US = (200_000, 2_500_000, 6_000_000, 12_000_000)
"""For how long a store's process stands still; its links bear more (`durable.md` 3, F2)."""
BACK_US = 4_000_000
"""Whoever lost power is started again within this time."""
FULL_US = (300_000, 2_000_000, 6_000_000)
LEFT = (0.9, 0.45, 0.3, 0.02)
"""Shares of the reserve that are left on a full disk: pressed, with no room for bodies, with room for hardly anything."""
AHEAD_CALLS = 12
"""A call of a disk that is to fail is among the next ones."""


class DiskFaults:
    """Attributes: copies (broker -> an earlier copy of its disk, and the broker's life then), waiting (a fault that is
    to come as soon as the cluster can bear one, "" for none)."""

    def __init__(self, faults: Faults, stores: Stores) -> None:
        self.stores = stores
        self.copies: dict[str, tuple[int, Any]] = {}
        self.waiting = ""
        self._faults = faults
        self._armed: set[str] = set()
        stores.may_stall = self._may_stall
        stores.world.watch(sent={Evicted: self._given_up})

    def ask_for(self, kind: str) -> None:
        """A fault of a disk takes part of a cluster for a good while, and nearly always something else does just then:
        it comes when that is over. Of several, the first."""
        self.waiting = self.waiting or kind

    def maybe(self, rng: random.Random) -> str:
        """What has waited may happen now; returns its kind, "" for none."""
        if not self.waiting or not self._faults._may_lose():
            return ""
        kind, self.waiting = self.waiting, ""
        getattr(self, f"_{kind}")(rng)
        return kind

    def _chosen(self, rng: random.Random) -> str:
        """A broker whose processes may die now, "" for none."""
        world = self.stores.world
        every = [b for b in world.brokers if b in world.machines and b not in world.leaving]
        return rng.choice(every) if every and self._faults._may_lose() else ""

    def _power(self, rng: random.Random) -> None:
        """A node loses power."""
        if broker := self._chosen(rng):
            self._copy(rng, broker)
            self.stores.power(broker)

    def _blackout(self, rng: random.Random) -> None:
        """All nodes lose power at once, and come back in any order, some a good while later. What is durable survives;
        so such stories have no other queues."""
        world = self.stores.world
        if not world.blackouts or not self._faults._may_lose():
            return
        for name in [*world.sequencers(), *world.ownerships]:
            world.crash(name)
        members = [b for b in world.brokers if b in world.machines]
        rng.shuffle(members)
        self.stores.power(*members)
        self._faults._lasts(BACK_US)

    def _kill_store(self, rng: random.Random) -> None:
        if broker := self._chosen(rng):
            self._copy(rng, broker)
            self.stores.kill(broker)

    def _copy(self, rng: random.Random, broker: str) -> None:
        """Now and then somebody takes a copy of a disk."""
        if broker not in self.copies or rng.random() < 0.2:
            self.copies[broker] = self.stores.world.life(broker), self.stores.disks[broker].image()

    def _disk_error(self, rng: random.Random) -> None:
        """A call fails, a flush perhaps: the store ends with its group, and opens again."""
        if broker := self._chosen(rng):
            self._lasts(rng, broker, Fault.EIO)

    def _disk_torn(self, rng: random.Random) -> None:
        """The power fails in the midst of a write or a flush."""
        if broker := self._chosen(rng):
            self._lasts(rng, broker, rng.choice([Fault.CRASH_BEFORE, Fault.CRASH_AFTER]))

    def _lasts(self, rng: random.Random, broker: str, fault: Fault) -> None:
        """It comes soon, or not any more: nobody else may be lost meanwhile."""
        files = self.stores.disks[broker]
        files.fail(rng.randrange(AHEAD_CALLS), fault)
        self._armed.add(broker)
        self._faults._lasts(1_000_000)
        self.stores.world.after(1_000_000, files.heal)

    def _given_up(self, source: str, target: str, frame: Evicted) -> None:
        """A voter that is too far behind is to forget its copy just now: what has not failed yet does not any more."""
        if frame.forget:
            for broker in self._armed:
                self.stores.disks[broker].heal()
            self._armed.clear()

    def _stall(self, rng: random.Random) -> None:
        """The next flush of a store takes long."""
        broker = self._chosen(rng)
        if broker and self._may_stall(broker):
            self.stores.stall(broker)

    def _may_stall(self, broker: str) -> bool:
        """Whose disk stands still may be given up, and then its copies are lost."""
        if not self._faults._may_lose():
            return False
        self._faults._lasts(STALL_US)
        return True

    def _pause_store(self, rng: random.Random) -> None:
        """A store's process stands still: its broker is as slow as that, and may be given up."""
        stores, us = self.stores, rng.choice(PAUSE_US)
        if stores.running and self._faults._may_lose():
            self._faults._lasts(us)
            stores.running[rng.choice(sorted(stores.running))].pause(us)

    def _full_disk(self, rng: random.Random) -> None:
        """Something else takes the room on a disk, and gives it back. A store that has too little ends, and opens again
        where there is enough."""
        if broker := self._chosen(rng):
            us = rng.choice(FULL_US)
            self.stores.fill(broker, int(rng.choice(LEFT) * RESERVE_BYTES))
            self._faults._lasts(us)
            self.stores.world.after(us, self.stores.clear, broker)

    def _empty_disk(self, rng: random.Random) -> None:
        """A node loses its disk, and gets a new one: it comes back without a vote (K4)."""
        if broker := self._chosen(rng):
            self.copies.pop(broker, None)
            self.stores.empty(broker)

    def _old_disk_copy(self, rng: random.Random) -> None:
        """A copy from before is put back. It must be known to be old (S10): all others know of a later return."""
        world = self.stores.world
        known = [b for b in self.copies if b in world.machines and b not in world.leaving and self._is_old(b)]
        if known and self._faults._may_lose():
            broker = rng.choice(known)
            self.stores.power(broker)
            self.stores.put_back(broker, self.copies.pop(broker)[1])

    def _is_old(self, broker: str) -> bool:
        """Whether every other voter of the cluster stream knows of a return of the broker that its copy does not."""
        world, life = self.stores.world, self.copies[broker][0]
        others = [world.machines[b].keeper for b in world.brokers if b in world.machines and b != broker]
        return len(others) > 1 and all(keeper.lives.get(broker, 0) > life for keeper in others)

    def _rot(self, rng: random.Random) -> None:
        """A bit turns over while the broker is down: what it hurts comes back without a vote."""
        if broker := self._chosen(rng):
            self.stores.power(broker)
            self.stores.rot(broker, rng)
