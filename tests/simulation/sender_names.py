"""What a copy of a queue knows of named senders: which has each name, and up to where; against the model."""

from __future__ import annotations

from typing import Any

from .model import ModelQueue, Violation


def same_names(where: str, state: Any, model: ModelQueue) -> None:
    """A copy of a queue knows which sender has each name, and up to where it has sent."""
    if not model.holders and not state.named.holders:
        return
    if state.named.holders != model.holders:
        raise Violation(f"{where}: these have names: {state.named.holders}, the model says {model.holders}")
    for client, seen in model.seen.items():
        if client.endswith("!") and state.numbers.last(client) != max(seen, default=0):
            raise Violation(f"{where}: knows {state.numbers.last(client)} of {client}, the model {max(seen)}")
