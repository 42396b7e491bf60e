"""Which of a broker's queue replicas keeps which queue.

A new queue goes to a warm spare replica, or, when as many replicas keep queues as the broker makes use of, is hashed
onto those (`design.md` section 12). What a dead replica kept goes to others, under a new incarnation: with its log,
where that is on disk, else blank: a replica may not vote with a log it does not have (K4).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable

from ..limits import INCARNATIONS_PER_BROKER
from ..log.outbox import FollowerOutbox
from ..machine import KeepAlive, WantSpare
from ..timing import DEFAULT_TIMING, Timing
from ..wire.queue_frames import Host, Unhost
from ..wiring.definitions import QueueDefinition
from .cluster_state import ClusterState

UNHEARD = 256
"""A replica that dies has heard of all deleted queues but the last so many, at the most."""


class QueuePlacement:
    """Args:
        most: at most this many replicas keep queues, while any others are spares; 0: all.

    Attributes:
        replicas: connected queue replicas, and the queue ids each keeps.
        of: queue id -> the replica that keeps it.
        starting: queue id -> index of its declaration, until its replica keeps it.
        homeless: queue id -> its definition, and whether blank: declared, and no replica is connected.
        incs: queue id -> incarnation under which it is kept.
        voters: queue id -> the voters when it was declared.
        stored: this broker has a store: the logs of durable queues outlive the replicas that keep them.
        untaken: called with the id of a queue that is deleted while it is homeless, and whether it is durable: no
            replica will take its log to drop it.
        unheard: called with the id of a durable queue that is deleted, and whose replica has died since: it may not
            have heard of that.
    """

    def __init__(
        self, outbox: FollowerOutbox, cluster: ClusterState, most: int = 0, timing: Timing = DEFAULT_TIMING
    ) -> None:
        self._timing = timing
        self.replicas: dict[str, set[str]] = {}
        self.of: dict[str, str] = {}
        self.starting: dict[str, int] = {}
        self.homeless: dict[str, tuple[QueueDefinition, bool]] = {}
        self.incs: dict[str, int] = {}
        self.voters: dict[str, list[str]] = {}
        self.stored = False
        self.untaken: Callable[[str, bool], object] = lambda id, durable: None
        self.unheard: Callable[[str], object] = lambda id: None
        self._outbox = outbox
        self._cluster = cluster
        self._most = most
        self._losses = 0
        self._durable: set[str] = set()  # queues that are kept on disk
        self._unhosted: dict[str, dict[str, None]] = {}  # replica -> durable queues that it was told last to drop
        self.resume()

    def resume(self) -> None:
        """Begin with the queues of an earlier life: the durable ones are on disk, the others gone with it."""
        known = self._cluster.wiring.all_kept() if self._cluster.recovered else []
        self.homeless = {queue.id: (queue, not queue.durable) for queue in known}
        born = self._cluster.queue_voters
        self.voters = {queue.id: born[queue.id] for queue in known if queue.id in born}

    # ---- replicas come and go

    def up(self, replica: str) -> None:
        """A replica has connected. `settle` must follow."""
        self.replicas.setdefault(replica, set())
        timing = self._timing
        self._outbox.effects.append(KeepAlive(replica, timing.replica_keepalive_ms, timing.replica_patience_ms))

    def settle(self) -> None:
        """Give the queues that no replica keeps to those that are connected."""
        homeless, self.homeless = self.homeless, {}
        for id, (_, blank) in homeless.items():
            definition = self._cluster.wiring.kept(id)
            if definition is not None:
                self.assign(definition, blank)

    def lost(self, replica: str) -> list[tuple[str, int]]:
        """A replica has died; returns what it kept, as (queue id, incarnation). `assign` must follow."""
        self._losses += 1
        ids = sorted(self.replicas.pop(replica))
        for id in ids:
            self.of.pop(id, None)
        for id in self._unhosted.pop(replica, ()):
            self.unheard(id)
        return [(id, self.incs.get(id, self._cluster.inc)) for id in ids]

    @property
    def exhausted(self) -> bool:
        """Whether so many replicas have died that no incarnation is left for the queues."""
        return self._losses >= INCARNATIONS_PER_BROKER

    # ---- queues

    @property
    def life(self) -> int:
        """The incarnation under which a queue is kept that is given to a replica now: above that of whatever a replica
        has kept that has died since, and below no other."""
        return self._cluster.inc + self._losses

    def assign(self, definition: QueueDefinition, blank: bool) -> None:
        """Give a queue to a replica."""
        voters = self.voters.setdefault(definition.id, list(self._cluster.voters))
        if not self.replicas:
            self.homeless[definition.id] = definition, blank
            return
        spares = [name for name, queues in self.replicas.items() if not queues]
        keeping = sorted(name for name, queues in self.replicas.items() if queues)
        if spares and (not self._most or len(keeping) < self._most):
            name = spares[0]
            self._outbox.effects.append(WantSpare())
        else:
            name = keeping[zlib.crc32(definition.name.encode()) % len(keeping)]
        self.replicas[name].add(definition.id)
        self.of[definition.id] = name
        if definition.durable:
            self._durable.add(definition.id)
        inc = self.incs[definition.id] = self.life
        promised = self._outbox.view.promised
        arguments, alternate = definition.at_first
        host = Host(definition.id, alternate, arguments, promised, blank, inc, voters, definition.durable)
        self._outbox.send(name, host)

    def move(self, definition: QueueDefinition) -> None:
        """Another replica is to keep a queue whose replica has died: with its log, if that is on disk."""
        self.assign(definition, not (self.stored and definition.durable))

    def declared(self, definition: QueueDefinition, index: int, blank: bool) -> None:
        """A queue is declared by the entry at `index` of the cluster stream."""
        self.starting[definition.id] = index
        self.assign(definition, blank)

    def started(self, id: str) -> bool:
        """A replica keeps the queue now; whether that was waited for."""
        return self.starting.pop(id, None) is not None

    def forget(self, id: str) -> None:
        """The queue is deleted."""
        self.starting.pop(id, None)
        homeless = self.homeless.pop(id, None)
        if homeless is not None:
            self.untaken(id, homeless[0].durable)
        self.incs.pop(id, None)
        self.voters.pop(id, None)
        replica = self.of.pop(id, None)
        if replica is not None:
            self.replicas[replica].discard(id)
            self._outbox.send(replica, Unhost(id))
            if id in self._durable:
                told = self._unhosted.setdefault(replica, {})
                told[id] = None
                if len(told) > UNHEARD:
                    del told[next(iter(told))]
        self._durable.discard(id)

    def restored(self) -> None:
        """The wiring is another broker's snapshot: keep what it says, blank."""
        definitions = self._cluster.wiring.all_kept()
        known = {definition.id for definition in definitions}
        for id in [id for id in [*self.of, *self.homeless] if id not in known]:
            self.forget(id)
        for definition in definitions:
            if definition.id not in self.of:
                self.assign(definition, True)

    def applied(self, commit: int) -> int:
        """How far the cluster stream is not only applied but shown: its queues are kept."""
        return min(self.starting.values()) - 1 if self.starting else commit
