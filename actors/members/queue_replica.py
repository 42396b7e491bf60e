"""A queue replica: hosts one or more queues of one broker. Dials sequencer, Ownership, its broker, and the replicas of
other brokers that were there before it."""

from __future__ import annotations

from typing import Any

from ...protocol.capture.capture import ReportingReplica
from ...protocol.replica.machine import ReplicaMachine
from ..links.handshake import Credentials
from .member import MemberActor


class QueueReplica(MemberActor):
    async def start(
        self, own: Credentials, bind: str, broker: str, inc: int, peers: dict[str, str], events: bool = False
    ) -> dict[str, str]:
        """Listen at `bind`, dial `peers`: the sequencers, Ownership, the broker, and replicas of other brokers; with
        `events` the tap, too.

        Returns:
            ``{"peers": "host:port"}`` for other replicas.
        """
        shell = self._run((ReportingReplica if events else ReplicaMachine)(self.name, broker, inc), own)
        self.addresses = {"peers": await shell.listen_peers(bind)}
        await self.meet(peers)
        return self.addresses

    async def digests(self) -> dict[str, tuple[int, int]]:
        """Queue id -> (how far its stream is applied, checksum of its state): equal on all replicas at equal places."""
        queues = self._running().machine.queues  # type: ignore[union-attr]
        return {id: (hosted.applied, hosted.state.digest()) for id, hosted in queues.items() if not hosted.updating}

    def _report(self, machine: ReplicaMachine) -> dict[str, Any]:
        return {queue: machine.report(queue) for queue in machine.queues}

    def __repr__(self) -> str:
        queues = getattr(self.shell.machine, "queues", {}) if self.shell is not None else {}
        hosted = ", ".join(sorted(id.rsplit("#", 1)[0] for id in queues))
        return f"QueueReplica({self.name}: {hosted})" if hosted else f"QueueReplica({self.name})"
