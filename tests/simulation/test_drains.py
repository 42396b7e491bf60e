"""What the checker of drains holds against the number in an answer: what waits by the committed log, and is not given out
by the very replica that says it. And against "nothing more": what waits, and is not about to be moved by that replica."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from mantamq.protocol.queue.dispatch import DrainMark
from mantamq.protocol.replica.moves import MoveJob
from mantamq.protocol.replica.own_events import OwnEvent
from mantamq.protocol.wire.queue_frames import Consume, Credit, Drained, MoveOrder, QueueCommand

from .deliveries import Out
from .drains import Drains
from .model import Violation

LIFE = 10_001
"""Of the replica that answers; its broker has kept the queue before, in life 1."""


@pytest.mark.parametrize(
    "out, waits",
    [
        (Out("b1", LIFE, 1, False), 1),
        (Out("b1", 1, 1, False), 2),  # that life is over, and what it gave out was never ordered
        (Out("b2", 1, 1, False), 2),
    ],
)
def test_what_a_replica_counts_is_all_that_waits_but_for_what_it_gave_out_itself(out, waits):
    model = SimpleNamespace(live=[1, 2], place={1: "available", 2: "available"}, out={})
    hosted = SimpleNamespace(applied=3, inc=LIFE)
    checker: Any = Drains.__new__(Drains)
    checker.counted = 0
    checker.world = SimpleNamespace(machines={"b1.r5": SimpleNamespace(queues={"q#1": hosted})})
    checker.watch = SimpleNamespace(models={"q#1": model}, commits={"q#1": 3}, gone=set())
    checker._deliveries = SimpleNamespace(out={("q#1", 2): out})
    for said in (0, 1, 2):
        with nullcontext() if said == waits else pytest.raises(Violation, match=f"{said} wait in q#1"):
            checker._counted("b1.r5", "b1", Drained("q#1", 4, said))
    assert checker.counted == 3


@pytest.mark.parametrize(
    "ranges, nothing",
    [
        ([], False),
        ([1, 1], False),  # another message goes
        ([1, 2], True),
        ([2, 2, 4, 5], True),
    ],
)
@pytest.mark.parametrize("mode", ["consume", "browse"])
def test_nothing_more_may_be_said_of_a_message_that_the_same_replica_moves(mode, ranges, nothing):
    order = MoveOrder("t", "", "p#2", "queue")
    job = MoveJob(QueueCommand("q#1", 1, "move", move=order), order)
    hosted = SimpleNamespace(own=[OwnEvent(1, 1, DrainMark([(4, 1)])), OwnEvent(1, 2, job)], inc=LIFE, applied=2)
    elsewhere = SimpleNamespace(own=[OwnEvent(1, 1, MoveJob(job.command, order))])
    elsewhere.own[0].tag.ranges = [1, 9]  # of another replica: nothing that this one knows
    model = SimpleNamespace(
        live=[2], place={1: "accepted", 2: "available"}, expiry={}, group="", blobs={2: b"m"}, out={}
    )
    world: Any = SimpleNamespace(
        machines={
            "b1.r5": SimpleNamespace(queues={"q#1": hosted}),
            "b2.r1": SimpleNamespace(queues={"q#1": elsewhere}),
        },
        now_us=5_000,
        watch=lambda **kinds: None,
        deaths=[],
    )
    watch: Any = SimpleNamespace(models={"q#1": model}, commits={"q#1": 3}, gone=set(), on_commit=[])
    nobody: Any = SimpleNamespace(out={}, of=lambda replica, sub: set())
    checker = Drains(world, watch, nobody, nobody)
    checker._comes("b1", "b1.r5", Consume("q#1", 4, mode, True))
    checker._allows("b1", "b1.r5", Credit("q#1", 4, 3, -1, True, True))
    job.ranges = ranges  # behind the question
    with nullcontext() if nothing else pytest.raises(Violation, match=r"has been there ever since: \[2\]"):
        checker._answered("b1.r5", "b1", Drained("q#1", 4, 1))
    assert checker.judged == 1
