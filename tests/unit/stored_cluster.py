"""The cluster of `mortal_cluster.py`, whose brokers have stores, on disks of lists: power goes out, and comes back.

Brokers and replicas write to their broker's store; every other link is as it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mantamq.protocol.machine import Load, Loaded, PeerUp, Retire, Stop, Stopped, Yield, Yielded
from mantamq.protocol.store.host import Advance, Commit, log_of
from mantamq.protocol.store.machine import StoreMachine
from mantamq.protocol.stored.broker import StoredBrokerMachine
from mantamq.protocol.stored.read_back import read_beside
from mantamq.protocol.stored.replica import StoredReplicaMachine
from mantamq.protocol.wire.events import CLUSTER
from mortal_cluster import MortalCluster
from toy_disk import ToyDisk

CONTAINER_BYTES = 1 << 20


class StoredCluster(MortalCluster):
    """`stalled`: brokers whose disks write nothing; `retired`: process -> why it asked for its end; `yielded`, `stopped`:
    who has said so."""

    def __init__(
        self, brokers: int = 3, kind: type[StoredBrokerMachine] = StoredBrokerMachine,
        replica_kind: type[StoredReplicaMachine] = StoredReplicaMachine, container_bytes: int = CONTAINER_BYTES,
        **options: Any,
    ) -> None:  # fmt: skip
        self.kind = kind
        self.replica_kind = replica_kind
        self.container_bytes = container_bytes
        self.disks: dict[str, ToyDisk] = {}
        self.stalled: set[str] = set()
        self.unwritten: dict[str, Commit] = {}
        self.retired: dict[str, str] = {}
        self.blank: set[str] = set()  # brokers that had a disk, and come back without
        self.loads: list[Load] = []
        self.yielded: list[str] = []
        self.stopped: list[str] = []
        super().__init__(brokers, 1, **options)
        self.pass_time(500)  # what a heartbeat said before the logs were open was not heard

    def broker(self, name: str, inc: int, blank: bool = False, **options: Any) -> StoredBrokerMachine:
        """With its store; it is as blank as its disk says."""
        disk = self.disks.setdefault(name, ToyDisk(self.container_bytes))
        store = f"{name}.store"
        self.machines[store] = StoreMachine(store)
        self._inbox += [(store, disk.recovered()), (store, PeerUp(name)), (name, PeerUp(store))]
        blank = name in self.blank
        return self.kind(name, inc, self.members, timing=self.timing, limits=self.limits, blank=blank, **options)

    def queue_replica(self, name: str, broker: str, inc: int, observers: Sequence[Any] = ()) -> StoredReplicaMachine:
        store = f"{broker}.store"
        self._inbox += [(store, PeerUp(name)), (name, PeerUp(store))]
        inc += self._lives.get(broker, 0)  # as everywhere it rises over all processes of a broker
        return self.replica_kind(name, broker, inc, self.timing, self.limits, observers)

    def _up(self, a: str, b: str) -> None:
        if not a.endswith(".store") and not b.endswith(".store"):  # those two know each other only
            super()._up(a, b)

    def _carry_out(self, name: str, effects: list[Any]) -> None:
        super()._carry_out(name, effects)
        owner = name.partition(".")[0]
        for effect in effects:
            if isinstance(effect, Commit):
                self.unwritten[owner] = effect
                if owner not in self.stalled:
                    self.write(owner)
            elif isinstance(effect, Advance):
                self.disks[owner].advance(effect)
            elif isinstance(effect, Load):
                self.loads.append(effect)
                read = self.disks[owner].read(log_of(effect.stream), effect.last, effect.checkpoint)
                records = [(record.lsn, record.kind, record.payload) for record in read]
                chain = (
                    self.disks[owner].before(log_of(effect.stream), effect.checkpoint) if effect.before_bytes else []
                )
                before = [(record.lsn, record.kind, record.payload) for record in chain]
                queue = effect.stream != CLUSTER
                loaded = (read_beside if queue else Loaded)(effect.stream, records, before=before)
                self._inbox.append((name, loaded))
            elif isinstance(effect, Retire):
                self.retired[name] = effect.reason
            elif isinstance(effect, Yielded):
                self.yielded.append(name)
            elif isinstance(effect, Stopped):
                self.stopped.append(name)

    def give_back(self) -> None:
        """The cluster is to stop: all brokers are told to give back what they hold."""
        self.yielded.clear()
        self._inbox += [(broker, Yield()) for broker in self.members]
        self.settle()

    def stop(self, *names: str, shutdown: str = "stop-1") -> None:
        self._inbox += [(name, Stop(shutdown)) for name in names]
        self.settle()

    def stop_clean(self) -> None:
        """As an operator stops a cluster: all give back what they hold, then write down what they have, then the
        stores are closed; all processes end."""
        self.give_back()
        stores = [f"{broker}.store" for broker in self.members]
        keepers = [*self.members, *(name for name in self.machines if ".r" in name)]
        self.stop(*keepers)
        assert (sorted(self.yielded), sorted(self.stopped)) == (self.members, sorted(keepers))
        self.stop(*stores)
        assert self.stopped[len(keepers) :] == stores
        self.cut_power(*self.members)
        self.kill(*self.sequencers())

    def write(self, broker: str) -> None:
        """The disk writes what it was given."""
        commit = self.unwritten.pop(broker)
        self._inbox.append((f"{broker}.store", self.disks[broker].carry_out(commit)))

    def resume(self, *brokers: str) -> None:
        """The disks stall no more."""
        for broker in brokers:
            self.stalled.discard(broker)
            if broker in self.unwritten:
                self.write(broker)
        self.settle()

    def cut_power(self, *brokers: str) -> None:
        """Their processes end, with all that was not flushed."""
        self.kill(*brokers)
        for broker in brokers:
            self.unwritten.pop(broker, None)
            self.stalled.discard(broker)
            self.disks[broker].cut_power()

    def come_back(self, *brokers: str) -> None:
        for broker in brokers:
            self.add_broker(broker)

    def blackout(self, *back: str) -> None:
        """All lose power, the sequencer too, and these come back."""
        self.cut_power(*self.members)
        self.kill(*self.sequencers())
        self.start_again(*back)

    def start_again(self, *brokers: str) -> None:
        """After a stop of all, with another sequencer."""
        self.add_sequencer(f"sequencer{len(self.retired) + 2 + self._born}")
        self.come_back(*brokers)
        for _ in range(30):
            self.pass_time(200)
