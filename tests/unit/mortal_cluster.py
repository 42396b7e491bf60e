"""The cluster of `cluster_in_memory.py`, whose processes die and come back without what they held."""

from __future__ import annotations

from typing import Any

from cluster_in_memory import MemoryCluster
from mantamq.protocol.machine import OWNERSHIP, Members, PeerDown, is_sequencer
from mantamq.protocol.sequencer.machine import SequencerMachine

LIFE = 10_000


class MortalCluster(MemoryCluster):
    def __init__(self, brokers: int = 3, replicas: int = 1, **options: Any) -> None:
        self._lives: dict[str, int] = {}
        self._born = 0
        super().__init__(brokers, replicas, **options)

    def kill(self, *names: str) -> None:
        """Processes are gone; a broker's replicas go with it."""
        dead = [name for name in self.machines if name in names or name.partition(".")[0] in names]
        for name in dead:
            del self.machines[name]
            self.timers.pop(name, None)
        for other in self.machines:
            self._inbox += [(other, PeerDown(name)) for name in dead]
        self.settle()

    def sequencers(self) -> list[str]:
        return [name for name in self.machines if is_sequencer(name)]

    def leader(self) -> SequencerMachine:
        return next(self.machines[s] for s in self.sequencers() if self.machines[s].election.role == "leading")

    def add_sequencer(self, name: str = "sequencer2") -> None:
        self.machines[name] = SequencerMachine(
            100 + int(name.removeprefix("sequencer")),
            self.members,
            leading=False,
            timing=self.timing,
            limits=self.limits,
        )
        for other in list(self.machines):
            if not is_sequencer(other):
                self._up(name, other)
        self.settle()

    def add_replica(self, broker: str) -> str:
        self._born += 1
        name = f"{broker}.r{100 + self._born}"
        self.machines[name] = self.queue_replica(name, broker, 1000 + self._born)
        fellows = [other for other in self.machines if "." in other and not other.startswith(broker + ".")]
        for peer in (*self.sequencers(), OWNERSHIP, broker, *fellows):
            self._up(peer, name)
        self.settle()
        return name

    def add_broker(self, broker: str, replicas: int = 1) -> None:
        """Come back, blank."""
        self._lives[broker] = self._lives.get(broker, 0) + LIFE
        self.machines[broker] = self.broker(broker, 1 + self._lives[broker], blank=True)
        self._inbox.append((broker, Members(dict.fromkeys(self.members, "127.0.0.1:1"))))
        for sequencer in self.sequencers():
            self._up(sequencer, broker)
        self.settle()
        for _ in range(replicas):
            self.add_replica(broker)

    def replica(self, broker: str, queue: str) -> str:
        """The one that keeps a queue, at a broker."""
        wiring = self.machines[broker].wiring
        return self.machines[broker].placement.of[wiring.queue(queue).id]
