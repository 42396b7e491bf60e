"""What a broker's part is built on in a test of that part alone: an outbox, the cluster stream, a book of requests."""

from __future__ import annotations

from typing import Any

from mantamq.protocol.broker.cluster_state import ClusterState
from mantamq.protocol.broker.requests import Requests
from mantamq.protocol.broker.session import Session
from mantamq.protocol.limits import DEFAULT
from mantamq.protocol.log.outbox import FollowerOutbox
from mantamq.protocol.log.submitter import Submitter
from mantamq.protocol.machine import Send
from mantamq.protocol.wire.events import AnyEvent, Ballot, DeclareQueue, decode_event
from mantamq.protocol.wire.log_frames import Request, Results
from mantamq.protocol.wiring.definitions import QueueDefinition
from mantamq.protocol.wiring.wiring import Outcome

ONE: Ballot = (1, 1)
THREE = ["b1", "b2", "b3"]
LEADER = "sequencer"


class Bench:
    """Broker b1 in its incarnation 5, of `voters`, which follows a sequencer; nothing of it but what parts share."""

    def __init__(self, *queues: str, voters: list[str] = THREE, blank: bool = False) -> None:
        self.outbox = FollowerOutbox()
        self.outbox.view.follow(LEADER, ONE, 0)
        self.outbox.view.attached = True
        self.cluster = ClusterState("b1", 5, blank, voters)
        self.completed = 0  # how often requests were said to be dealt with
        self.requests = Requests(self.outbox, Submitter("b1", 5), self.cluster.in_step, self._complete)
        self.sessions: dict[str, Session] = {}
        for name in queues:
            self.apply(DeclareQueue(name, {}))

    def _complete(self) -> None:
        self.completed += 1

    def apply(self, event: AnyEvent) -> Outcome:
        """The next entry of the cluster stream is committed."""
        self._index = getattr(self, "_index", 0) + 1
        return self.cluster.apply(event, self._index)

    def queue(self, name: str) -> QueueDefinition:
        found = self.cluster.wiring.queue(name)
        assert found is not None
        return found

    def session(self, peer: str = "c1", client: str = "c") -> Session:
        session = self.sessions[peer] = Session(peer, DEFAULT)
        session.client = client
        return session

    def take(self) -> list[Any]:
        """The effects since the last call: a frame as (peer, frame), others as they are."""
        return [(one.peer, one.frame) if isinstance(one, Send) else one for one in self.outbox.take()]

    def ordered(self) -> list[AnyEvent]:
        """The events that were asked for since the last call; nothing else has been said."""
        said = self.take()
        assert all(peer == LEADER and isinstance(frame, Request) for peer, frame in said), said
        events = [decode_event(event) for _, frame in said for _, event in frame.parts]
        return [event for event in events if event is not None]

    def answer(self, *numbers: int) -> None:
        self.requests.answered(LEADER, Results(5, list(numbers)))
