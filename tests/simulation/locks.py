"""The simulator with two Ownerships on hosts that are cut off: consume locks move on, and one broker at a time has one.

Three hosts carry a broker each; the sequencers and the Ownerships are spread over them, and nobody supervises: nothing
comes back but by the cluster itself. One queue has consumers at every broker and never runs dry, so its lock is wanted
by others all the time. The one on duty is cut off: alone, with its host, with the sequencer that leads, with the other
Ownership; or it stands still, or dies. While one Ownership, two brokers and a sequencer are together, no time as long
as `BOUND_US` passes without a grant that takes effect; of each grant every replica says the same owner (I14), and nobody
delivers who is not the owner by the log (Q1).
"""

from __future__ import annotations

import random
from collections.abc import Callable

from mantamq.protocol.machine import OWNERSHIP, OWNERSHIP2, SEQUENCER, is_ownership
from mantamq.protocol.sequencer.election import LEADING
from mantamq.protocol.supervisor.office import Commission
from mantamq.protocol.wire.queue_frames import ACCEPT

from .checkers import Watcher
from .clients import Client
from .deliveries import Deliveries
from .model import Violation
from .supervised import SUPERVISOR, SupervisedWorld
from .supervisors import Copy, Supervisor

QUEUE = "q"
HOSTS = ("h1", "h2", "h3")
BOUND_US = 7_000_000
"""The leader is suspected after 2 s, and another leads soon after; a broker that is cut off is out 3 s later."""
PACE_US = 40_000
FAULTS = 3
REST_US = 3_000_000
WHOLE_US = 30_000_000
BATCH = 4
WINDOW = 40


class LockWorld(SupervisedWorld):
    """Nobody supervises."""

    def _build(self) -> None:
        super()._build()
        one, two = self.rng.sample(HOSTS, 2)
        self.host |= {OWNERSHIP: one, OWNERSHIP2: two, SEQUENCER: self.rng.choice(HOSTS[:2])}

    def elect(self, name: str, host: str, commission: Commission, copy: Copy) -> None:
        self.supervisors.setdefault(SUPERVISOR, _Nobody())  # type: ignore[arg-type]

    def _died(self, name: str, machine: object) -> None:
        pass


class _Nobody(Supervisor):
    def __init__(self) -> None:
        self.host = "h1"


