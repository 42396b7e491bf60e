"""Which of a broker's clients are held back as they send, and by what: in RabbitMQ's words for states of connections.

*flow*: what the client has sent waits, since a queue holds its producers back, or flow control is on in the whole
cluster; *blocked*: the broker has it send no transfers; else *running*.
"""

from __future__ import annotations

from typing import Any

from .cluster_state import ClusterState
from .session import Session
from .transfers import Transfers

RUNNING, FLOW, BLOCKED = "running", "flow", "blocked"


class Restraints:
    """As they are now: of one look at all clients."""

    def __init__(self, cluster: ClusterState, transfers: Transfers) -> None:
        self._transfers = transfers
        self._queues = transfers.verdicts.waiting()
        why = "; ".join(cluster.wiring.flow.members.values())
        self._stopped = f"flow control of the cluster: {why}" if why else ""
        self._full = f"{cluster.broker}: {'its disk has no room' if cluster.no_room else 'too much is on its way'}"

    def of(self, session: Session) -> dict[str, Any]:
        """`state`; `held_back_by`: names of the queues that hold it back; `why`: all of it in words, "" for nothing."""
        queues = self._queues.get(session.peer, [])
        why = [f"producer flow control: {', '.join(map(repr, queues))} waits for its consumers"] if queues else []
        blocked = session.peer in self._transfers.throttle.blocked
        if self._stopped and (session.senders or blocked):
            why.append(self._stopped)
        elif blocked:
            why.append(self._full)
        state = BLOCKED if blocked else FLOW if why else RUNNING
        return {"state": state, "held_back_by": queues, "why": "; ".join(why)}
