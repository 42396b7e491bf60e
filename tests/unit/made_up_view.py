"""A view of a cluster that was looked at twice, with everything in it that metrics tell of."""

from __future__ import annotations

from typing import Any

from mantamq.management.metrics.registry import Point
from mantamq.management.view import ManagementView, Sample

from . import made_up_status as made

QUEUE_FIELDS = (
    "messages", "available", "acquired", "delayed", "dead_lettering", "bytes", "consumers", "enqueued", "dequeued",
    "accepted", "discarded", "dead_lettered", "expired", "moved", "acquires", "releases", "bytes_in", "bytes_out",
    "handovers", "discarded_subscriber", "discarded_too_often", "discarded_ring", "discarded_last_value",
    "discarded_purge", "refused", "duplicates", "flowStoppedCount", "age_ms",
)  # fmt: skip


def queue_row(name: str, **values: Any) -> dict[str, Any]:
    """As statistics describe a queue: all numbers are 0 that are not given."""
    return {"id": f"id of {name}", "name": name, "owner": "b1", **dict.fromkeys(QUEUE_FIELDS, 0)} | values


def broker_row(name: str, **values: Any) -> dict[str, Any]:
    numbers = ("connections", "senders", "receivers", "unacked", "locks", "received", "unroutable")
    row: dict[str, Any] = dict.fromkeys((*numbers, "uncommitted_bytes", "withheld_bytes"), 0)
    return {"broker": name, "inc": 0, "address": f"{name}:1"} | row | values


def exchange_row(name: str, **values: Any) -> dict[str, Any]:
    return {"name": name, "type": "direct", "received": 0, "routed": 0, "unroutable": 0} | values


def look(view: ManagementView, at_s: float, status: Any = None, **statistics: Any) -> ManagementView:
    """One more look, at so many seconds."""
    view.take(Sample(at_s, 1000.0 + at_s, status, statistics))
    return view


def whole_view(queues: int = 2) -> ManagementView:
    """Of `queues` queues, "q0" and so on, with everything."""
    found = made.actors()
    made.add_stores(found)
    found.append(made.member("tap", "EventTap", machine=made.tap(dropped=3, unwritten=7)))
    made.alter(made.machine(found, "b1"), memory_bytes=6 << 30, memory_limit_bytes=8 << 30)
    made.alter(made.machine(found, "sequencer2").streams[made.ORDERS], lag={"b1": 0, "b2": 4}, missing=["b3"])
    made.silence(found, "ownership2")
    view = ManagementView()
    for second in (1, 3):
        rows = [
            queue_row(f"q{number}", messages=number, available=number, enqueued=second * number, age_ms=1500)
            for number in range(queues)
        ]
        look(
            view, second, made.report(found), queues=rows, exchanges=[exchange_row("orders", received=5, routed=4)],
            brokers=[broker_row("b1", connections=2, received=5), {"broker": "b2", "error": "b2 has not answered"}],
            silent=["b2"],
        )  # fmt: skip
    return view


def value_of(points: list[Point], *labels: str) -> float | None:
    """The value of these labels; None where there is none."""
    return dict(points).get(labels)
