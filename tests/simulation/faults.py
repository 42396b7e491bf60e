"""Faults of one story: processes die, stand still, come back as zombies, or are cut off; and the end of all faults.

As many brokers' copies may be gone at a time as the cluster can bear; sequencers and Ownership may die at any time.
"""

from __future__ import annotations

import random
from typing import Any

from mantamq.protocol.log.quorum import majority
from mantamq.protocol.machine import is_ownership
from mantamq.protocol.wire.events import CLUSTER
from mantamq.protocol.wire.log_frames import Append
from mantamq.protocol.wire.queue_frames import DeadLetter

from . import disk_faults
from .disk_faults import DiskFaults
from .world import World

RATE = 0.05
LONG_US = 100_000
"""A process that stands still or is cut off for this long may be evicted (if its sequencer stands still too), and then
its copies are lost."""

OFTEN = ["outlived"] * 12
BESIDE = ["beside"] * 12
"""Looked for by planted bugs that need them (`gate.FOCUS`)."""
AWAY = ["broker"] * 8 + ["isolate"] * 4
"""So brokers go most of all."""
KINDS = ["sequencer", "sequencer", "ownership", "broker", "broker", "replica", "pause", "isolate", "isolate", "link",
         "zombie", "needless", "split", "split", "slow", "slow", "silent", "duty"]  # fmt: skip

DENSE, DENSE_RATE = 0.12, 0.15
"""The share of the stories with faults that have so many; in half of those, brokers go most of all, until few are left that
know of what came first."""

SLOW_US, SLOW_BATCH_US = (100_000, 1_000_000, 4_000_000, 12_000_000), (20_000, 100_000, 400_000)
"""For how long a keeper is slow, and how long it then takes for each batch."""
UNTOLD_US = 1_500_000
"""For how long nobody is told that a broker has lost its power; it is not evicted before."""
SETTLE_US = 5_000_000
"""After the last fault: who was taken for dead is evicted by then, and has learned of it."""


def drawn(seed: int) -> tuple[float, list[str]]:
    """How often there is a fault in the story of a seed, and among which kinds each is drawn."""
    rng = random.Random(f"faults of {seed}")
    if rng.random() >= DENSE:
        return RATE, KINDS
    return max(RATE, DENSE_RATE), KINDS + (AWAY if rng.random() < 0.5 else [])


