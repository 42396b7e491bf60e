"""A broker's transfers: from its clients into requests for the sequencer, and their completions back.

A transfer is complete when the sequencer says so (`sequencer.md` B2) and flow control is off (I20); what is committed
while it is on is withheld, and told when it goes off. A sender's capacity bounds what it sends meanwhile; a client that
sends more than this broker may hold may send no more until then (`throttle.py`), and other clients may.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ..errors import LIMIT
from ..limits import DEFAULT
from ..log.outbox import FollowerOutbox
from ..ranges import RangeSet, compress, pairs
from ..wire.client_frames import Completed, Detached, Failed, Transfer
from .cluster_state import ClusterState
from .delays import route_delayed
from .gone_queues import failure
from .observers import BrokerObserver
from .requests import Requests
from .routing import (
    Numbers,
    Parts,
    in_requests,
    not_plain,
    route_each,
    route_together,
    why_nowhere,
    without,
)
from .self_destruction import SelfDestruction
from .session import SenderLink, Session
from .throttle import KNOWS_BLOCKED, Throttle
from .verdicts import Case, Verdicts, limit_text

NOWHERE: Mapping[str, str] = {}


class Transfers:
    """Args:
        sessions: peer -> its session, of all connections.
        replica_of: queue id -> the replica that keeps it.
        limit_bytes: with more than this on its way the broker lets its clients send no more.
        request_bytes: a transfer of several parts goes in requests of at most this size.
        blocked_bytes: what is taken from a client that may send no more, and from all of them.

    Attributes:
        uncommitted_bytes: of transfers that have no answer yet.
        withheld_bytes: of transfers that are committed, and not complete while flow control is on.
        lost: ids of the queues that were lost (`sequencer/lost_queues.py`).
        held: id of a queue that may be deleted if it is empty -> completions that wait until that is decided.
        gone: ids of queues that were deleted so, while a transfer to them may be undecided: requests from before
            without an answer, and completions that are held for another queue.
        paused: no client may send: too much is on its way.
        throttle: which clients may send.
        verdicts: the transfers that wait for the word of a queue.
    """

    def __init__(
        self,
        outbox: FollowerOutbox,
        cluster: ClusterState,
        requests: Requests,
        sessions: Mapping[str, Session],
        limit_bytes: int,
        request_bytes: int = DEFAULT.request_bytes,
        observers: Sequence[BrokerObserver] = (),
        blocked_bytes: tuple[int, int] = (DEFAULT.blocked_bytes, DEFAULT.blocked_total_bytes),
        replica_of: Mapping[str, str] = NOWHERE,
    ) -> None:
        destroy, why = SelfDestruction(cluster, requests).order, partial(limit_text, cluster)
        self.verdicts = Verdicts(outbox, cluster.inc, replica_of, destroy, why)
        self.uncommitted_bytes = self.withheld_bytes = 0
        self.lost: set[str] = set()
        self.held: dict[str, list[Callable[[], None]]] = {}
        self.gone: set[str] = set()
        self._outbox, self._cluster, self._requests = outbox, cluster, requests
        self._sessions = sessions
        self._limit_bytes = limit_bytes
        self._request_bytes = request_bytes
        self._observers = observers
        self._telling: dict[str, Session] = {}  # peer -> session with completions to tell
        self._detached: list[tuple[Session, int]] = []  # handles whose `Detached` waits behind what is withheld
        self.paused = False
        self.throttle = Throttle(outbox, sessions, *blocked_bytes)
        self._waiting: dict[str, None] = {}  # clients that may not send until flow control is off

    @property
    def stopped(self) -> bool:
        return self._cluster.wiring.flow.stopped

    def transfer(self, session: Session, frame: Transfer) -> None:
        link = session.transfer(frame)
        if self.throttle.blocked:
            self.throttle.came(session.peer, lambda: sum(map(len, frame.blobs)))
        if link is None:
            return
        cluster, first, last = self._cluster, frame.first, frame.first + len(frame.blobs) - 1
        if (too_large := session.oversized(frame)) is not None:
            self._outbox.send(session.peer, Failed(frame.handle, [first, last], too_large.code, too_large.text))
            return
        at_ms = self._outbox.now_ms
        if frame.delays:
            route_delayed(cluster, self._outbox, session, link, frame, self._partly)
            return
        expiry = session.expiry(frame, at_ms) if frame.ttl else []
        if frame.keys is None and frame.headers is None:
            parts = route_together(cluster, link, frame, expiry, at_ms)
            if not link.route:
                parts, missing, judged = not_plain(cluster, link, frame, expiry, at_ms, parts)
                if missing or judged:
                    self._partly(session, link, frame, parts, missing, judged)
                    return
        else:
            parts, missing, judged = route_each(cluster, link, frame, expiry, at_ms)
            if missing or judged:
                self._partly(session, link, frame, parts, missing, judged)
                return
        size = 0
        for _, event in parts:
            size += len(event)
        self.uncommitted_bytes += size
        if size > self._request_bytes and len(parts) > 1:
            self._split(session, link, [first, last], parts, [], {})
            return

        def done() -> None:
            self.uncommitted_bytes -= size
            if self.stopped:
                self.withheld_bytes += size
            if self.lost or self.held or self.gone:
                self._done(session, link, [first, last], parts, [])
            elif session.peer in self._sessions and not link.ended:
                session.complete(frame.handle, first, last)
                self._telling[session.peer] = session

        self._requests.request(parts, done)

    def _partly(
        self, session: Session, link: SenderLink, frame: Transfer, parts: Parts, missing: list[int], judged: Numbers
    ) -> None:
        """Some messages of a transfer, or all, go to no queue (the indexes `missing`), or to queues that have a say in
        what becomes of them."""
        nowhere = compress([frame.first + index for index in missing])
        numbers = [frame.first, frame.first + len(frame.blobs) - 1]
        link.traffic.unroutable += RangeSet(nowhere).count
        if nowhere and (link.mandatory or link.exchange == ""):
            code, text = why_nowhere(link, frame, nowhere)
            self._outbox.send(session.peer, Failed(frame.handle, nowhere, code, text))
            numbers, nowhere = without(numbers, RangeSet(nowhere)), []
        if not parts:  # nobody is bound: an unroutable message is dropped, and that completes it
            self._complete(session, link, numbers, nowhere)
            return
        self.uncommitted_bytes += sum(len(event) for _, event in parts)
        self._split(session, link, numbers, parts, nowhere, judged)

    def _split(
        self, session: Session, link: SenderLink, numbers: list[int], parts: Parts, nowhere: list[int], judged: Numbers
    ) -> None:
        """A transfer for several queues: one frame might not carry all of a large one, so that is asked for in several
        requests. It is complete when all are, and queues that have a say in it have had it."""
        requests = in_requests(parts, self._request_bytes)
        left = len(requests)
        case = Case(session, link) if judged else None

        def done(size: int) -> None:
            nonlocal left
            left -= 1
            self.uncommitted_bytes -= size
            if self.stopped:
                self.withheld_bytes += size
            if not left:
                self._done(session, link, numbers, parts, nowhere, case)

        for request in requests:
            size = sum(len(event) for _, event in request)
            number = self._requests.request(request, partial(done, size))
            if case is not None:
                for queue, _ in request:
                    if queue in judged:
                        self.verdicts.expect(case, queue, number, judged[queue])

    def _done(
        self, session: Session, link: SenderLink, numbers: list[int], parts: Parts, nowhere: list[int],
        case: Case | None = None,
    ) -> None:  # fmt: skip
        """The sequencer has answered: all is committed, but for events on their way to a queue that was lost."""
        if (self.lost or self.gone) and not (numbers := self._but_failed(session, link, numbers, parts, case)):
            return
        again = partial(self._done, session, link, numbers, parts, nowhere, case)
        if self.held and self.holds(parts, again):
            return
        if case is not None and case.awaits:
            case.decided = again
            return
        if case is not None and case.refused:
            numbers = without(numbers, case.refused)
            if session.peer in self._sessions and not link.ended:
                text = " ".join(case.by.values())
                self._outbox.send(session.peer, Failed(link.handle, case.refused.flat(), LIMIT, text))
        self._complete(session, link, numbers, nowhere)

    def _but_failed(
        self, session: Session, link: SenderLink, numbers: list[int], parts: Parts, case: Case | None
    ) -> list[int]:
        """Those that have not failed with a queue that is gone, as ranges."""
        failed, code, text = failure(numbers, parts, self.lost, self.gone)
        if case is not None and case.refused:
            failed = without(failed, case.refused)
        if failed and session.peer in self._sessions and not link.ended:
            self._outbox.send(session.peer, Failed(link.handle, failed, code, text))
        return without(numbers, RangeSet(failed))

    # ---- queues that are deleted if they are empty

    def holds(self, parts: Parts, again: Callable[[], None]) -> bool:
        """Whether one of the queues may be deleted soon; `again` is called when that is decided."""
        for queue, _ in parts:
            if queue in self.held:
                self.held[queue].append(again)
                return True
        return False

    def hold(self) -> None:
        """From here on no transfer to a condemned queue completes, until its deletion is decided."""
        for id, condemned in self._cluster.wiring.uses.condemned.items():
            if condemned.if_empty:
                self.held.setdefault(id, [])

    def deleted(self, id: str) -> None:
        if id in self.held:
            self.gone.add(id)
        self.verdicts.gone(id)

    def resolved(self) -> None:
        """A queue is not condemned any more: it is deleted, and the transfers held for it fail, or it stays."""
        condemned = self._cluster.wiring.uses.condemned
        for id in [id for id in self.held if id not in condemned]:
            for again in self.held.pop(id):
                again()
        self.settled()

    def settled(self) -> None:
        """All that came together has been dealt with: forget the queues that are gone if nothing is undecided any more.
        Between two of them it is too soon: the first to fail would make the second complete."""
        if self.gone and self._requests.idle and not any(self.held.values()):
            self.gone.clear()

    def _complete(self, session: Session, link: SenderLink, numbers: list[int], nowhere: list[int]) -> None:
        """Those numbers are complete; of them, those in `nowhere` went to no queue."""
        if numbers and session.peer in self._sessions and not link.ended:
            for first, last in pairs(numbers):
                session.complete(link.handle, first, last)
            if nowhere:
                session.went_nowhere(link.handle, nowhere)
            self._telling[session.peer] = session

    def told(self, session: Session, handle: int) -> None:
        """The broker ends a sender: its completions are told before, or never while flow control withholds them."""
        if self.stopped:
            session.withdraw(handle)
        else:
            self._tell(session)

    def detached(self, session: Session, handle: int) -> None:
        """The client has detached a sender: its completions so far are told before the end."""
        if self.stopped:
            self._detached.append((session, handle))
        else:
            self._tell(session)
            self._outbox.send(session.peer, Detached(handle))

    def ended(self, session: Session) -> None:
        """The connection is over."""
        self._telling.pop(session.peer, None)
        self._waiting.pop(session.peer, None)
        self.throttle.ended(session.peer)
        self.verdicts.ended(session)
        self._detached = [item for item in self._detached if item[0] is not session]

    def flush(self) -> None:
        """Tell the completions; let clients send no more, or again, by how much waits."""
        if (self._telling or self._detached or self.withheld_bytes) and not self.stopped:
            self.withheld_bytes = 0
            telling, self._telling = self._telling, {}
            for session in telling.values():
                self._tell(session)
            detached, self._detached = self._detached, []
            for session, handle in detached:
                self._outbox.send(session.peer, Detached(handle))
        throttle = self.throttle
        if self._too_much_waits():
            for peer, session in self._telling.items():
                self._waiting[peer] = None
                throttle.block(session)
        elif self._waiting and not self.stopped:
            self._waiting = {}
            if not self.paused:
                throttle.unblock()
        if (self.uncommitted_bytes > self._limit_bytes // (1 + self.paused)) != self.paused:
            self.paused = not self.paused
            if self.paused:
                throttle.block_senders()
            else:
                throttle.unblock(self._waiting)
            for observer in self._observers:
                observer.reading_paused(self.paused)

    def _too_much_waits(self) -> bool:
        """Flow control is on, and this broker holds all that it may."""
        withheld_bytes = self.withheld_bytes if self.stopped else 0
        return withheld_bytes > 0 and self.uncommitted_bytes + withheld_bytes > self._limit_bytes

    def greeted(self, session: Session) -> bool:
        """A client is let in: whether it is told at once that it may not send, for it may bring a lot."""
        if session.minor < KNOWS_BLOCKED or not (self.paused or self._too_much_waits()):
            return False
        if self.stopped:
            self._waiting[session.peer] = None
        self.throttle.block(session, told=True)
        return True

    def attached(self, session: Session) -> None:
        """The client has a sender."""
        if self.paused:
            self.throttle.block(session)

    def _tell(self, session: Session) -> None:
        completed, session.completed = session.completed, {}
        send, peer = self._outbox.send, session.peer
        if not session.unroutable:
            for handle, ranges in completed.items():
                send(peer, Completed(handle, ranges))
            return
        nowhere, session.unroutable = session.unroutable, {}
        for handle, ranges in completed.items():
            send(peer, Completed(handle, ranges, nowhere.get(handle, [])))
