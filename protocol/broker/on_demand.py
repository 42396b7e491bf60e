"""Queues and exchanges that are made when a client attaches to them: where what it names is not there, and a pattern is
the name's, that is declared first, by the ordinary declaration, and then the client is attached.

Two that come at once declare the same, and find one. Who comes back to what has gone meanwhile hears that it has gone,
as whoever stayed: a pattern makes nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..errors import EXISTS, PeerError
from ..log.outbox import FollowerOutbox
from ..wire.client_frames import AttachReceiver, AttachSender, Detached
from ..wire.version import KNOWS_PATTERNS
from ..wiring.node_patterns import EXCHANGE, QUEUE, NodePattern
from .cluster_state import ClusterState
from .connections import Connections, refuse
from .management import Management
from .session import Session

Attach = AttachSender | AttachReceiver


class OnDemand:
    """Of one broker's clients."""

    def __init__(
        self, outbox: FollowerOutbox, cluster: ClusterState, connections: Connections, management: Management
    ) -> None:
        self._outbox = outbox
        self._cluster = cluster
        self._connections = connections
        self._management = management

    def attach(self, attach: Callable[[Session, Any], object], session: Session, frame: Attach) -> None:
        """Attach a sender or a receiver by `attach`, to what may have to be declared first.

        Raises:
            PeerError: fatal, as `attach`.
        """
        patterns = self._cluster.wiring.patterns
        pattern = self._pattern(session, frame) if patterns else None
        if pattern is None:
            attach(session, frame)
            return
        session.check_handle(frame.handle)
        session.making[frame.handle] = frame
        said: dict[str, Any] = {"durable": pattern.durable, "alternate": pattern.alternate}
        said |= {"name": _named(frame), "arguments": pattern.arguments}
        if pattern.makes == EXCHANGE:
            said["type"] = pattern.type
        done = partial(self._declared, attach, session, frame)
        self._management.declare(session, pattern.makes, said, done)

    def _pattern(self, session: Session, frame: Attach) -> NodePattern | None:
        """The pattern by which what a frame attaches to is made; None: it is there, or none makes it."""
        wiring, name = self._cluster.wiring, _named(frame)
        if not name or session.rescue or wiring.queue(name) is not None or wiring.exchange(name) is not None:
            return None
        if _came_back(session, frame) or len(name) > session.limits.name_chars:
            return None
        pattern = wiring.patterns.of(name)
        return pattern if pattern is not None and pattern.makes == _kind(frame) else None

    def _declared(
        self, attach: Callable[[Session, Any], object], session: Session, frame: Attach,
        value: Any = None, code: str = "", text: str = "",
    ) -> None:  # fmt: skip
        """The declaration has been answered. Somebody may have declared the name otherwise meanwhile: it is there."""
        if self._connections.sessions.get(session.peer) is not session or session.making.get(frame.handle) is not frame:
            return
        del session.making[frame.handle]
        if code and code != EXISTS:
            refuse(self._outbox, session, frame.handle, code, text)
            return
        try:
            attach(session, frame)
        except PeerError as error:
            refuse(self._outbox, session, frame.handle, error.code, error.text)

    def detach(self, session: Session, handle: int) -> bool:
        """The client detaches a handle; whether it was not attached yet, since something is being made for it."""
        if session.making.pop(handle, None) is None:
            return False
        self._outbox.send(session.peer, Detached(handle))
        return True


def _named(frame: Attach) -> str:
    """The name of the queue or exchange; "": of none that could be made."""
    if isinstance(frame, AttachReceiver):
        return frame.queue
    return frame.exchange or frame.key or ""


def _kind(frame: Attach) -> str:
    return EXCHANGE if isinstance(frame, AttachSender) and frame.exchange else QUEUE


def _came_back(session: Session, frame: Attach) -> bool:
    """Whether an earlier connection of the client may have had this sender or receiver."""
    if isinstance(frame, AttachSender):
        return frame.next > 0 or frame.queue != ""
    return frame.back or (session.minor < KNOWS_PATTERNS and session.life != 1)
