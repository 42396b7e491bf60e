"""Dead letters of every cause: what queues are declared with for them, and what each letter says.

A letter is the message that died, with what its consumers noted on it, and says in properties where and why it died, from
which place, and how often it had been delivered in vain; and of earlier deaths what it said before. When it died no
committed event says: that is not compared.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec

from .model import DEFAULTS, ModelQueue, opened

DYING = 0.4
"""The share of stories in which queues are declared with more than an alternate."""
OWN = ("manta.death_cause", "manta.death_queue", "manta.death_position", "manta.death_deliveries")
FIRST = ("manta.first_death_ms", "x-first-death-reason", "x-first-death-queue")
DEATHS = "x-death"


class DeathChoices:
    """Of one story; its choices are its own, so that they do not move those of others."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"deaths of {seed}")
        self._any = self._rng.random() < DYING

    def some(self, kind: dict[str, Any], alternate: str) -> dict[str, Any]:
        """A queue's kind, with more of it perhaps."""
        rng, more = self._rng, dict[str, Any]()
        if not self._any:
            return kind
        if rng.random() < 0.4:
            more["delivery_limit"] = rng.choice([1, 1, 2])
        if alternate and rng.random() < 0.3:
            more["dead_letters"] = rng.choice(["all", "rejected"])
        if alternate and rng.random() < 0.2:
            more["dead_letter_key"] = rng.choice(["q0", "x"])
        rolls = kind.get("overflow") in ("ring", "reject") and "last_value_key" not in kind
        if alternate and rolls and rng.random() < 0.6:
            more["overflow"] = "dead-letter"
        return kind | more


def living(properties: dict[str, Any] | None) -> dict[str, Any]:
    """A message's properties without those of its deaths."""
    return {name: value for name, value in (properties or {}).items() if name not in (*OWN, *FIRST, DEATHS)}


def alive(blob: bytes) -> bytes:
    """A message without what says of its deaths, its fields in full; what is none stays as it is."""
    fields = opened(blob)
    if not fields or type(fields[0]) is not bytes:
        return blob
    fields += DEFAULTS[len(fields) :]
    fields[2] = living(fields[2] if isinstance(fields[2], dict) else {}) or None
    return msgspec.msgpack.encode(fields)


def wrong(letter: bytes, source: ModelQueue, position: int, cause: str, blob: bytes) -> str:
    """What is wrong with a letter of a message `blob` that died at a position of a queue; "" if nothing is."""
    if alive(letter) != alive(blob):
        return "is another message"
    fields = opened(letter)
    if not fields or type(fields[0]) is not bytes:
        return ""
    said, before = fields[2], (opened(blob) + [None] * 3)[2] or {}
    name = source.id.rpartition("#")[0]
    wanted = cause, name, position, source.returned.get(position, 0)
    if tuple(said.get(one) for one in OWN) != wanted:
        return f"says {[said.get(one) for one in OWN]}, not {wanted}"
    first = {one: before[one] for one in FIRST if one in before}
    if any(said.get(one) != value for one, value in first.items()) or not all(one in said for one in FIRST):
        return f"says of its first death {[said.get(one) for one in FIRST]}, and said {first}"
    counts = {(one["queue"], one["reason"]): one["count"] for one in before.get(DEATHS, [])}
    counts[name, cause] = counts.get((name, cause), 0) + 1
    found = {(one["queue"], one["reason"]): one["count"] for one in said[DEATHS]}
    newest = said[DEATHS][0]["queue"], said[DEATHS][0]["reason"]
    return "" if found == counts and newest == (name, cause) else f"has died {said[DEATHS]}, and did {counts}"


def shunned(blob: bytes) -> set[str]:
    """The queues to which a letter must not come: where it has died, since a consumer rejected it last."""
    properties = (opened(blob) + [None] * 3)[2]
    deaths = properties.get(DEATHS, []) if isinstance(properties, dict) else []
    found = {deaths[0]["queue"]} if deaths else set[str]()
    for death in deaths:
        if death["reason"] == "rejected":
            break
        found.add(death["queue"])
    return found