class Faults:
    """Args: rate, kinds: see `drawn`.

    Attributes: counts (kind of fault -> how often), lame (a broker that died for good, "" for none).
    """

    def __init__(self, world: World, rate: float, kinds: list[str]) -> None:
        self.world = world
        self._rate = rate
        self._kinds = kinds + (disk_faults.KINDS if world.stores is not None else [])
        self.counts: dict[str, int] = {}
        self.lame = ""
        self._doomed = ""  # a sequencer that is to die in the midst of its work
        self._burier = False  # whether the next broker that buries is to die
        world.watch(sent={DeadLetter: self._buries, Append: self._appends})
        world.spares = self._spares
        world.calm = self._calm
        self.voters: dict[str, list[str]] = {}  # stream -> who votes, by what is committed
        self.deleted: set[str] = set()  # queues that are not there any more
        self.disks = DiskFaults(self, world.stores) if world.stores is not None else None
        self._until_us = 0  # when the longest pause or cut will be over

    def maybe(self, rng: random.Random) -> None:
        """Perhaps something happens now."""
        if self.disks is not None and (kind := self.disks.maybe(rng)):
            self._count(kind)
        if rng.random() >= self._rate:
            return
        kind = rng.choice(self._kinds)
        if self.disks is not None and kind in disk_faults.KINDS:
            self.disks.ask_for(kind)
        else:
            getattr(self, f"_{kind}")(rng)
            self._count(kind)

    def _count(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def _sequencer(self, rng: random.Random) -> None:
        """Half the time when it has just said what is to be appended: some hear it and some do not."""
        names = self.world.sequencers()
        if names and rng.random() < 0.5:
            self.world.crash(rng.choice(names))
        elif names:
            self._doomed = rng.choice(names)

    def _buries(self, source: str, target: str, frame: DeadLetter) -> None:
        if self._burier and self._may_lose():
            self._burier = False
            self.world.after(self.world.rng.randrange(1, 2_000), lambda: self._crash_if_spared(target))

    def _appends(self, source: str, target: str, frame: Append) -> None:
        if source == self._doomed and frame.entries and self.world.rng.random() < 0.2:
            self._doomed = ""
            self.world.doomed.add(source)

    def _crash_if_spared(self, broker: str) -> None:
        """Another may have been lost since this was decided."""
        if self._may_lose():
            self.world.crash(broker)

    def _ownership(self, rng: random.Random) -> None:
        self.world.crash(rng.choice(self.world.ownerships))

    def _duty(self, rng: random.Random) -> None:
        """The Ownership on duty is cut off or stands still, at times with the sequencer that leads; or both of them."""
        world = self.world
        named = {m.duty.name for name in world.sequencers() if (m := world.machines[name]).election.role == "leading"}
        cut = rng.choice([sorted(named), sorted(named), [*world.ownerships]])
        us = rng.choice([20_000, 400_000, 3_000_000])
        if rng.random() < 0.3:
            for name in cut:
                world.pause(name, us)
            return
        leaders = [name for name in world.sequencers() if world.machines[name].election.role == "leading"]
        world.partition([], cut + (leaders if rng.random() < 0.3 else []), us)

    def _broker(self, rng: random.Random) -> None:
        """Half the time one that is in the midst of something: it gives or takes an update; or soon, when it buries."""
        if rng.random() < 0.3:
            self._burier = True
        elif self._may_lose():
            busy = [name.partition(".")[0] for name in self._busy()]
            every = [b for b in self.world.brokers if b in self.world.machines]
            self.world.crash(rng.choice(busy if busy and rng.random() < 0.5 else every))

    def _replica(self, rng: random.Random) -> None:
        names = [name for name in self.world.machines if "." in name]
        if names and self._may_lose():
            busy = self._busy()
            self.world.crash(rng.choice(busy if busy and rng.random() < 0.5 else names))

    def _busy(self) -> list[str]:
        """Replicas in the midst of something."""
        return [
            name
            for name, machine in self.world.machines.items()
            if "." in name
            and any(
                hosted.catch_up.given or hosted.updating or any(b == machine.broker for b, _ in hosted.state.batches.values())
                for hosted in machine.queues.values()
            )
        ]  # fmt: skip

    def _zombie(self, rng: random.Random) -> None:
        """A replica stands still and its broker gives it up; when it wakes, it does not know that yet."""
        names = [name for name in self.world.machines if "." in name]
        if names and self._may_lose():
            us = rng.choice([20_000, 300_000, 2_500_000])
            self._lasts(us)
            self.world.give_up(rng.choice(names), us)

    def _needless(self, rng: random.Random) -> None:
        """A standby is asked to take over though nothing is wrong."""
        world = self.world
        standbys = [name for name in world.sequencers() if world.machines[name].election.role == "standby"]
        if standbys:
            world.suspect_leader(rng.choice(standbys))

    def _pause(self, rng: random.Random) -> None:
        if not self.world.machines:
            return  # all are down
        name = rng.choice(sorted(self.world.machines))
        us = rng.choice([20_000, 200_000, 2_500_000, 6_000_000])
        if us >= LONG_US and not is_ownership(name) and not name.startswith("sequencer"):
            if not self._may_lose():
                return
            self._lasts(us)
        self.world.pause(name, us)

    def _slow(self, rng: random.Random) -> None:
        """A keeper takes long for what it gets, and falls behind; it may be given up, so nobody else may go meanwhile."""
        names = [name for name in self.world.machines if "." in name or name in self.world.brokers]
        us = rng.choice(SLOW_US)
        if names and self._may_lose():
            self._lasts(us)
            self.world.slow(rng.choice(names), us, rng.choice(SLOW_BATCH_US))

    def _beside(self, rng: random.Random) -> None:
        """A replica is slow, and another node loses its power before it is given up; no link tells."""
        world = self.world
        names = [name for name in world.machines if "." in name and name.partition(".")[0] in world.brokers]
        if names and len(world.brokers) > 2 and world.stores is None and self._may_lose():
            slow, us = rng.choice(names), 6_000_000
            other = rng.choice([broker for broker in world.brokers if broker != slow.partition(".")[0]])
            self._lasts(us + 2 * UNTOLD_US)
            world.slow(slow, us, 400_000)
            world.after(rng.randrange(us // 2), lambda: self._loses_power(other))

    def _loses_power(self, broker: str) -> None:
        world, terms = self.world, self._terms()
        # A replica that is being given up is too late for this: the answer that decides it may be under way.
        asked = any(world.machines[name].backlog._asked for name in world.sequencers())
        every = all(self._keeps(voter, stream) for stream, voters in self._votes() for voter in voters)
        group = [name for name in world.machines if name.partition(".")[0] == broker]
        if broker not in group or broker in world.leaving or asked or not every:
            return

        def ends() -> None:
            if self._terms() == terms:  # else the next sequencer may have told the slow one that it needs an update
                for name in group:
                    world.crash(name)

        for name in group:
            world.pause(name, UNTOLD_US + LONG_US)
        world.after(UNTOLD_US, ends)

    def _terms(self) -> list[tuple[str, Any]]:
        return [(name, self.world.machines[name].order.ballot) for name in self.world.sequencers()]

    def _isolate(self, rng: random.Random) -> None:
        """Cut a broker off, or a sequencer with fewer than all brokers."""
        us = rng.choice([20_000, 200_000, 400_000, 900_000, 1_200_000, 2_000_000, 6_000_000])
        if us >= LONG_US and not self._may_lose():
            return
        brokers = [rng.choice(self.world.brokers)]
        others = [name for name in self.world.sequencers() if rng.random() < 0.5]
        if us >= LONG_US:
            self._lasts(us)
        self.world.partition(brokers, others, us)

    def _split(self, rng: random.Random) -> None:
        """Cut the leader off with one broker, long enough for others to take over; they meet again in the midst of yet
        another takeover. So logs part, and are compared by somebody else."""
        world = self.world
        leaders = [name for name in world.sequencers() if world.machines[name].election.role == "leading"]
        if len(world.brokers) < 3 or not leaders or not self._may_lose():
            return
        us = rng.randrange(700_000, 1_300_000)
        self._lasts(us)
        world.partition([rng.choice(world.brokers)], [rng.choice(leaders)], us)
        world.after(us + rng.randrange(-5_000, 25_000), lambda: self._needless(rng))

    def _outlived(self, rng: random.Random) -> None:
        """A broker is cut off until it is out, and is back as another sequencer comes to lead: it asks again for what
        was done, and neither of the two knows yet that it is over."""
        world = self.world
        if len(world.brokers) < 3 or not self._may_lose():
            return
        us = rng.randrange(500_000, 900_000)
        self._lasts(us)
        world.partition([rng.choice(world.brokers)], [], us)
        world.after(us + rng.randrange(-150_000, 20_000), lambda: self._needless(rng))

    def _link(self, rng: random.Random) -> None:
        links = self.world.links_of_order()
        for _ in range(rng.choice([1, 1, 5]) if links else 0):
            self.world.cut_link(*rng.choice(links), down_us=rng.choice([100, 2_000, 60_000]))

    def _silent(self, rng: random.Random) -> None:
        """A link is dead and nobody is told: its ends find out by themselves, each when it does."""
        links = self.world.links_of_order()
        if links and self._may_lose():
            self._lasts(5_000_000)
            self.world.silence_link(*rng.choice(links), (rng.randrange(4_000_000), rng.randrange(4_000_000)))

    def _lasts(self, us: int) -> None:
        self._until_us = max(self._until_us, self.world.now_us + us)

    def _calm(self) -> bool:
        return self.world.now_us >= self._until_us + 1_000_000

    def _may_lose(self) -> bool:
        """Whether one more broker's copies may go without anything being lost."""
        world = self.world
        if not self._calm():
            return False
        if world.leaving and len(set(world.brokers) - world.leaving) < 2:
            return False  # who leaves may have left all to one
        for stream, voters in self._votes():
            missing = sum(not self._keeps(voter, stream) for voter in voters)
            # One of two comes back by the other's log, if that one stays: a leave under way would make it the only voter.
            pair = len(voters) == 2 and not missing and not world.leaving.intersection(voters)
            if missing >= (len(voters) - 1) // 2 and not pair:
                return False
        return True

    def _spares(self, broker: str) -> bool:
        """Whether the others make a majority in every stream, before and after a change that is under way: who is gone
        for good takes a vote with it that nobody gives back, where one that comes back votes again."""
        return all(
            sum(self._keeps(voter, stream) for voter in voters if voter != broker) >= majority(voters)
            for stream, voters in self._votes()
            if broker in voters
        )

    def _votes(self) -> list[tuple[str, list[str]]]:
        """Stream -> who votes, and who will when a change that is under way is committed."""
        counts = [(stream, voters) for stream, voters in self.voters.items() if stream not in self.deleted]
        for name, machine in self.world.machines.items():
            if name in self.world.sequencers():
                counts += [(s.name, s.changed) for s in machine.order.streams.values() if s.change]
                continue
            keepers = [machine.keeper] if name in self.world.brokers else []
            keepers += [hosted.keeper for hosted in machine.queues.values()] if "." in name else []
            said = [keeper.log_report() for keeper in keepers]
            counts += [(frame.stream, frame.changed) for frame in said if frame.change]
        return counts

    def _keeps(self, broker: str, stream: str) -> bool:
        """Whether its copy of the stream counts."""
        machine = self.world.machines.get(broker)
        if machine is None or self._out(broker, machine) or not self._is_back(machine):
            return False
        if stream == CLUSTER:
            return self._counts(machine.keeper)
        replica = self.world.machines.get(machine.placement.of.get(stream, ""))
        hosted = replica.queues.get(stream) if replica is not None else None
        if hosted is None:  # deleted, or not declared here yet: it has forgotten nothing, if it has not forgotten all
            return self._counts(machine.keeper) and machine.wiring.by_id(stream) is None
        return self._counts(hosted.keeper)

    def _counts(self, keeper: Any) -> bool:
        """Whether a log counts: not one without a vote, nor one so far behind that only an update helps it."""
        if keeper.blank:
            return keeper.log_report().joins
        leading = [m for name in self.world.sequencers() if (m := self.world.machines[name]).election.role == "leading"]
        streams = [m.order.streams[keeper.stream] for m in leading if keeper.stream in m.order.streams]
        return all(stream.base <= keeper.end for stream in streams)

    def _is_back(self, machine: Any) -> bool:
        """Of a broker with a store: whether it knows by now what it has lost."""
        if self.world.stores is None:
            return True
        return machine.store.opened and machine.lifecycle.returned and not machine._out

    def _out(self, broker: str, machine: Any) -> bool:
        """It may be out of a queue and not know it yet."""
        incs = machine.placement.incs
        return any(
            hosted.state.fence.evicted.get(broker, -1) >= incs[id] and broker in self.voters.get(id, ())
            for name, other in self.world.machines.items() if "." in name
            for id, hosted in other.queues.items() if id in incs
        )  # fmt: skip

    def missing(self) -> int:
        """Brokers that do not vote in all streams, of those that are meant to be there."""
        return sum(not self._whole(broker) for broker in self.world.brokers if broker != self.lame)

    def _whole(self, broker: str) -> bool:
        machine = self.world.machines.get(broker)
        if machine is None or machine.keeper.blank or not self._is_back(machine):
            return False
        if self._out(broker, machine):
            return False
        for queue in machine.wiring.all_kept():
            replica = self.world.machines.get(machine.placement.of.get(queue.id, ""))
            hosted = replica.queues.get(queue.id) if replica is not None else None
            if hosted is None or hosted.keeper.blank:
                return False
        return True

    def heal(self) -> None:
        """No more faults; what is under way ends."""
        self._doomed, self._burier = "", False
        if self.world.stores is not None:
            self.world.stores.calm()
        self.world.doomed.clear()
        self.world.run(max(self.world.now_us, self._until_us))
        self.world.run_for(SETTLE_US)

    def lose_one(self, rng: random.Random) -> None:
        """A broker dies for good: the others must do without it (I12, I17)."""
        if len(self.world.brokers) > 2:
            self.lame = rng.choice(self.world.brokers)
            self.world.crash(self.lame, back=False)

    def give_up_the_lost(self) -> None:
        """Half the time: who died for good is taken out of the voters."""
        if self.lame and self.world.rng.random() < 0.5:
            self.world.remove_broker(self.lame)
            self.lame = ""

    def healthy(self) -> bool:
        """Everybody is there, votes everywhere, and follows one sequencer that leads."""
        world = self.world
        if self.missing() or world.leaving or len(world.sequencers()) < 2:
            return False
        if not all(name in world.machines for name in world.ownerships):
            return False
        brokers = [world.machines[broker] for broker in world.brokers if broker != self.lame]
        leaders = {(broker.view.leader, broker.view.promised) for broker in brokers}
        if len(leaders) > 1 or not all(broker.view.attached for broker in brokers):
            return False
        # A queue that nobody holds any more must be free: whoever is out holds nothing.
        return all(
            hosted.state.owner != self.lame and all(holder[0] != self.lame for holder in hosted.state.acquired)
            for name, replica in world.machines.items() if "." in name for hosted in replica.queues.values()
        ) if self.lame else True  # fmt: skip
