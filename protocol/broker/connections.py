"""The connections of a broker's clients: which of them may open, under which client id, and where else they can go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from hmac import compare_digest

from ..errors import IN_USE, INVALID, NOT_ALLOWED, UNAUTHORIZED, UNAVAILABLE, PeerError
from ..limits import Limits
from ..log.outbox import FollowerOutbox
from ..machine import Close, KeepAlive
from ..wire.client_frames import Detached, MembersChanged, Open, Opened
from ..wire.version import MINOR
from .cluster_state import ClusterState
from .observers import BrokerObserver
from .session import Session

RESCUE = "a connection opened for rescue only looks: browse a queue, or connect without rescue"
REASON_CHARS = 500


class Connections:
    """Args:
        cluster_state: what this broker knows of the cluster.
        token: what clients must present; "" admits everybody.
        refusal: why no client may open now, "" if it may; told whether it opens for rescue.
        end: ends a session, with a code and a text for its client.

    Attributes:
        sessions: peer -> its session, opened or not.
        addresses: broker -> "host:port" for clients, of the members.
        blocks: whether a client that is let in may not send yet.
        cluster: the cluster's id, which clients are told; "": they are not.
        opened, closed: how many clients have been let in, and how many of these have gone.
    """

    def __init__(
        self,
        outbox: FollowerOutbox,
        cluster_state: ClusterState,
        limits: Limits,
        token: str,
        refusal: Callable[[bool], str],
        end: Callable[[Session, str, str], None],
        observers: Sequence[BrokerObserver] = (),
    ) -> None:
        self.sessions: dict[str, Session] = {}
        self.addresses: dict[str, str] = {}
        self._clients: dict[str, Session] = {}  # client id -> its session
        self._outbox = outbox
        self._cluster_state = cluster_state
        self._limits = limits
        self._token = token.encode()
        self._refusal = refusal
        self._end = end
        self._observers = observers
        self.blocks: Callable[[Session], bool] = lambda session: False
        self.cluster = ""
        self.opened = self.closed = 0

    def up(self, peer: str, address: str = "") -> None:
        session = self.sessions[peer] = Session(peer, self._limits)
        session.address, session.since_ms = address, self._outbox.now_ms

    def connected(self, client: str) -> Session | None:
        """The session of the client of that id, None where it has none here."""
        return self._clients.get(client)

    def dismiss(self, client: str, reason: str) -> bool:
        """An operator ends the connection of the client of that id, for good; whether it has one here."""
        session = self._clients.get(client)
        if session is not None:
            text = f"this connection was closed by an operator: {reason[:REASON_CHARS] or 'no reason given'}"
            self._end(session, NOT_ALLOWED, text)
        return session is not None

    def forget(self, session: Session, code: str = "", text: str = "") -> None:
        """The connection is over. `code`: why this broker ends it, "" if it does not."""
        if code:
            self._outbox.effects.append(Close(session.peer, code, text))
        del self.sessions[session.peer]
        if session.opening is not None:
            self._cluster_state.never_mind(session.opening)
        self._clients.pop(session.client, None)
        if session.client:
            self.closed += 1
            for observer in self._observers:
                observer.client_ended(session.client, code)

    def open(self, session: Session, frame: Open) -> None:
        """Let a client in, at once or when this broker knows what it knows of the wiring.

        Raises:
            PeerError: fatal, it may not come in, or not now.
        """
        if session.client or session.opening is not None:
            raise PeerError(NOT_ALLOWED, "a connection is opened once")
        if not compare_digest(self._token, frame.token.encode()):
            raise PeerError(UNAUTHORIZED, "the token is not this cluster's: pass the token it was started with")
        if len(frame.client) > self._limits.name_chars:
            raise PeerError(INVALID, f"a client id has at most {self._limits.name_chars} characters")
        if not 0 <= frame.life < 1 << 62:
            raise PeerError(INVALID, f"a client's connections are counted from 1, to below 2^62, not {frame.life}")
        self._may_come(frame)
        if frame.cluster and frame.cluster == self.cluster and not frame.rescue:
            session.opening = partial(self._knows_as_much, session, frame)
            self._cluster_state.once_applied(frame.wired, session.opening)
        else:
            self._let_in(session, frame)

    def _may_come(self, frame: Open) -> None:
        if refusal := self._refusal(frame.rescue):
            raise PeerError(UNAVAILABLE, refusal)

    def _knows_as_much(self, session: Session, frame: Open) -> None:
        session.opening = None
        try:
            self._may_come(frame)
        except PeerError as error:
            self._end(session, error.code, error.text)
            return
        self._let_in(session, frame)

    def _let_in(self, session: Session, frame: Open) -> None:
        older, known = self._clients.get(frame.client), self._cluster_state
        if older is not None:
            text = f"client id {frame.client!r} was opened anew, and the newer connection wins: use an id of your own"
            self._end(older, IN_USE, text)
        session.rescue, session.minor, session.life = frame.rescue, frame.minor, frame.life
        session.client = frame.client or f"{known.broker}.{known.inc}.{session.peer}"
        self._clients[session.client] = session
        self.opened += 1
        heartbeat_ms, patience_ms = session.heartbeat(frame.heartbeat_ms, frame.patience_ms)
        if heartbeat_ms:
            self._outbox.effects.append(KeepAlive(session.peer, heartbeat_ms, patience_ms))
        for observer in self._observers:
            observer.client_opened(session.client)
        bounds = self._limits.message_bytes, self._limits.transfer_messages, self._limits.credit_messages
        agreed = heartbeat_ms, MINOR, self.blocks(session), self.cluster, known.wired
        self._outbox.send(session.peer, Opened(known.broker, self.addresses, *bounds, *agreed))

    def moved(self, addresses: dict[str, str]) -> None:
        """The members are told to every client: it may need them when this broker is gone."""
        if addresses != self.addresses:
            self.addresses = addresses
            for observer in self._observers:
                observer.members_moved(addresses)
            for session in self.sessions.values():
                if session.client:
                    self._outbox.send(session.peer, MembersChanged(addresses))

    def send_away(self, text: str) -> None:
        """This broker goes: its clients hear of the other members, and are let go."""
        self.moved({name: at for name, at in self.addresses.items() if name != self._cluster_state.broker})
        self.close_all(text)

    def close_all(self, text: str, rescue: bool = True) -> None:
        """`rescue`: those that only look, too."""
        gone = [session for session in self.sessions.values() if rescue or not session.rescue]
        for observer in self._observers if gone else ():
            observer.clients_sent_away(len(gone), text)
        for session in gone:
            self._end(session, UNAVAILABLE, text)


def refuse(outbox: FollowerOutbox, session: Session, handle: int, code: str, text: str) -> None:
    """An attach fails. A client that attached anew behind another broker may detach before it hears that."""
    session.end(handle)
    outbox.send(session.peer, Detached(handle, code, text))
