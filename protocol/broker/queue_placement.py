"""Which of a broker's queue replicas keeps which queue.

A new queue goes to a warm spare replica, or, when as many keep queues as the machine makes use of, is hashed onto those
(`design.md` section 12). What a dead replica kept goes to others, blank and under a new incarnation: they may not vote
with a log they do not have (K4).
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

from ..machine import KeepAlive, WantSpare
from ..wire.queue_frames import Host, Unhost
from ..wiring.wiring import QueueDefinition

INCARNATIONS_PER_BROKER = 1000
"""So many incarnations a broker has for its queues, from its own on: a replica that dies takes one. The broker's next
one is further away."""

if TYPE_CHECKING:
    from .machine import BrokerMachine


BEAT_MS = 1000
PATIENCE_MS = 3000
"""A replica that says nothing for so long is taken for dead: it may hold consume locks, and stand still."""


class QueuePlacement:
    """Attributes:
    replicas: connected queue replicas, and the queue ids each keeps.
    of: queue id -> the replica that keeps it.
    starting: queue id -> index of its declaration, until its replica keeps it.
    homeless: queue id -> whether blank: declared, and no replica is connected.
    incs: queue id -> incarnation under which it is kept.
    voters: queue id -> the members when it was declared.
    """

    def __init__(self, broker: BrokerMachine, most: int = 0) -> None:
        self.replicas: dict[str, set[str]] = {}
        self.of: dict[str, str] = {}
        self.starting: dict[str, int] = {}
        self.homeless: dict[str, bool] = {}
        self.incs: dict[str, int] = {}
        self.voters: dict[str, list[str]] = {}
        self._broker = broker
        self._most = most
        self._losses = 0

    def up(self, replica: str) -> None:
        """A replica has connected."""
        self.replicas.setdefault(replica, set())
        self._broker.effects.append(KeepAlive(replica, BEAT_MS, PATIENCE_MS))
        self._broker.lifecycle.replica_up(replica)
        homeless, self.homeless = self.homeless, {}
        for id, blank in homeless.items():
            definition = self._broker.wiring.by_id(id)
            if definition is not None:
                self.assign(definition, blank)

    def lost(self, replica: str) -> list[tuple[str, int]]:
        """A replica has died; returns what it kept, as (queue id, incarnation). `assign` must follow."""
        self._losses += 1
        if self._losses >= INCARNATIONS_PER_BROKER:
            self._broker.retire(f"{INCARNATIONS_PER_BROKER} replicas have died under it: it begins anew")
        ids = sorted(self.replicas.pop(replica))
        for id in ids:
            self.of.pop(id, None)
        return [(id, self.incs.get(id, self._broker.inc)) for id in ids]

    def assign(self, definition: QueueDefinition, blank: bool) -> None:
        """Give a queue to a replica."""
        broker = self._broker
        voters = self.voters.setdefault(definition.id, list(broker.members))
        if not self.replicas:
            self.homeless[definition.id] = blank
            return
        spares = [name for name, queues in self.replicas.items() if not queues]
        keeping = sorted(name for name, queues in self.replicas.items() if queues)
        if spares and (not self._most or len(keeping) < self._most):
            name = spares[0]
            broker.effects.append(WantSpare())
        else:
            name = keeping[zlib.crc32(definition.name.encode()) % len(keeping)]
        self.replicas[name].add(definition.id)
        self.of[definition.id] = name
        inc = self.incs[definition.id] = broker.inc + self._losses
        promised = broker.view.promised
        host = Host(definition.id, definition.alternate, definition.arguments, promised, blank, inc, voters)
        broker.send(name, host)

    def started(self, id: str) -> None:
        """A replica keeps the queue now; somebody may have waited for it."""
        if self.starting.pop(id, None) is not None:
            self._broker.needs_ack = True

    def forget(self, id: str) -> None:
        """The queue is deleted."""
        self.starting.pop(id, None)
        self.homeless.pop(id, None)
        self.incs.pop(id, None)
        self.voters.pop(id, None)
        replica = self.of.pop(id, None)
        if replica is not None:
            self.replicas[replica].discard(id)
            self._broker.send(replica, Unhost(id))

    def restored(self) -> None:
        """The wiring is another broker's snapshot: keep what it says, blank."""
        definitions = self._broker.wiring.queues()
        known = {definition.id for definition in definitions}
        for id in [id for id in [*self.of, *self.homeless] if id not in known]:
            self.forget(id)
        for definition in definitions:
            if definition.id not in self.of:
                self.assign(definition, True)

    def applied(self, commit: int) -> int:
        """How far the cluster stream is not only applied but shown: its queues are kept."""
        return min(self.starting.values()) - 1 if self.starting else commit

    def report(self) -> dict[str, object]:
        replicas = {name: sorted(queues) for name, queues in self.replicas.items()}
        return {"replicas": replicas, "homeless": sorted(self.homeless)}
