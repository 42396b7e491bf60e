"""Which clients of a broker are held back, with its transfers alone."""

from __future__ import annotations

from typing import Any

from mantamq.protocol.broker.restraints import Restraints
from mantamq.protocol.broker.session import Session
from mantamq.protocol.broker.transfers import Transfers
from mantamq.protocol.wire.client_frames import Transfer
from mantamq.protocol.wire.events import DeclareQueue, FlowControl
from mantamq.protocol.wire.verdict_frames import Judged
from mantamq.protocol.wire.version import MINOR

from tests.unit.broker_bench import Bench

FREE = {"state": "running", "held_back_by": [], "why": ""}


class Alone:
    def __init__(self) -> None:
        self.bench = made = Bench("q")
        made.apply(DeclareQueue("slow", {"qpid.flow_stop_count": 1}))
        self.transfers = Transfers(made.outbox, made.cluster, made.requests, made.sessions, 1000)
        self.number = 0

    def client(self, peer: str, key: str = "q") -> Session:
        session = self.bench.session(peer, peer)
        session.minor = MINOR
        session.add_sender(1, "", key)
        return session

    def send(self, session: Session, body: bytes = b"m") -> None:
        self.transfers.transfer(session, Transfer(1, session.senders[1].next, [body]))
        self.transfers.flush()

    def judged(self, stopped: bool, *requests: int) -> None:
        self.transfers.verdicts.heard(
            Judged(self.bench.queue("slow").id, 5, [*requests], [[] for _ in requests], stopped)
        )
        self.transfers.flush()

    def of(self, session: Session) -> dict[str, Any]:
        return Restraints(self.bench.cluster, self.transfers).of(session)


def test_a_queue_holds_back_those_whose_messages_wait_for_it():
    alone = Alone()
    slow, other = alone.client("c1", "slow"), alone.client("c2")
    alone.send(other)
    alone.judged(True)
    assert alone.of(slow) == FREE, "it has sent nothing"
    alone.send(slow)
    assert alone.of(slow) == {
        "state": "flow", "held_back_by": ["slow"],
        "why": "producer flow control: 'slow' waits for its consumers",
    }  # fmt: skip
    assert alone.of(other) == FREE
    number = max(alone.bench.requests.submitter.unanswered)
    alone.bench.answer(number)
    alone.judged(False, number)
    assert alone.of(slow) == FREE


def test_the_cluster_holds_back_all_that_send():
    alone = Alone()
    sender, receiver = alone.client("c1"), alone.bench.session("c2", "c2")
    alone.bench.apply(FlowControl("b2", True, "b2 is 9 events behind"))
    assert alone.of(receiver) == FREE
    assert alone.of(sender) == {
        "state": "flow", "held_back_by": [], "why": "flow control of the cluster: b2 is 9 events behind",
    }  # fmt: skip
    alone.send(sender, bytes(1001))
    assert alone.of(sender)["state"] == "blocked"
    alone.bench.answer(1)
    alone.bench.apply(FlowControl("b2", False))
    alone.transfers.flush()
    assert alone.of(sender) == FREE


def test_a_broker_without_room_has_nobody_send():
    alone = Alone()
    one, other = alone.client("c1"), alone.client("c2")
    alone.send(one, bytes(1001))
    assert [alone.of(session)["why"] for session in (one, other)] == ["b1: too much is on its way"] * 2
    alone.bench.cluster.no_room = True
    assert alone.of(other) == {"state": "blocked", "held_back_by": [], "why": "b1: its disk has no room"}
