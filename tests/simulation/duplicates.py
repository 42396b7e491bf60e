"""Queues that take each message id once in a window: which of them do, with which ids users send, and what stays out.

What comes in is judged by `model.py`, position by position, and `counts.py`; here also which ids a queue knows.
"""

from __future__ import annotations

import random
from typing import Any

from mantamq.client import Message

from .model import ModelQueue, Violation

STORIES = 0.3
"""The share of stories with such queues."""
SHARE = 0.6
"""Of the queues in these."""
WINDOWS: tuple[dict[str, Any], ...] = (
    {"dedupe_window_count": 1}, {"dedupe_window_count": 3}, {"dedupe_window_count": 30}, {"dedupe_window_s": 1},
    {"dedupe_window_s": 3}, {"dedupe_window_s": 1, "dedupe_window_count": 4},
)  # fmt: skip
NAMES = {"dedupe_window_s": ("manta.dedupe_window_s",), "dedupe_window_count": ("manta.dedupe_window_count",)}
IDS: tuple[Any, ...] = (*(f"m{n}" for n in range(8)), 1, 1.0, "1", True, "long " * 20, ["m1"], {"m": 1})


class WindowChoices:
    """Of one story; its choices are its own, so that they do not move those of others."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"windows of {seed}")
        self._any = self._rng.random() < STORIES

    def some(self, kind: dict[str, Any]) -> dict[str, Any]:
        """A queue's kind, with a window perhaps."""
        if not self._any or self._rng.random() >= SHARE:
            return kind
        return kind | self._rng.choice(WINDOWS)


class MessageIds:
    """Of the messages of users, in the same stories."""

    def __init__(self, seed: int) -> None:
        self._any = random.Random(f"windows of {seed}").random() < STORIES
        self._rng = random.Random(f"message ids of {seed}")

    def put_on(self, message: Message) -> None:
        if self._any and self._rng.random() < 0.8:
            message.message_id = self._rng.choice(IDS)


def same_ids(where: str, state: Any, model: ModelQueue) -> None:
    """A queue knows as many ids as came in lately, and those that are known long enough to matter."""
    known = len({id for id, when in model.recent[-model.window :] if when > model.late - model.window_ms})
    if model.window and len(state.ids) != known:
        raise Violation(f"{where}: knows {len(state.ids)} ids, and {known} came lately")
