"""The moves of one queue at one replica, alone: a broker that finds nothing says so once all replicas know it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from mantamq.protocol.lock.holder import LockHolder
from mantamq.protocol.queue.dispatch import Dispatcher
from mantamq.protocol.queue.moves import MoveProgress
from mantamq.protocol.queue.policies import policies_of
from mantamq.protocol.queue.settings import QueueSettings
from mantamq.protocol.queue.state import QueueState
from mantamq.protocol.replica.moves import MoveJob, Moving
from mantamq.protocol.replica.own_events import OwnEvents
from mantamq.protocol.wire.events import Enqueue, Move, Own
from mantamq.protocol.wire.queue_frames import MoveOrder, QueueCommand, QueueReply

from tests.unit.replica_outbox import KeptOutbox

ORDER = MoveOrder("t", "", "to#2", "queue")
NOTHING = SimpleNamespace(gather=lambda: None, begin=lambda index: None)


class Replica:
    """A queue's replica at one broker, of which the parts around its moves are empty."""

    def __init__(self, broker: str) -> None:
        self.state, self.outbox, self.lock = QueueState("q#1"), KeptOutbox(), LockHolder()
        self.outbox.broker = broker
        policies = policies_of(self.state, QueueSettings())
        self.dispatcher = Dispatcher(self.state, policies.order, policies.allocator)
        self.own = OwnEvents("q#1", self.outbox)
        nothing = cast(Any, NOTHING)
        self.moving = Moving(self.state, 1, nothing, self.dispatcher, self.lock, nothing, self.own, self.outbox)

    def ask(self) -> None:
        job = self.moving.asked(QueueCommand("q#1", 1, "move", move=ORDER), ORDER)
        job.waits = False
        self.moving.go_on()

    def apply(self, *events: Any) -> None:
        for event in events:
            done = self.state.apply(event)
            if isinstance(event, Own) and event.broker == self.outbox.broker:
                self.lock.granted(self.state.grant, 0)
            elif isinstance(event, Own):
                self.lock.passed(self.state.grant)
            if isinstance(event, Move) and event.broker == self.outbox.broker:
                tag = self.own.popleft().tag
                assert isinstance(tag, MoveJob)
                self.moving.applied(tag, event, done)

    def answers(self) -> list[Any]:
        return [frame.value for _, frame in self.outbox.sent if isinstance(frame, QueueReply)]


@pytest.mark.parametrize("came", [0, 2], ids=["since its beginning", "by now"])
def test_what_another_broker_has_chosen_is_void_behind_a_look_that_found_nothing(came: int):
    """The client of the first one has left it, and asks the second one, which hears of no choice meanwhile."""
    first, second = Replica("b1"), Replica("b2")
    before = [Own("b1", 1)] + [Enqueue("c", [n, n], [b"m"]) for n in range(1, came + 1)]
    for one in (first, second):
        one.apply(*before)
        one.state.available.remove(1, 2)  # as if consumers had them
    late = Enqueue("c", [9, 9], [b"late"])
    first.apply(late)
    first.ask()
    (chosen,) = first.outbox.events()
    assert chosen.ranges == [came + 1, came + 1]
    second.ask()
    assert second.answers() == [], "none is not said before it is known everywhere"
    assert not second.dispatcher.wants(), "who owns an empty queue may keep it for ever"
    (nothing,) = second.outbox.events()
    assert (nothing.ranges, nothing.last) == ([], came)
    for one in (first, second):
        one.apply(nothing)
    assert second.answers() == [{"moved": 0, "left": 0, "more": False}]
    second.apply(late)
    for one in (first, second):
        one.apply(chosen)
        assert one.state.available.count == 1, "what was chosen before stays"
        assert one.state.batches.moves["t"] == MoveProgress(max(came, 1), came)
    assert first.outbox.events() == [] and first.answers() == second.answers(), "nor is it chosen again"


def test_who_finds_nothing_behind_what_another_broker_has_moved_says_how_much_that_was():
    first, second = Replica("b1"), Replica("b2")
    for one in (first, second):
        one.apply(Own("b1", 1), Enqueue("c", [1, 1], [b"m"]))
    first.ask()
    (chosen,) = first.outbox.events()
    second.state.available.remove(1, 1)
    second.ask()
    (nothing,) = second.outbox.events()
    second.state.available.add(1, 1)
    for one in (first, second):
        one.apply(chosen, nothing)
        assert one.state.batches.moves["t"] == MoveProgress(1, 1, 1), "void: the move stands elsewhere"
    assert second.answers() == [], "its copies are on their way"


def test_a_move_that_has_chosen_is_answered_without_another_look():
    one = Replica("b1")
    one.apply(Own("b1", 1), Enqueue("c", [1, 1], [b"m"]))
    one.ask()
    (chosen,) = one.outbox.events()
    one.apply(chosen)
    assert one.answers() == [], "its copies are on their way"
    one.state.batches.moves.targets.clear()
    one.moving.ended([])
    assert one.outbox.events() == [] and [answer["more"] for answer in one.answers()] == [False]
