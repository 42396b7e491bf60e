"""In some stories the processes of a broker have more memory than they may, for a while: flow control is on for that
broker meanwhile, and as long as they have not come down to nine tenths of it.

Where nothing breaks it is judged how soon a broker knows and how soon that has its effect. Where things break, its
processes may be slow or stand still, so all that counts is what it has heard of them: flow control may be on for as long
as that is too much. Everywhere it is off in the end (`flows.py`).
"""

from __future__ import annotations

import random

from mantamq.protocol.limits import DEFAULT
from mantamq.protocol.machine import Measured, PeerDown, broker_of
from mantamq.protocol.wire import events
from mantamq.protocol.wire.flow_frames import Resident

from .checkers import Watcher
from .flows import Flows
from .model import Violation
from .world import World

SHARE = 0.1
"""The share of stories in which that happens."""
MIB = 1024 * 1024
WATERMARK_MIB, RESUME_MIB = 1_000, 900
STEP_MIB = 4
"""A process need not tell what is less than that."""
BEAT_US = 20_000
SOON_US = 200_000
LEVELS = {"low": (300, 600), "between": (920, 990), "high": (1_100, 3_000)}
"""What all processes of a broker have together, in MiB."""


def drawn(seed: int) -> int:
    """The watermark of a story; 0: none, for nobody measures."""
    return WATERMARK_MIB * MIB if random.Random(f"memory of {seed}").random() < SHARE else 0


class Heard:
    """What one life of a broker has heard of its processes: what the product makes of that, written a second time.

    Attributes: mib (what all have, at each one's last word), much (that is too much, or is not yet much less again).
    """

    def __init__(self) -> None:
        self.mib = 0.0
        self.much = False
        self._own_bytes: int | None = None
        self._told: dict[str, int] = {}  # replica -> its word
        self._gone: set[str] = set()  # none of these names comes again

    def told(self, replica: str, bytes: int) -> None:
        if replica not in self._gone:
            self._told[replica] = bytes
            self._judge()

    def gone(self, peer: str) -> None:
        self._gone.add(peer)
        self._told.pop(peer, None)

    def measured(self, own_bytes: int) -> None:
        """The words of processes are of different moments: together they may be more than there ever was."""
        self._own_bytes = own_bytes
        self._judge()

    def _judge(self) -> None:
        if self._own_bytes is None:
            return
        self.mib = (self._own_bytes + sum(self._told.values())) / MIB
        self.much = self.mib > WATERMARK_MIB or (self.much and self.mib >= RESUME_MIB)


class Memories:
    """
    Args:
        judged: nothing breaks in this story.

    Attributes:
        raised: how often a broker's processes had too much; looked: at so many beats that was judged.
    """

    def __init__(self, world: World, watch: Watcher, flows: Flows, seed: int, judged: bool) -> None:
        self.world = world
        self.watch = watch
        self.flows = flows
        self.raised = self.looked = 0
        self._rng = random.Random(f"levels of {seed}")
        self._judged = judged
        self._calm = False
        self._levels: dict[str, int] = {}  # broker -> what its processes have, in MiB
        self._heard: dict[str, Heard] = {}  # broker -> what it knows of that, in this life
        self._since: dict[str, tuple[tuple[int, int, bool], int]] = {}  # broker -> how it is with it, since when
        if world.limits.memory_bytes:
            flows.crowded = lambda broker: self._of(broker).much
            world.watch(
                arrived={Resident: lambda source, target, frame: self._of(target).told(source, frame.bytes)},
                told={
                    Measured: lambda name, input: self._of(name).measured(input.resident_bytes),
                    PeerDown: lambda name, input: self._of(name).gone(input.peer),
                },
            )
            world.deaths.append(lambda name, machine: self._heard.pop(name, None))
            world.after(BEAT_US, self._beat)

    def _of(self, broker: str) -> Heard:
        return self._heard.setdefault(broker, Heard())

    def calm(self) -> None:
        """From here on all have little."""
        self._calm = True
        self._levels = dict.fromkeys(self._levels, 300)

    def _beat(self) -> None:
        rng, world = self._rng, self.world
        if not self._calm and rng.random() < 0.1:
            broker = rng.choice(sorted(world.brokers))
            self._levels[broker] = rng.randrange(*LEVELS[rng.choice(["low", "between", "high"])])
        for broker in sorted(world.brokers):
            total = self._levels.get(broker, 300)
            names = [name for name in sorted(world.machines) if broker_of(name) == broker and name != broker]
            names = [name for name in names if not name.endswith(".store")]
            own = total // 3 if names else total
            for place, name in enumerate(names):
                rest = total - own
                share = rest // len(names) + (rest % len(names) if place == 0 else 0)
                world.measure(name, Measured(share * MIB, 0))
            if broker in world.machines:
                world.measure(broker, Measured(own * MIB, 0))
            self._judge(broker, total, len(names))
        world.after(BEAT_US, self._beat)

    def _judge(self, broker: str, total: int, replicas: int) -> None:
        """Where nothing breaks, a broker soon knows what its processes have, and flow control is on for it if by that
        they have too much."""
        world, heard = self.world, self._of(broker)
        now, (before, since_us) = (total, replicas, heard.much), self._since.get(broker, ((0, 0, False), 0))
        if now != before:
            self.raised += heard.much and not before[2]
            self._since[broker] = now, world.now_us
            return
        member = broker in self.watch.voters.get(events.CLUSTER, ()) and broker not in world.leaving
        if not self._judged or not member or world.now_us - since_us < SOON_US:
            return
        self.looked += 1
        if abs(heard.mib - total) > STEP_MIB * replicas:
            raise Violation(f"{broker} has {total} MiB since {since_us} us, and has heard of {heard.mib:g}")
        on = broker in self.flows.on(self.watch.commits.get(events.CLUSTER, 0))
        if heard.much and not on:
            raise Violation(f"{broker} has {total} MiB since {since_us} us, and flow control is not on for it")
        if on and not heard.much and world.limits.backlog_bytes == DEFAULT.backlog_bytes:
            raise Violation(f"{broker} has {total} MiB since {since_us} us, and flow control is on for it")
