"""Which of a broker's clients may send transfers just now: those that may not are told so (`Blocked`), and all else
that they say is read (after RabbitMQ's `connection.blocked`).

So a client that both sends and receives settles what it has received while its transfers wait, and that is what frees
room. A client that does not know `Blocked`, or sends on for too long, is not read at all until it may send again. When
all together have sent on for too long, that holds for each that has sent on: many clients, each within its own
allowance, would fill the reserve of a disk. Who brings nothing is read: it may be the one that frees room.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ..limits import DEFAULT
from ..log.outbox import FollowerOutbox
from ..machine import PauseClient
from ..wire.client_frames import Blocked
from ..wire.version import KNOWS_BLOCKED
from .session import Session


class Throttle:
    """Args:
        sessions: peer -> its session, of all connections.
        allowance_bytes: so much of what a client has sent may come after it was told, before it is not read.
        total_bytes: so much of what all clients have sent.

    Attributes:
        blocked: peer of a client that may not send -> bytes of the transfers that have come since; -1: it is not read.
    """

    def __init__(
        self, outbox: FollowerOutbox, sessions: Mapping[str, Session], allowance_bytes: int = DEFAULT.blocked_bytes,
        total_bytes: int = DEFAULT.blocked_total_bytes,
    ) -> None:  # fmt: skip
        self.blocked: dict[str, int] = {}
        self._outbox = outbox
        self._sessions = sessions
        self._allowance_bytes = allowance_bytes
        self._total_bytes = total_bytes
        self._came_bytes = 0  # since somebody may not send, from all; also from those that have gone meanwhile

    def block(self, session: Session, told: bool = False) -> None:
        """The client may not send from now on. `told`: it has been told by `Opened`."""
        peer = session.peer
        if peer in self.blocked:
            return
        if not self.blocked:
            self._came_bytes = 0
        if session.minor < KNOWS_BLOCKED:
            self._hold(peer)
            return
        self.blocked[peer] = 0
        if not told:
            self._outbox.send(peer, Blocked(True))

    def block_senders(self) -> None:
        """No client may send."""
        for session in self._sessions.values():
            if session.senders:
                self.block(session)

    def came(self, peer: str, size_bytes: Callable[[], int]) -> None:
        """A transfer has come."""
        before = self.blocked.get(peer, -1)
        if before < 0:
            return
        size = size_bytes()
        self.blocked[peer] = before + size
        self._came_bytes += size
        if self._came_bytes > self._total_bytes:
            for other in [other for other, came_bytes in self.blocked.items() if came_bytes > 0]:
                self._hold(other)
        elif self.blocked[peer] > self._allowance_bytes:
            self._hold(peer)

    def unblock(self, but: Collection[str] = ()) -> None:
        """All may send again, but these."""
        for peer, came_bytes in list(self.blocked.items()):
            if peer in but:
                continue
            del self.blocked[peer]
            if came_bytes < 0:
                self._outbox.effects.append(PauseClient(peer, False))
            if self._sessions[peer].minor >= KNOWS_BLOCKED:
                self._outbox.send(peer, Blocked(False))

    def ended(self, peer: str) -> None:
        """The connection is over."""
        self.blocked.pop(peer, None)

    def _hold(self, peer: str) -> None:
        self.blocked[peer] = -1
        self._outbox.effects.append(PauseClient(peer, True))
