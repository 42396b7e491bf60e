"""The voter's half of a broker on a simulated store, and a story of such voters: power fails, stores die, disks stall.

Real sequencers, keepers, stores and logs; no clients but one, which asks for events of the cluster stream. It stands
until brokers with stores play whole stories: what is found here is found in milliseconds.
"""

from __future__ import annotations

import random
from typing import Any

from mantamq.protocol.log.acceptor import Acceptor
from mantamq.protocol.log.checkpoint import opening_of
from mantamq.protocol.log.durability import Durability, Promises, RecordWriter
from mantamq.protocol.log.history import StreamHistory
from mantamq.protocol.log.keeper import Keeper
from mantamq.protocol.log.quorum import majority
from mantamq.protocol.machine import Flush, Load, Loaded, PeerDown, PeerGone, PeerUp, Received, Tick
from mantamq.protocol.store.machine import StoreMachine
from mantamq.protocol.wire.events import CLUSTER
from mantamq.protocol.wire.log_frames import (
    Append,
    Evicted,
    Heartbeat,
    HeartbeatReply,
    Promise,
    Request,
    Results,
    Suspect,
)
from mantamq.protocol.wire.records import OPENED, encode_record
from mantamq.protocol.wire.store_frames import Ousted, Take, Taken, Written

from ..store.disks import Fault
from .disk_checker import DiskChecker
from .model import Violation
from .stores import Stores
from .world import World

CLIENT = "client"
EVENT = b"\x92\x7d"
"""A kind of event that no program knows yet: it is kept, and changes nothing."""