class Locks:
    """One story.

    Attributes:
        moved_us: when a grant of the queue took effect last.
        moves: how often.
        longest_us: between two of them, while an Ownership was there.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.world = LockWorld(self.rng)
        self.watch = Watcher(self.world)
        self.watch.faulty = True
        Deliveries(self.world, self.watch)
        self.moved_us = self.moves = self.longest_us = 0
        self.counts: dict[str, int] = {}
        self._last = 0
        self._names = 0
        self._sender: Client | None = None
        self._consumers: dict[str, Client] = {}
        self._excused_us = 0
        self._owners: dict[tuple[str, int], str] = {}

    # ---- clients

    def _client(self, broker: str) -> Client:
        self._names += 1
        return Client(self.world, f"c{self._names}", broker)

    def _served(self) -> list[str]:
        return [b for b in self.world.brokers if self.world.serves(b) and not self._apart(b)]

    def _apart(self, broker: str) -> bool:
        return self.world._cut.get(self.world.home(broker), 0) > self.world.now_us

    def _drive(self) -> None:
        """One step of all clients: the queue never runs dry, and everybody wants of it."""
        sender = self._sender
        if sender is None or not sender.alive or self._apart(sender.broker):
            sender = self._sender = self._client(self.rng.choice(self._served()))
            sender.attach_sender("", QUEUE)
        link = sender.links[1]
        if link.open and link.next - 1 - len(link.completed) - len(link.failed) < WINDOW:
            sender.transfer(1, BATCH)
        for broker in self.world.brokers:
            client = self._consumers.get(broker)
            if client is None or not client.alive:
                if not self.world.serves(broker):
                    continue
                client = self._consumers[broker] = self._client(broker)
                client.attach_receiver(QUEUE)
                client.flow(1, WINDOW)
            held = client.links[1].held
            if held and client.links[1].open:
                client.flow(1, len(held))
                client.settle(1, ACCEPT, list(held))

    # ---- what is looked at

    def _look(self) -> None:
        """Every replica that has applied a grant names the same owner for it; and the grant rises."""
        for name, machine in self.world.machines.items():
            for hosted in machine.queues.values() if "." in name else ():
                state = hosted.state
                if not state.owner or hosted.updating or hosted.keeper.blank:
                    continue
                said = self._owners.setdefault((state.id, state.grant), state.owner)
                if said != state.owner:
                    raise Violation(
                        f"I14: grant {state.grant} of {state.id} is {said}'s, and {state.owner}'s at {name}"
                    )
                if state.grant > self._last:
                    self._last, self.moved_us = state.grant, self.world.now_us
                    self.moves += 1
        still_us = self.world.now_us - max(self.moved_us, self._excused_us)
        self.longest_us = max(self.longest_us, still_us)
        if still_us > BOUND_US:
            raise Violation(
                f"the consume lock has not moved for {still_us / 1e6:.1f} simulated seconds, by grant {self._last}; "
                f"{self.counts}; {[m.duty.name for _, m in self._leaders()]}"
            )

    def _pass(self, us: int) -> None:
        end = self.world.now_us + us
        while self.world.now_us < end:
            self._drive()
            self.world.run_for(PACE_US)
            self._look()

    def _leaders(self) -> list[tuple[str, object]]:
        return [(n, self.world.machines[n]) for n in self.world.sequencers()
                if self.world.machines[n].election.role == LEADING and self.world.machines[n].election.deposed is None]  # fmt: skip

    def duty(self) -> str:
        """The Ownership on duty, by the highest ballot that leads."""
        found = [(m.order.ballot, m.duty.name) for _, m in self._leaders()]  # type: ignore[attr-defined]
        return max(found)[1] if found else OWNERSHIP

    # ---- the story

    def run(self) -> None:
        admin = self._client("b1")
        admin.command("declare_queue", name=QUEUE)
        self.world.run_for(1_000_000)
        self.moved_us = self.world.now_us
        self._pass(1_000_000)
        if self.moves < 5:
            raise Violation(f"the consume lock moved {self.moves} times in a second, with three brokers that want it")
        kinds: list[Callable[[int], None]] = [
            self._cut_host, self._cut_host, self._cut_one, self._with_leader, self._with_leader, self._cut_both,
            self._pause, self._die,
        ]  # fmt: skip
        for _ in range(FAULTS):
            kind = self.rng.choice(kinds)
            self.counts[kind.__name__] = self.counts.get(kind.__name__, 0) + 1
            kind(self.rng.choice([100_000, 600_000, 4_000_000, 9_000_000]))
            self._pass(REST_US)
            self._mend()

    def _mend(self) -> None:
        """Start again the processes that have ended, as a supervisor would; returns when all is whole."""
        world = self.world
        for name, machine in list(world.machines.items()):
            if name in world.sequencers() and machine.election.deposed is not None:
                world.crash(name)
        while len(world.sequencers()) < 2:
            used = {world.home(name) for name in world.sequencers()}
            world.meet(world.start_sequencer(self.rng.choice([host for host in HOSTS if host not in used])))
        for name in world.ownerships:
            if name not in world.machines:
                world.start_ownership(name)
        for broker in world.brokers:
            if broker not in world.machines:
                world._start_broker(broker)
        until = world.now_us + WHOLE_US
        self._pass(1_000_000)
        while wrong := self._missing():
            if world.now_us > until:
                raise Violation(f"not whole within {WHOLE_US / 1e6:g} simulated seconds: {wrong}")
            self._pass(200_000)

    def _missing(self) -> list[str]:
        """Brokers that do not keep the wiring and the queue now."""
        keep = {
            machine.broker
            for name, machine in self.world.machines.items()
            if "." in name
            and any(not hosted.keeper.blank and not hosted.updating for hosted in machine.queues.values())
        }
        return [b for b in self.world.brokers if b not in keep or self.world.machines[b].keeper.blank]

    def _cut_host(self, us: int) -> None:
        """The host of the one on duty, with all that is on it: no packet passes."""
        self.world.cut(self.world.home(self.duty()), us)
        self._pass(us)

    def _cut_one(self, us: int) -> None:
        self.world.partition([], [self.duty()], us)
        self._pass(us)

    def _with_leader(self, us: int) -> None:
        """Together with the sequencer that leads, so that nobody but the brokers can tell."""
        self.world.partition([], [self.duty(), *(name for name, _ in self._leaders())], us)
        self._pass(us)

    def _cut_both(self, us: int) -> None:
        """Nobody is left who could: what counts is the time from when they are back."""
        self.world.partition([], [*self.world.ownerships], us)
        self._excused_us = self.world.now_us + us
        self._pass(us)

    def _pause(self, us: int) -> None:
        self.world.pause(self.duty(), us)
        self._pass(us)

    def _die(self, us: int) -> None:
        """It comes back much later, and knows nothing."""
        self.world.crash(self.duty())
        self._pass(us)


def play_locks(seed: int) -> Locks:
    """Play one seed.

    Raises:
        Violation: a lock stands still, or two have it.
    """
    story = Locks(seed)
    story.run()
    assert all(is_ownership(name) for name in story.world.ownerships)
    return story
