"""A broker's senders: what a client may attach one to, and how one ends. What they send is in `transfers.py`."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import NOT_ALLOWED, NOT_FOUND
from ..log.outbox import FollowerOutbox
from ..wire.client_frames import Attached, AttachSender, Detached
from ..wiring.relays import relay_name
from .cluster_state import ClusterState
from .connections import RESCUE, refuse
from .session import Session, Traffic
from .transfers import Transfers


class Senders:
    """Args: sessions: peer -> its session, of all connections.

    Attributes: traffic: exchange -> what has come to it here.
    """

    def __init__(
        self, outbox: FollowerOutbox, cluster: ClusterState, transfers: Transfers, sessions: Mapping[str, Session]
    ) -> None:
        self._outbox = outbox
        self._cluster = cluster
        self._transfers = transfers
        self._sessions = sessions
        self.traffic: dict[str, Traffic] = {}

    def attach(self, session: Session, frame: AttachSender) -> None:
        session.check_handle(frame.handle)
        wiring = self._cluster.wiring
        if session.rescue:
            refuse(self._outbox, session, frame.handle, NOT_ALLOWED, RESCUE)
            return
        if frame.exchange == "":
            if frame.key is not None and wiring.queue(frame.key) is None:
                text = f"there is no queue {frame.key!r}: declare it first"
                refuse(self._outbox, session, frame.handle, NOT_FOUND, text)
                return
        elif wiring.exchange(frame.exchange) is None:
            text = f"there is no exchange {frame.exchange!r}: declare it first"
            refuse(self._outbox, session, frame.handle, NOT_FOUND, text)
            return
        elif wiring.internal(frame.exchange):
            text = f"exchange {frame.exchange!r} is internal: send to an exchange that leads to it"
            refuse(self._outbox, session, frame.handle, NOT_ALLOWED, text)
            return
        elif frame.mandatory and relay_name(wiring.exchange(frame.exchange)):
            text = f"exchange {frame.exchange!r} routes a message after it is complete: send to it without mandatory"
            refuse(self._outbox, session, frame.handle, NOT_ALLOWED, text)
            return
        link = session.add_sender(frame.handle, frame.exchange, frame.key, frame.next, frame.mandatory)
        link.traffic = self.traffic.setdefault(frame.exchange, Traffic())
        self._outbox.send(session.peer, Attached(frame.handle, wiring.needs_headers(frame.exchange), link.next))
        self._transfers.attached(session)

    def detach(self, session: Session, handle: int) -> bool:
        """The client detaches a handle; whether it was a sender's."""
        if session.remove_sender(handle) is None:
            return False
        self._transfers.detached(session, handle)
        return True

    def end_all(self, exchange: str, key: str | None, code: str, text: str) -> None:
        """An exchange is gone, or a queue: its senders end (key None: whatever their keys). What they have sent and was
        not routed before is dropped with them, and completes nowhere."""
        for session in self._sessions.values():
            for handle, sender in list(session.senders.items()):
                if sender.exchange == exchange and (key is None or sender.key == key):
                    session.remove_sender(handle)
                    session.end(handle)
                    self._transfers.told(session, handle)
                    self._outbox.send(session.peer, Detached(handle, code, text))
                    sender.ended = True