class StoredVoter(Acceptor):
    """A durable voter of the cluster stream, as `BrokerMachine` is one, and nothing else of a broker."""

    keeper_class: Any = Keeper
    promises_class: Any = Promises

    def __init__(
        self, broker: str, inc: int, members: list[str], *, blank: bool = False, timing: Any, limits: Any
    ) -> None:
        super().__init__(timing)
        self.broker, self.life, self.blank = broker, inc, blank
        self.members = members
        self.writer = RecordWriter()
        self.keeper: Any = None
        self.taken: Taken | None = None
        self.applied: list[Any] = []
        self.ready = False  # its life is on disk
        self.waiting: list[Any] = []
        self.needs_ack = False
        self.forgets = False  # too far behind

    @property
    def out(self) -> bool:
        """It has to begin anew, or died before its log began: it would need an update, which this half of a broker
        cannot take."""
        return self.forgets or (self.keeper is not None and self.keeper.blank)

    def step(self, input: Any) -> list[Any]:
        kind = type(input)
        if kind is Tick:
            self.now_ms = input.now_ms
        elif kind is Flush:
            if (write := self.writer.gathered()) is not None:
                self.send(f"{self.broker}.store", write)
            if self.needs_ack and self.keeper is not None:
                self.needs_ack = False
                self.lead(self.keeper.ack(self.keeper.commit))
        elif kind is Loaded:
            self.loaded(input)
        elif kind is Received and type(input.frame) in (Taken, Written, Ousted):
            self.from_store(input.frame)
        elif kind is PeerUp and input.peer == f"{self.broker}.store":
            self.send(input.peer, Take(CLUSTER, self.life))
        elif kind in (PeerUp, PeerDown, PeerGone, Received):
            self.hear(input) if self.ready else self.waiting.append(input)
        return self.take()

    # ---- its store

    def from_store(self, frame: Any) -> None:
        if type(frame) is Written:
            self.writer.written(frame)
        elif type(frame) is Ousted:
            self.retire("ousted")
        else:
            self.taken = frame
            if frame.last:
                self.effects.append(Load(CLUSTER, frame.checkpoint, frame.last))  # type: ignore[arg-type]
            else:
                self.loaded(Loaded(CLUSTER, []))

    def loaded(self, loaded: Loaded) -> None:
        frame, history = self.taken, StreamHistory()
        assert frame is not None
        if loaded.hurt or frame.hurt:
            raise Violation(f"{self.broker} finds its log hurt, and nothing has hurt it")
        for _, kind, payload in loaded.records:
            history.read(kind, payload)
        blank = frame.blank if loaded.records else self.blank
        log_inc = history.log_inc or self.life
        self.view.promised = frame.promised
        self.promises = self.promises_class(self.writer, frame.promised)
        self.keeper = self.keeper_class(
            CLUSTER, self.broker, self.life, blank, frame.promised, list(self.members), log_inc, frame.opened, True
        )
        self.keeper.durability = Durability(CLUSTER, self.writer, self.wrote)
        if loaded.records:
            self.applied = self.keeper.resume(history)
        record = opening_of(self.keeper, self.keeper.voters)
        self.writer.put(OPENED, CLUSTER, encode_record(record), self.opened)

    def opened(self, lsn: int) -> None:
        self.ready = True
        waiting, self.waiting = self.waiting, []
        for input in waiting:
            if type(input) is not Received or type(input.frame) is not Heartbeat:
                self.hear(input)

    def wrote(self) -> None:
        self.applied += self.keeper.wrote()
        self.needs_ack = True

    # ---- others

    def hear(self, input: Any) -> None:
        if type(input) is PeerUp:
            self.view.up(input.peer)
        elif type(input) in (PeerDown, PeerGone):
            self.view.down(input.peer, self.now_ms)
        else:
            peer, frame = input.peer, input.frame
            if type(frame) is Append:
                self.append(peer, frame)
            elif type(frame) is Evicted and frame.forget:
                self.forgets = True  # a broker would come back blank, through an update
            elif type(frame) is Evicted:
                self.evicted(peer, frame)
            elif (rule := self.rules().get(type(frame))) is not None:
                rule(peer, frame)
                if type(frame) is Heartbeat and peer == self.view.leader:
                    self.send(peer, HeartbeatReply(frame.ballot, frame.number, self.broker, self.life))

    def keepers(self) -> list[Any]:
        return [self.keeper]

    def keeper_of(self, stream: str) -> Any:
        return self.keeper if stream == CLUSTER else None

    def pledge(self) -> None:
        keeper, leader = self.keeper, self.view.leader
        self.send(leader, keeper.log_report())
        said = self.view.promised
        self.send(
            leader,
            Promise(said, self.broker, keeper.log_inc, keeper.blank, [], self.life, keeper.opened, keeper.earlier),
        )

    def attached(self) -> None:
        self.needs_ack = True

    def append(self, peer: str, frame: Append) -> None:
        if frame.stream == CLUSTER and self.follow(peer, frame.ballot):
            committed, refusal = self.keeper.append(frame)
            self.applied += committed
            self.needs_ack = True
            if refusal is not None:
                self.send(peer, refusal)


