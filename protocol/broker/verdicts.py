"""Transfers that are committed, and of which a queue says for itself what becomes of them: it may refuse messages at
its limit, or hold their producers back. Each waits for the word of every such queue, which the broker's own replica
gives as it applies the stream (`replica/verdicts.py`).

What a replica has not said when it ends, its successor is asked for. A queue that is deleted holds nothing up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..log.outbox import FollowerOutbox
from ..queue.settings import MESSAGE_BYTES, SELF_DESTRUCT, QueueSettings
from ..ranges import RangeSet, pairs
from ..wire.settings import read
from ..wire.verdict_frames import HeldBack, Judge, Judged
from ..wire.version import KNOWS_VERDICTS
from .cluster_state import ClusterState
from .session import SenderLink, Session


class Case:
    """A transfer. Attributes:
    session: of its client; None: messages of a queue that go on to another one.
    awaits: (queue id, number of the request) of which nothing is said yet -> client's numbers in it, as ranges.
    refused: numbers that a queue has refused; by: id of such a queue -> why, in words.
    decided: called once, when nothing is awaited any more.
    """

    __slots__ = ("awaits", "by", "decided", "link", "refused", "session")

    def __init__(self, session: Session | None, link: SenderLink) -> None:
        self.session = session
        self.link = link
        self.awaits: dict[tuple[str, int], list[int]] = {}
        self.refused = RangeSet()
        self.by: dict[str, str] = {}
        self.decided: Callable[[], None] | None = None

    def said(self, queue: str, number: int, refused: list[int]) -> None:
        """The queue has said what becomes of the numbers in a request."""
        if self.awaits.pop((queue, number), None) is None:
            return
        for first, last in pairs(refused):
            self.refused.add(first, last)
        if not self.awaits and self.decided is not None:
            decided, self.decided = self.decided, None
            decided()


class Verdicts:
    """Args:
        inc: the broker's incarnation.
        replica_of: queue id -> the replica that keeps it.
        destroy: called with the id of a queue that destroys itself, perhaps again.
        why: id of a queue -> why it refuses messages, in words.

    Attributes:
        stopped: ids of the queues that hold their producers back.
    """

    def __init__(
        self, outbox: FollowerOutbox, inc: int, replica_of: Mapping[str, str],
        destroy: Callable[[str], object] = lambda queue: None, why: Callable[[str], str] = str,
    ) -> None:  # fmt: skip
        self._why = why
        self._destroy = destroy
        self.stopped: set[str] = set()
        self._outbox = outbox
        self._inc = inc
        self._replica_of = replica_of
        self._cases: dict[str, dict[int, Case]] = {}  # queue id -> number of a request -> the transfer in it
        self._told: dict[tuple[str, int], tuple[Session, list[str]]] = {}  # senders that know they are held back

    def expect(self, case: Case, queue: str, number: int, numbers: list[int]) -> None:
        """A request with an enqueue for that queue is under way."""
        case.awaits[queue, number] = numbers
        self._cases.setdefault(queue, {})[number] = case
        if queue in self.stopped:
            self._tell(case)

    def heard(self, frame: Judged) -> None:
        if frame.inc == self._inc:
            waiting = self._cases.get(frame.queue, {})
            for number, refused in zip(frame.requests, frame.refused, strict=False):
                if (case := waiting.pop(number, None)) is not None:
                    if refused and frame.queue not in case.by:
                        # Asked now: when all is decided it may be deleted, and nobody knows its limits any more.
                        case.by[frame.queue] = self._why(frame.queue)
                    case.said(frame.queue, number, refused)
        if frame.stopped != (frame.queue in self.stopped):
            self._turned(frame.queue, frame.stopped)
        if frame.again:
            self.ask(frame.queue)
        if frame.over:
            self._destroy(frame.queue)

    def ask(self, queue: str) -> None:
        """A replica begins with the queue: it is asked for what no other has said."""
        waiting = self._cases.get(queue)
        if waiting and (replica := self._replica_of.get(queue)):
            asked = [(n, case.link.client, case.awaits[queue, n]) for n, case in waiting.items()]
            self._outbox.send(replica, Judge(queue, self._inc, asked))

    def gone(self, queue: str) -> None:
        """The queue is deleted, or lost."""
        for number, case in self._cases.pop(queue, {}).items():
            case.said(queue, number, [])
        self._turned(queue, False)

    def ended(self, session: Session) -> None:
        """The connection is over."""
        self._told = {key: told for key, told in self._told.items() if told[0] is not session}

    # ---- who is held back

    def waiting(self) -> dict[str, list[str]]:
        """Peer of a client whose transfers wait for queues that hold their producers back -> the names of those."""
        found: dict[str, list[str]] = {}
        for queue in sorted(self.stopped):
            for peer in {
                case.session.peer
                for case in self._cases.get(queue, {}).values()
                if case.session and not case.link.ended
            }:
                found.setdefault(peer, []).append(_name(queue))
        return found

    def _turned(self, queue: str, stopped: bool) -> None:
        if stopped:
            self.stopped.add(queue)
            for case in self._cases.get(queue, {}).values():
                self._tell(case)
            return
        self.stopped.discard(queue)
        name = _name(queue)
        for key, (session, names) in list(self._told.items()):
            if name in names:
                names.remove(name)
                self._say(session, key[1], names)
                if not names:
                    del self._told[key]

    def _tell(self, case: Case) -> None:
        session, link = case.session, case.link
        if session is None:
            return
        names = [_name(queue) for queue in dict.fromkeys(queue for queue, _ in case.awaits) if queue in self.stopped]
        _, told = self._told.setdefault((session.peer, link.handle), (session, []))
        new = [name for name in names if name not in told]
        if new and not link.ended and session.minor >= KNOWS_VERDICTS:
            told += new
            self._say(session, link.handle, told)

    def _say(self, session: Session, handle: int, names: list[str]) -> None:
        self._outbox.send(session.peer, HeldBack(handle, list(names)))


def _name(queue: str) -> str:
    return queue.rpartition("#")[0]


OVER = "destroys itself with all that was in it: it would have exceeded its limit, and overflow is self-destruct"


def limit_text(cluster: ClusterState, queue: str) -> str:
    """Why a queue has refused messages."""
    definition = cluster.wiring.by_id(queue)
    settings = read(QueueSettings, definition.arguments if definition is not None else {})
    if settings.overflow == SELF_DESTRUCT:
        return f"queue {_name(queue)!r} has refused it, and {OVER}"
    limits = [f"{settings.max_count} messages"] * (settings.max_count > 0)
    limits += [f"{settings.max_size} bytes, of which each message counts for {MESSAGE_BYTES} more than its own"] * (
        settings.max_size > 0
    )
    return (
        f"queue {queue.rpartition('#')[0]!r} has refused it: the queue takes at most {' and '.join(limits)}: have its "
        "consumers take some, or send it later"
    )
