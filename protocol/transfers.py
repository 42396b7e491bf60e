"""A broker's transfers: from its clients into requests for the sequencer, and their completions back.

A transfer is complete when the sequencer says so (`sequencer.md` B2) and flow control is off (I20); what is committed
while it is on is withheld, and told when it goes off. A sender's capacity bounds what it sends meanwhile; whoever sends
more than this broker may hold is not read until then, and others are.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from .effects import PauseClient, PauseClients
from .errors import LOST, NOT_FOUND, UNROUTABLE
from .events import Enqueue, encode_event
from .frames import Bury, Completed, Detached, Failed, Interred, Transfer
from .ranges import RangeSet, compress, pairs
from .routing import REQUEST_BYTES, Parts, in_requests, route_each, route_together
from .session import SenderLink, Session

if TYPE_CHECKING:
    from .broker import BrokerMachine


def lost_text(queue: str) -> str:
    return (
        f"queue {queue!r} was lost: most of its replicas died with what they held, and it can never go on; declare it "
        "again to begin anew"
    )


class Transfers:
    """Of one broker.

    Attributes:
        uncommitted_bytes: of transfers that have no answer yet.
        withheld_bytes: of transfers that are committed, and not complete while flow control is on.
        lost: queues that are (`losing.py`).
        held: queue that may be deleted if it is empty -> what would be complete otherwise; until that is decided.
        gone: queues that were deleted so, as long as anything that was sent to them is undecided: requests from before
            without an answer, and completions that are held for another queue.
        paused: clients are not read: too much is on its way.
    """

    def __init__(self, broker: BrokerMachine) -> None:
        self.uncommitted_bytes = 0
        self.withheld_bytes = 0
        self.lost: set[str] = set()
        self.held: dict[str, list[Callable[[], None]]] = {}
        self.gone: set[str] = set()
        self._broker = broker
        self._telling: dict[str, Session] = {}  # peer -> session with completions to tell
        self._detached: list[tuple[Session, int]] = []  # handles whose `Detached` waits behind what is withheld
        self.paused = False
        self._held: dict[str, None] = {}  # clients that are not read

    @property
    def stopped(self) -> bool:
        return self._broker.wiring.flow.stopped

    def transfer(self, session: Session, frame: Transfer) -> None:
        link = session.transfer(frame)
        if link is None:
            return
        broker = self._broker
        first, last = frame.first, frame.first + len(frame.blobs) - 1
        too_large = session.oversized(frame)
        if too_large is not None:
            broker.send(session.peer, Failed(frame.handle, [first, last], too_large.code, too_large.text))
            return
        expiry = session.expiry(frame, broker.now_ms) if frame.ttl else []
        if frame.keys is None and frame.headers is None:
            parts = route_together(broker.wiring, broker.wiring_version, link, frame, expiry)
            missing = () if parts else range(len(frame.blobs))
        else:
            parts, missing = route_each(broker.wiring, link, frame, expiry)
        if missing:
            self._partly(session, link, frame, parts, compress([first + index for index in missing]))
            return
        size = 0
        for _, event in parts:
            size += len(event)
        self.uncommitted_bytes += size
        if size > REQUEST_BYTES and len(parts) > 1:
            self._split(session, link, [first, last], parts, [])
            return

        def done() -> None:
            self.uncommitted_bytes -= size
            if self.stopped:
                self.withheld_bytes += size
            if self.lost or self.held or self.gone:
                self._done(session, link, [first, last], parts, [])
            elif session.peer in broker.sessions and not link.ended:
                session.complete(frame.handle, first, last)
                self._telling[session.peer] = session

        broker.request(parts, done)

    def _partly(self, session: Session, link: SenderLink, frame: Transfer, parts: Parts, nowhere: list[int]) -> None:
        """Some numbers of a transfer, or all, go to no queue."""
        numbers = [frame.first, frame.first + len(frame.blobs) - 1]
        if link.mandatory or link.exchange == "":
            numbers, nowhere = self._refuse(session, link, frame, nowhere), []
        if not parts:  # nobody is bound: an unroutable message is dropped, and that completes it
            self._complete(session, link, numbers, nowhere)
            return
        self.uncommitted_bytes += sum(len(event) for _, event in parts)
        self._split(session, link, numbers, parts, nowhere)

    def _refuse(self, session: Session, link: SenderLink, frame: Transfer, gone: list[int]) -> list[int]:
        """Some numbers of a transfer go to no queue, and must; returns the others."""
        if link.exchange == "":
            keys = frame.keys or [link.key or ""] * len(frame.blobs)
            named = {keys[number - frame.first] for first, last in pairs(gone) for number in range(first, last + 1)}
            code, names = NOT_FOUND, ", ".join(repr(name) for name in sorted(named)[:3])
            text = f"there is no queue {names}: declare it first"
        else:
            code, address = UNROUTABLE, link.exchange if link.key is None else f"{link.exchange}/{link.key}"
            text = f"no queue is bound to {address!r} for these: bind one, or send without mandatory"
        self._broker.send(session.peer, Failed(frame.handle, gone, code, text))
        rest = RangeSet([frame.first, frame.first + len(frame.blobs) - 1])
        for first, last in pairs(gone):
            rest.remove(first, last)
        return rest.flat()

    def _split(self, session: Session, link: SenderLink, numbers: list[int], parts: Parts, nowhere: list[int]) -> None:
        """A transfer for several queues: one frame might not carry all of a large one, so that is asked for in several
        requests. It is complete when all are."""
        requests = in_requests(parts)
        left = len(requests)

        def done(size: int) -> None:
            nonlocal left
            left -= 1
            self.uncommitted_bytes -= size
            if self.stopped:
                self.withheld_bytes += size
            if not left:
                self._done(session, link, numbers, parts, nowhere)

        for request in requests:
            size = sum(len(event) for _, event in request)
            self._broker.request(request, partial(done, size))

    def _done(self, session: Session, link: SenderLink, numbers: list[int], parts: Parts, nowhere: list[int]) -> None:
        """The sequencer has answered: all is committed, but for what was on its way to a queue that is lost."""
        if self.lost or self.held or self.gone:
            again = partial(self._done, session, link, numbers, parts, nowhere)
            if self._failed(session, link, numbers, parts) or self._holds(parts, again):
                return
        self._complete(session, link, numbers, nowhere)

    def _failed(self, session: Session, link: SenderLink, numbers: list[int], parts: Parts) -> bool:
        """Whether some of that was on its way to a queue that is gone and did not count: it has failed then."""
        for queue, _ in parts:
            if queue in self.lost or queue in self.gone:
                name = queue.rpartition("#")[0]
                code, text = LOST, lost_text(name)
                if queue in self.gone:
                    code, text = NOT_FOUND, f"queue {name!r} was deleted, since it was empty: declare it first"
                if session.peer in self._broker.sessions and not link.ended:
                    self._broker.send(session.peer, Failed(link.handle, numbers, code, text))
                return True
        return False

    # ---- queues that are deleted if they are empty

    def _holds(self, parts: Parts, again: Callable[[], None]) -> bool:
        """Whether one of the queues may be about to go; `again` is called when that is decided."""
        for queue, _ in parts:
            if queue in self.held:
                self.held[queue].append(again)
                return True
        return False

    def hold(self) -> None:
        """From here on nothing completes that goes to what is condemned, until that is decided."""
        for id, condemned in self._broker.wiring.uses.condemned.items():
            if condemned.if_empty:
                self.held.setdefault(id, [])

    def deleted(self, id: str) -> None:
        if id in self.held:
            self.gone.add(id)

    def resolved(self) -> None:
        """Something is not condemned any more: it is deleted, and what was held for it fails, or it stays."""
        condemned = self._broker.wiring.uses.condemned
        for id in [id for id in self.held if id not in condemned]:
            for again in self.held.pop(id):
                again()
        self.settled()

    def settled(self) -> None:
        """All that came together has been dealt with: forget the queues that are gone if nothing is undecided any more.
        Between two of them it is too soon: the first to fail would make the second complete."""
        if self.gone and self._broker.idle and not any(self.held.values()):
            self.gone.clear()

    def bury(self, peer: str, frame: Bury) -> None:
        """Dead-letter rejected messages: by the alternate exchange, keyed by the queue's name, applied once."""
        broker = self._broker
        name = frame.queue.rpartition("#")[0]
        answer = Interred(frame.queue, frame.id)
        event = Enqueue(f"{frame.queue}@{frame.id}", [1, len(frame.blobs)], frame.blobs)
        encoded = encode_event(event)
        parts = [(queue, encoded) for queue in broker.wiring.route(frame.exchange, name)]
        if parts:
            broker.request(parts, lambda: self._buried(peer, frame, parts, answer))
        else:
            broker.send(peer, answer)

    def _buried(self, peer: str, frame: Bury, parts: Parts, answer: Interred) -> None:
        if self.held and self._holds(parts, lambda: self._buried(peer, frame, parts, answer)):
            return
        if self.gone and any(queue in self.gone for queue, _ in parts):
            self.bury(peer, frame)  # it did not count; those who got it know that they have
        else:
            self._broker.send(peer, answer)

    def _complete(self, session: Session, link: SenderLink, numbers: list[int], nowhere: list[int]) -> None:
        """Those numbers are complete; of them, those in `nowhere` went to no queue."""
        if numbers and session.peer in self._broker.sessions and not link.ended:
            for first, last in pairs(numbers):
                session.complete(link.handle, first, last)
            if nowhere:
                session.went_nowhere(link.handle, nowhere)
            self._telling[session.peer] = session

    def told(self, session: Session) -> None:
        """A sender ends by itself: what is complete is told before."""
        if not self.stopped:
            self._tell(session)

    def detached(self, session: Session, handle: int) -> None:
        """The client has detached a sender: what is complete so far is told before the end."""
        if self.stopped:
            self._detached.append((session, handle))
        else:
            self._tell(session)
            self._broker.send(session.peer, Detached(handle))

    def ended(self, session: Session) -> None:
        """The connection is over."""
        self._telling.pop(session.peer, None)
        self._held.pop(session.peer, None)
        self._detached = [item for item in self._detached if item[0] is not session]

    def flush(self) -> None:
        """Tell what is complete; read the clients less, or more, as much waits."""
        if (self._telling or self._detached or self.withheld_bytes) and not self.stopped:
            self.withheld_bytes = 0
            if self._telling:
                telling, self._telling = self._telling, {}
                for session in telling.values():
                    self._tell(session)
            if self._detached:
                detached, self._detached = self._detached, []
                for session, handle in detached:
                    self._broker.send(session.peer, Detached(handle))
        limit = self._broker.limits.uncommitted_bytes
        effects = self._broker.effects
        if (self.uncommitted_bytes > limit // (1 + self.paused)) != self.paused:
            self.paused = not self.paused
            effects.append(PauseClients(self.paused))
        if self.withheld_bytes and self.uncommitted_bytes + self.withheld_bytes > limit:
            new = [peer for peer in self._telling if peer not in self._held]
            effects += (PauseClient(peer, True) for peer in new)
            self._held |= dict.fromkeys(new)
        elif self._held and not self.stopped:
            effects += (PauseClient(peer, False) for peer in self._held)
            self._held = {}

    def _tell(self, session: Session) -> None:
        completed, session.completed = session.completed, {}
        send, peer = self._broker.send, session.peer
        if not session.unroutable:
            for handle, ranges in completed.items():
                send(peer, Completed(handle, ranges))
            return
        nowhere, session.unroutable = session.unroutable, {}
        for handle, ranges in completed.items():
            send(peer, Completed(handle, ranges, nowhere.get(handle, [])))
