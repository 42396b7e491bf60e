"""A queue replica: hosts one or more queues of one broker. Dials sequencer, Ownership, its broker, and the replicas of
other brokers that were there before it."""

from __future__ import annotations

from typing import Any

from ..protocol.effects import OWNERSHIP, SEQUENCER
from ..protocol.replica import ReplicaMachine
from .handshake import Credentials
from .member import Member


class QueueReplica(Member):
    async def start(
        self, own: Credentials, bind: str, broker: str, inc: int, sequencer: str, ownership: str, broker_peers: str
    ) -> dict[str, str]:
        """Listen at `bind`, dial the sequencer, Ownership and the broker at their "host:port".

        Returns:
            ``{"peers": "host:port"}`` for other replicas.
        """
        shell = self._run(ReplicaMachine(self.name, broker, inc), own)
        shell.dial(SEQUENCER, sequencer)
        shell.dial(OWNERSHIP, ownership)
        shell.dial(broker, broker_peers)
        return {"peers": await shell.listen_peers(bind)}

    async def meet(self, fellows: dict[str, str]) -> None:
        """Dial replicas of other brokers: peer name to "host:port"."""
        for name, address in fellows.items():
            self._running().dial(name, address)

    def _report(self, machine: ReplicaMachine) -> dict[str, Any]:
        return {queue: machine.report(queue) for queue in machine.queues}

    def __repr__(self) -> str:
        queues = getattr(self.shell.machine, "queues", {}) if self.shell is not None else {}
        hosted = ", ".join(sorted(id.rsplit("#", 1)[0] for id in queues))
        return f"QueueReplica({self.name}: {hosted})" if hosted else f"QueueReplica({self.name})"
