"""For how long senders are held back, and by what, as `perftest` says it."""

from __future__ import annotations

import asyncio
import queue
from types import SimpleNamespace
from typing import Any

import pytest
from mantamq.client.cli import perftest
from mantamq.client.cli.held_back import CLUSTER, HeldSenders, cause, look

QUEUE = "producer flow control: 'orders' waits for its consumers"
FLOW = f"{CLUSTER}: b2 is 13 events behind"


async def test_a_sender_is_looked_at_and_its_spans_added_up() -> None:
    sender, held, told = SimpleNamespace(blocked=""), HeldSenders(), list[Any]()

    def tell(seen: dict[str, float]) -> None:
        told.append(seen)
        held.add(seen)

    looking = asyncio.create_task(look(sender, tell, 0.002, 0.02))
    await asyncio.sleep(0.05)
    assert told == [] and held.lately() == ""
    for why in (QUEUE, FLOW):
        sender.blocked = why
        await asyncio.sleep(0.1)
    assert held.lately() == f", held back: {QUEUE}; {CLUSTER}"
    assert held.lately() == ""
    sender.blocked = ""
    looking.cancel()
    await asyncio.sleep(0)
    assert list(held.by) == [QUEUE, CLUSTER] and all(0.05 < seconds < 0.5 for seconds in held.by.values())
    figures = held.figures()
    assert figures["held_back_s"] == pytest.approx(sum(figures["held_back_by"].values()), abs=0.01)


def test_figures_that_change_are_no_other_cause() -> None:
    assert cause(FLOW) == cause(f"{CLUSTER}: b2 is 14 events behind") == CLUSTER
    assert cause(QUEUE) == QUEUE


def test_perftest_says_it_each_second_and_at_the_end(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    clock = SimpleNamespace(now=0.0)
    encoded = perftest.HdrHistogram(1, 1000, 3).encode()
    reports = [
        (0.5, ("sent", 3, b"")), (0.6, ("held", 0, {QUEUE: 0.25})), (1.1, ("received", 3, encoded)),
        (1.5, ("held", 0, {QUEUE: 0.5, CLUSTER: 1.5})), (2.2, ("received", 2, encoded)), (2.3, ("finished", 0, b"")),
    ]  # fmt: skip

    class Results:
        def get(self, timeout: float) -> Any:
            if not reports:
                raise queue.Empty
            clock.now, report = reports.pop(0)
            return report

    monkeypatch.setattr(perftest, "time", SimpleNamespace(monotonic=lambda: clock.now))
    done = SimpleNamespace(set=lambda: None)
    run = perftest._watch("id", Results(), [], 1, 1, 5, done, False)
    first, second = (line for line in capsys.readouterr().out.splitlines() if line.startswith("id:"))
    assert first.endswith(f"us, held back: {QUEUE}") and second.endswith(f"us, held back: {QUEUE}; {CLUSTER}")
    assert run["held_back_s"] == 2.25 and run["held_back_by"] == {QUEUE: 0.75, CLUSTER: 1.5}
