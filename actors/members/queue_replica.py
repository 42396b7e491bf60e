"""A queue replica: hosts one or more queues of one broker. Dials sequencer, Ownership, its broker, and the replicas of
other brokers that were there before it; with a store that one, which keeps its durable queues."""

from __future__ import annotations

import logging

from ...protocol.capture.capture import ReplicaCapture
from ...protocol.machine import Load, Warn
from ...protocol.replica.machine import ReplicaMachine
from ...protocol.stored.replica import StoredReplicaMachine
from ..config import ReplicaConfig
from .member import MemberActor
from .stream_reader import StreamReader

log = logging.getLogger(__name__)


class QueueReplica(MemberActor):
    measures = True

    async def start(self, config: ReplicaConfig) -> dict[str, str]:
        """Listen, and dial the sequencers, Ownership, the broker, and replicas of other brokers; with events the tap,
        too.

        Returns:
            ``{"peers": "host:port"}`` for other replicas.
        """
        member, broker = config.member, config.broker
        observers = (
            (ReplicaCapture(self.name, broker, member.inc, member.timing, member.limits),) if config.events else ()
        )
        kind = StoredReplicaMachine if config.store else ReplicaMachine
        machine = kind(self.name, broker, member.inc, member.timing, member.limits, observers)
        reader = StreamReader(config.store, self._running)
        self._run(machine, member, deeds={Load: reader.load, Warn: self._warn})
        return await self._open(member)

    def _warn(self, effect: Warn) -> None:
        log.warning("%(member)s: %(alert)s", {"member": self.name, "alert": effect.text, "queue": effect.queue})

    async def digests(self) -> dict[str, tuple[int, int]]:
        """Queue id -> (how far its stream is applied, checksum of its state): equal on all replicas at equal places."""
        queues = self._running().machine.queues  # type: ignore[union-attr]
        return {id: (hosted.applied, hosted.state.digest()) for id, hosted in queues.items() if not hosted.updating}

    def __repr__(self) -> str:
        queues = getattr(self.shell.machine, "queues", {}) if self.shell is not None else {}
        hosted = ", ".join(sorted(id.rsplit("#", 1)[0] for id in queues))
        return f"QueueReplica({self.name}: {hosted})" if hosted else f"QueueReplica({self.name})"
