"""Clients with senders hear why nothing of what they send completes: flow control is on in the whole cluster."""

from __future__ import annotations

from collections.abc import Mapping

from ..log.outbox import FollowerOutbox
from ..wire.flow_frames import FlowStopped
from ..wire.version import KNOWS_STOPPED
from .cluster_state import ClusterState
from .session import Session


class FlowNews:
    """Args: sessions: peer -> its session, of all connections."""

    def __init__(self, outbox: FollowerOutbox, cluster: ClusterState, sessions: Mapping[str, Session]) -> None:
        self._outbox = outbox
        self._cluster = cluster
        self._sessions = sessions
        self._why = ""  # as clients have been told

    def tell(self) -> None:
        """At the end of a batch: flow control may have gone on or off."""
        members = self._cluster.wiring.flow.members
        if members or self._why:
            why = "; ".join(members.values())
            if why != self._why:
                self._why = why
                for session in self._sessions.values():
                    if session.senders:
                        self._say(session)

    def attached(self, session: Session) -> None:
        """The client has another sender, perhaps its first."""
        if self._why and session.senders:
            self._say(session)

    def _say(self, session: Session) -> None:
        if session.minor >= KNOWS_STOPPED:
            self._outbox.send(session.peer, FlowStopped(self._why))
