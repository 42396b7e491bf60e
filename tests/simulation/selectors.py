"""Which receivers of a story have selectors, and what those want: written by hand, with no grammar.

What a consumer gets is judged where its user fetches it (`boxes.py`); what it might have, by `drains.py` and `kinds.py`. At
the end some queues are emptied by consumers of which each wants what the others do not: so all that is wanted comes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from .model import opened

SHARE = 0.25
"""Of the receivers of users, and of the queues that are emptied in parts."""
UNREADABLE = {"mantamq.undecodable": True}


class Seen:
    """A message as a selector sees it. Attributes: c, d: its properties of those names, None without."""

    def __init__(self, fields: list[Any] | tuple[Any, ...]) -> None:
        fields = [*fields, *[None] * (10 - len(fields))]
        properties = fields[2] if isinstance(fields[2], dict) else {}
        self.c, self.d = properties.get("c"), properties.get("d")
        self.subject: str | None = fields[1]
        self.priority: int = 4 if fields[4] is None else fields[4]
        self.id: Any = fields[9]
        self.durable: bool = bool(fields[7])
        self.answers: Any = fields[5]


WANTED: dict[str, Callable[[Seen], bool]] = {
    "": lambda m: True,
    "c = 1": lambda m: m.c == 1,
    "c <> 1": lambda m: False,  # of a text nobody knows
    "not (c = 1 and d = 'x')": lambda m: m.d == "y",  # of the others it is false or unknown
    "d IS NULL": lambda m: m.d is None,
    "d IS NOT NULL": lambda m: m.d is not None,
    "d = 'x' AND c > 0": lambda m: m.d == "x" and m.c == 1,
    "c * 2 BETWEEN 1.5 AND 5 / 2 OR c LIKE '_w%'": lambda m: m.c in (1, "two"),
    "priority >= 4": lambda m: m.priority >= 4,
    "JMSPriority < 4": lambda m: m.priority < 4,
    "subject IN ('x', 'x.y') or durable": lambda m: m.subject in ("x", "x.y") or m.durable,
    "message_id = 'm'": lambda m: m.id == "m",
    "message_id IS NULL": lambda m: m.id is None,
    "JMSCorrelationID LIKE 'c%'": lambda m: m.answers is not None,
    "nobody = 'has it'": lambda m: False,
    "TRUE": lambda m: True,
}
PARTS = (("d IS NULL", "d IS NOT NULL"), ("priority >= 4", "JMSPriority < 4"), ("TRUE",))
"""Each message is wanted by one of them."""


def wants(selector: str, blob: bytes) -> bool:
    """Whether a message, as it is on the wire, is wanted."""
    return WANTED[selector](Seen(opened(blob)))


def seen_by_a_user(fields: tuple[Any, ...]) -> Seen:
    """A message as a user gets it: one that could not be read says so."""
    return Seen([] if fields[2] == UNREADABLE else fields)


class Selectors:
    """Of one story; its choices are its own, so that they do not move those of others."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"selectors of {seed}")

    def one(self) -> str:
        """Of a new receiver; "": it has none."""
        return self._rng.choice(list(WANTED)[1:]) if self._rng.random() < SHARE else ""

    def parts(self) -> tuple[str, ...]:
        """Of those who empty a queue together."""
        return self._rng.choice(PARTS) if self._rng.random() < SHARE else ("",)
