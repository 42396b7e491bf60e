"""Senders with names at this broker: they begin where the queue says, in the order of its stream, and end when a later
one of the name begins, at whatever broker.

Number n is the same message, whoever sends it: so what the former sent last may be in the queue or not, and who comes
behind it loses nothing. A client that comes back from a lost connection goes on at once, for its transfers follow
without waiting; if a later one has the name by then, it hears that it is over. The numbers are those of one queue: who
comes back to another one of its name has missed the end of its own, and hears of it as whoever stayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from ..errors import DELETED, IN_USE, INVALID, NOT_ALLOWED, UNAVAILABLE
from ..log.outbox import FollowerOutbox
from ..wire.client_frames import AttachSender
from ..wire.events import Named
from ..wire.queue_frames import SenderNamed
from ..wire.version import KNOWS_NAMED_SENDERS
from ..wiring.definitions import QueueDefinition
from .cluster_state import ClusterState
from .connections import refuse
from .questions import Questions
from .session import SenderLink, Session

NAME_CHARS = 255
OVER = (
    "another sender of the name {!r} has begun, and goes on where this one was: give senders that run together names "
    "of their own"
)
ONE_QUEUE = "a named sender sends to one queue, which keeps its numbers: give the queue's name, or leave out name"


def holder_of(session: Session, handle: int) -> str:
    """Which sender that is, for a queue."""
    return f"{session.client}/{handle}"


class NamedLinks:
    """Args: begin: attaches a sender, with its next number and its queue's id. end: ends one, with code and text."""

    def __init__(
        self, outbox: FollowerOutbox, cluster: ClusterState, sessions: Mapping[str, Session], questions: Questions,
        begin: Callable[[Session, AttachSender, int, str], None], end: Callable[[Session, SenderLink, str, str], None],
    ) -> None:  # fmt: skip
        self._outbox, self._cluster, self._sessions, self._questions = outbox, cluster, sessions, questions
        self._begin, self._end = begin, end

    def attach(self, session: Session, frame: AttachSender) -> None:
        """A sender with a name is to begin, or its client comes back with it."""
        queue = self._cluster.wiring.queue(frame.key or "") if frame.exchange == "" and frame.key is not None else None
        if queue is None:
            self._refuse(session, frame, NOT_ALLOWED, ONE_QUEUE)
        elif len(frame.name) > NAME_CHARS:
            self._refuse(session, frame, INVALID, f"the name of a sender has at most {NAME_CHARS} characters")
        elif frame.queue not in ("", queue.id):
            self._gone(session, frame, queue.name)
        elif frame.next > 0:
            self._begin(session, frame, frame.next, queue.id)
            self._ask(session, frame, queue)
        else:
            self._cluster.versions.once_known(partial(self._ask, session, frame, queue))

    def _ask(self, session: Session, frame: AttachSender, queue: QueueDefinition) -> None:
        if self._cluster.versions.known and self._cluster.versions.least < KNOWS_NAMED_SENDERS:
            text = "no sender can have a name yet: a member of the cluster is of an older version, and would not keep "
            self._answered(session, frame, queue, {"error": f"{text}its numbers: upgrade all members first"})
            return
        named = Named(frame.name, holder_of(session, frame.handle), frame.next > 0)
        self._questions.begins(queue, named, partial(self._answered, session, frame, queue))

    def _answered(self, session: Session, frame: AttachSender, queue: QueueDefinition, value: dict[str, Any]) -> None:
        """The queue has said up to where it knows the numbers of that name, or that it is another's."""
        if session.peer not in self._sessions:
            return
        if "error" in value:
            if frame.next == 0:
                self._refuse(session, frame, value.get("code") or UNAVAILABLE, value["error"])
        elif frame.next == 0:
            now = self._cluster.wiring.queue(queue.name)
            if now is None or now.id != queue.id:  # one that is deleted goes on answering until it is empty
                self._gone(session, frame, queue.name)
                return
            session.check_handle(frame.handle)
            self._begin(session, frame, value["last"] + 1, queue.id)
        elif value["over"]:
            self._over(session, frame.handle)

    def began(self, frame: SenderNamed) -> None:
        """A sender has begun, here or elsewhere: others of its name and queue are over."""
        for session, link in list(self._links()):
            same = link.name == frame.name and link.queue == frame.queue
            if same and holder_of(session, link.handle) != frame.holder:
                self._over(session, link.handle)

    def _over(self, session: Session, handle: int) -> None:
        link = session.senders.get(handle)
        if link is not None:
            self._end(session, link, IN_USE, OVER.format(link.name))

    def _links(self) -> Iterator[tuple[Session, SenderLink]]:
        for session in self._sessions.values():
            for link in session.senders.values():
                if link.name:
                    yield session, link

    def _gone(self, session: Session, frame: AttachSender, name: str) -> None:
        self._refuse(session, frame, DELETED, f"queue {name!r} was deleted")

    def _refuse(self, session: Session, frame: AttachSender, code: str, text: str) -> None:
        refuse(self._outbox, session, frame.handle, code, text)
