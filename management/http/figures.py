"""Counters and rates by RabbitMQ's names: message_stats, each with what it grows by in a second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

QUEUE_STATS = {"publish": "enqueued", "deliver_get": "acquires", "ack": "accepted"}
"""RabbitMQ's name -> our counter of a queue that counts the same."""
EXCHANGE_STATS = {"publish_in": "received"}
DEPTHS = {"messages": "messages", "messages_ready": "available", "messages_unacknowledged": "acquired"}
"""RabbitMQ's name -> ours."""


def stats(counts: Mapping[str, Any], rates: Mapping[str, float], names: Mapping[str, str]) -> dict[str, Any]:
    """message_stats: of counters, and their rates where these are known."""
    told: dict[str, Any] = {}
    for name, ours in names.items():
        if ours in counts:
            told[name] = counts[ours]
        if ours in rates:
            told[f"{name}_details"] = {"rate": rates[ours]}
    return told


def depths(row: Mapping[str, Any]) -> dict[str, Any]:
    """How many messages there are, wait, and are held."""
    return {name: row[ours] for name, ours in DEPTHS.items() if ours in row}
