"""What is special about a queue, by the marks that RabbitMQ's management pages have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MARKS = {
    "durable": "D",
    "exclusive": "Excl",
    "auto_delete": "AD",
    "expires_s": "Exp",
    "message_ttl_s": "TTL",
    "delivery_limit": "DL",
    "single_active": "SAC",
    "alternate": "DLX",
    "redirected_to": "Redir",
}
"""What a queue has -> the mark that a queue with it has in a list."""


def features(queue: Mapping[str, Any]) -> dict[str, tuple[str, Any]]:
    """Mark -> what the queue has, and its value there.

    Args:
        queue: as `Connection.queue` describes it.
    """
    said = {
        **queue.get("definition", {}),
        **{name: queue.get(name) for name in ("durable", "alternate", "redirected_to")},
    }
    return {mark: (name, said[name]) for name, mark in MARKS.items() if said.get(name)}


def features_of(queue: Mapping[str, Any]) -> str:
    """All marks of a queue, with blanks between them."""
    return " ".join(features(queue))
