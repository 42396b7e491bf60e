"""A broker asks the others what they alone know: each answers once, and it does not wait for ever."""

from __future__ import annotations

from typing import Any

from mantamq.protocol.broker.fellows import Fellows
from mantamq.protocol.timing import DEFAULT_TIMING
from mantamq.protocol.wire.statistics_frames import FellowsAsked, FellowTold


class Leading:
    """An outbox that keeps what is said to the leader."""

    def __init__(self) -> None:
        self.now_ms = 1000
        self.said: list[Any] = []

    def lead(self, frame: Any) -> None:
        self.said.append(frame)


class Asking:
    """Broker b1 of three, in its second life."""

    def __init__(self, *others: str) -> None:
        self.outbox = Leading()
        self.heard: list[tuple[dict[str, Any], list[str]]] = []
        self.addresses = {"b1": "h:1", **dict.fromkeys(others, "h:2")}
        outbox: Any = self.outbox
        self.fellows = Fellows(outbox, "b1", 2, lambda: self.addresses, lambda what: {"of": what})

    def ask(self) -> None:
        self.fellows.ask(["queues"], lambda answers, silent: self.heard.append((dict(answers), silent)))

    def hear(self, frame: Any) -> None:
        self.fellows.rules()[type(frame)]("sequencer", frame)


def test_one_broker_alone_asks_nobody():
    one = Asking()
    one.ask()
    assert one.outbox.said == [] and one.heard == [({"b1": {"of": ["queues"]}}, [])]


def test_it_has_heard_when_all_have_answered():
    one = Asking("b2", "b3")
    one.ask()
    assert one.outbox.said == [FellowsAsked("b1", 2, 1, ["queues"])] and one.heard == []
    one.hear(FellowTold("b1", 2, 1, "b2", {"n": 2}))
    one.hear(FellowTold("b1", 2, 1, "b2", {"n": 9}))
    one.hear(FellowTold("b1", 1, 1, "b3", {"n": 9}))
    one.hear(FellowTold("b4", 2, 1, "b3", {"n": 9}))
    one.hear(FellowTold("b1", 2, 7, "b3", {"n": 9}))
    assert one.heard == []
    one.hear(FellowTold("b1", 2, 1, "b3", {"n": 3}))
    assert one.heard == [({"b1": {"of": ["queues"]}, "b2": {"n": 2}, "b3": {"n": 3}}, [])]


def test_who_does_not_answer_is_named():
    one = Asking("b2", "b3")
    one.ask()
    one.hear(FellowTold("b1", 2, 1, "b3", {"n": 3}))
    one.fellows.overdue(1000 + DEFAULT_TIMING.question_ms - 1)
    assert one.heard == []
    one.fellows.overdue(1000 + DEFAULT_TIMING.question_ms)
    assert one.heard == [({"b1": {"of": ["queues"]}, "b3": {"n": 3}}, ["b2"])]
    one.hear(FellowTold("b1", 2, 1, "b2", {"n": 2}))
    assert len(one.heard) == 1


def test_who_leaves_meanwhile_is_not_waited_for():
    one = Asking("b2", "b3")
    one.ask()
    one.hear(FellowTold("b1", 2, 1, "b2", {"n": 2}))
    one.fellows.overdue(one.outbox.now_ms)
    assert one.heard == []
    del one.addresses["b3"]
    one.fellows.overdue(one.outbox.now_ms)
    assert one.heard == [({"b1": {"of": ["queues"]}, "b2": {"n": 2}}, ["b3"])], "and named"


def test_it_tells_others_and_not_itself():
    one = Asking("b2")
    one.hear(FellowsAsked("b2", 5, 8, ["brokers"]))
    one.hear(FellowsAsked("b1", 2, 8, ["brokers"]))
    assert one.outbox.said == [FellowTold("b2", 5, 8, "b1", {"of": ["brokers"]})]
