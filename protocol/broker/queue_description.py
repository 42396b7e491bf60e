"""A queue as this broker's clients are told it: what it is declared to be, and its numbers, if these are asked for."""

from __future__ import annotations

from typing import Any

from ..queue.described import definition, kind_of
from ..queue.settings import QueueSettings
from ..wire.settings import read
from ..wiring.definitions import BY_POLICY, QueueDefinition


def queue_described(queue: QueueDefinition, report: dict[str, Any]) -> dict[str, Any]:
    """With what its replica reports."""
    settings = read(QueueSettings, queue.arguments)
    declared = {
        "name": queue.name,
        "id": queue.id,
        "durable": queue.durable,
        "alternate": queue.alternate,
        "arguments": queue.arguments,
        "kind": kind_of(settings),
        "definition": definition(settings),
    }
    of = queue.arguments.get(BY_POLICY, {})
    return declared | {name: of[name] for name in ("policy", "operator_policy") if name in of} | report
