"""A broker's senders: what a client may attach one to, and how one ends. What they send is in `transfers.py`."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import NOT_ALLOWED, NOT_FOUND
from ..log.outbox import FollowerOutbox
from ..queue.named_senders import client_of
from ..wire.client_frames import Attached, AttachSender, Detached
from ..wiring.relays import relay_name
from .cluster_state import ClusterState
from .connections import RESCUE, refuse
from .named_senders import NamedLinks
from .questions import Questions
from .session import SenderLink, Session, Traffic
from .transfers import Transfers


class Senders:
    """Args: sessions: peer -> its session, of all connections.

    Attributes: traffic: exchange -> what has come to it here.
    """

    def __init__(
        self, outbox: FollowerOutbox, cluster: ClusterState, transfers: Transfers, sessions: Mapping[str, Session],
        questions: Questions,
    ) -> None:  # fmt: skip
        self._outbox = outbox
        self._cluster = cluster
        self._transfers = transfers
        self._sessions = sessions
        self.traffic: dict[str, Traffic] = {}
        self.named = NamedLinks(outbox, cluster, sessions, questions, self._begin, self._end)

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
        if frame.name:
            self.named.attach(session, frame)
        else:
            self._begin(session, frame, frame.next)

    def _begin(self, session: Session, frame: AttachSender, next: int, queue: str = "") -> None:
        """`queue`: the id of a named sender's."""
        link = session.add_sender(frame.handle, frame.exchange, frame.key, next, frame.mandatory)
        link.traffic = self.traffic.setdefault(frame.exchange, Traffic())
        if frame.name:
            link.name, link.client, link.origin = frame.name, client_of(frame.name), session.client
            link.queue = queue
            link.next = next  # by its name: others' numbers, of this handle or of forgotten ones, are no bound
        needs_headers = self._cluster.wiring.needs_headers(frame.exchange)
        attached = Attached(frame.handle, needs_headers, link.next, queue, self._cluster.wired)
        self._outbox.send(session.peer, attached)
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
            for sender in list(session.senders.values()):
                if sender.exchange == exchange and (key is None or sender.key == key):
                    self._end(session, sender, code, text)

    def _end(self, session: Session, sender: SenderLink, code: str, text: str) -> None:
        session.remove_sender(sender.handle)
        session.end(sender.handle)
        self._transfers.told(session, sender.handle)
        self._outbox.send(session.peer, Detached(sender.handle, code, text))
        sender.ended = True
