"""What the checker of drains holds against the number in an answer: what waits by the committed log, and is not given out
by the very replica that says it."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from mantamq.protocol.wire.queue_frames import Drained

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