class Asker:
    """The one client: it asks, and asks again whoever leads.

    Attributes:
        asked: the last number. answered: those that were answered.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.asked = 0
        self.answered: set[int] = set()
        self._said = 0  # the last number that was sent to the leader
        self._leader: Any = None
        world.clients[CLIENT] = self
        world.watch(sent={Results: self._results})

    def outlives(self) -> bool:
        return True

    def receive(self, frame: Any) -> None:
        pass

    def _results(self, source: str, target: str, frame: Results) -> None:
        if target == CLIENT:
            self.answered.update(frame.numbers)

    def ask(self, count: int) -> None:
        self.asked += count
        self.again(self._said)

    def again(self, behind: int = 0) -> None:
        """To another leader all goes again, in order: a number is taken for a repeat if a higher one has come."""
        world = self.world
        machines = [world.machines[name] for name in world.sequencers()]
        leading = [machine for machine in machines if machine.election.role == "leading"]
        if not leading:
            return
        leader = max(leading, key=lambda machine: machine.order.ballot)
        (name,) = [name for name in world.sequencers() if world.machines[name] is leader]
        if (name, leader.order.ballot) != self._leader:
            self._leader, behind = (name, leader.order.ballot), 0
        for number in range(behind + 1, self.asked + 1):
            if number not in self.answered:
                world.post(CLIENT, name, Request(CLIENT, 1, number, [(CLUSTER, EVENT + bytes([number % 100]))]))
        self._said = self.asked


class VotersStory:
    """One seed: brokers with stores, faults, and an end at which all that was answered is everywhere.

    Attributes:
        counts: kind of fault -> how often.
    """

    KINDS = ("power_all", "power", "power", "kill", "leader", "needless", "error", "torn")

    def __init__(self, seed: int, voter: Any = StoredVoter, store: Any = StoreMachine) -> None:
        self.rng = random.Random(seed)
        self.counts: dict[str, int] = {}
        self.world = World(self.rng, machines={"broker": voter}, standby=True, replicas=1)
        self.stores = Stores(self.world, store)
        self.checker = DiskChecker(self.stores)
        self.asker = Asker(self.world)
        for broker in self.world.brokers:
            self.stores.begin(broker)

    def run(self, turns: int = 60) -> None:
        world, rng = self.world, self.rng
        for _ in range(turns):
            world.run_for(rng.choice([1_000, 20_000, 20_000, 300_000]))
            if rng.random() < 0.6:
                self.asker.ask(rng.choice([1, 1, 5, 30]))
            if rng.random() < 0.12:
                kind = rng.choice(self.KINDS)
                self.counts[kind] = self.counts.get(kind, 0) + 1
                getattr(self, f"_{kind}")()
            self._suspect()
        self.rest()

    def rest(self) -> None:
        """No more faults: everything is answered, and everybody has it."""
        self.stores.calm()
        for files in self.stores.disks.values():
            files.heal()
        for _ in range(200):
            self.world.run_for(200_000)
            self._suspect()
            self.asker.again()
            if len(self.asker.answered) == self.asker.asked and not self._lacking():
                return
        missing = self.asker.asked - len(self.asker.answered)
        raise Violation(f"at the end {missing} requests have no answer, and these lack some: {self._lacking()}")

    def _lacking(self) -> list[str]:
        lacking: list[str] = []
        out: list[str] = []
        for broker in self.world.brokers:
            machine = self.world.machines.get(broker)
            if machine is not None and machine.out:
                out.append(broker)
                continue
            shown = [one.number for one in machine.applied if one.origin == CLIENT] if machine is not None else []
            if shown != sorted(set(shown)):
                raise Violation(f"{broker} has applied requests twice or out of order: {shown}")
            if not self.asker.answered <= set(shown):
                lacking.append(broker)
        return lacking if len(out) < majority(self.world.brokers) else out

    def _suspect(self) -> None:
        """Whoever has no leader asks a standby to lead."""
        world = self.world
        if any(world.machines[name].election.role == "leading" for name in world.sequencers()):
            return
        for name in world.sequencers():
            for broker in world.brokers:
                machine = world.machines.get(broker)
                if machine is not None and machine.ready:
                    frame = Suspect(machine.view.promised, broker, list(world.brokers))
                    world.give(name, Received(broker, frame))

    # ---- faults

    def _power_all(self) -> None:
        """Everything is off; it comes back in any order."""
        for name in self.world.sequencers():
            self.world.crash(name)
        self.stores.power(*self.world.brokers)

    def _power(self) -> None:
        self.stores.power(self.rng.choice(self.world.brokers))

    def _kill(self) -> None:
        self.stores.kill(self.rng.choice(self.world.brokers))

    def _leader(self) -> None:
        for name in self.world.sequencers():
            if self.world.machines[name].election.role == "leading":
                self.world.crash(name)

    def _needless(self) -> None:
        standbys = [name for name in self.world.sequencers() if self.world.machines[name].election.role == "standby"]
        if standbys and all(broker in self.world.machines for broker in self.world.brokers):
            self.world.suspect_leader(self.rng.choice(standbys))

    def _error(self) -> None:
        """A call of a disk fails, a flush perhaps: the store ends, and opens again (`durable.md` 6)."""
        self.stores.disks[self.rng.choice(self.world.brokers)].fail(self.rng.randrange(8), Fault.EIO)

    def _torn(self) -> None:
        """The power fails in the midst of a write or flush."""
        broker = self.rng.choice(self.world.brokers)
        fault = self.rng.choice([Fault.CRASH_BEFORE, Fault.CRASH_AFTER])
        self.stores.disks[broker].fail(self.rng.randrange(8), fault)
