"""What a queue is declared to be, as its users are told it: by the keywords of `declare_queue`, and what follows.

A setting that is added is among it by itself; a setting that makes a kind is added to `KINDS`.
"""

from __future__ import annotations

from typing import Any

from ..wire.settings import arguments_of
from .settings import QueueSettings

MS = "_ms"
PLAIN = "plain"
KINDS = {
    "priorities": "priority",
    "max_priority": "priority",
    "last_value_key": "last-value",
    "group_key": "groups",
    "fair_key": "fair",
    "exchange": "relay",
}
"""Setting -> the word for the kind of a queue that has it."""


def kind_of(settings: QueueSettings) -> str:
    """The kind of a queue in one word, "plain" where it is of no other."""
    return next((word for field, word in KINDS.items() if getattr(settings, field)), PLAIN)


def definition(settings: QueueSettings) -> dict[str, Any]:
    """Keyword of `declare_queue` -> value, of all that is not as without it. Thresholds of flow control are those in
    force, given or not; none are named where the queue never holds its producers back."""
    plain = type(settings)()
    found = {
        field: value
        for field in arguments_of(type(settings))
        if not field.startswith("flow_") and (value := getattr(settings, field)) != getattr(plain, field)
    }
    for what, (stop, resume) in zip(("count", "size"), settings.thresholds, strict=True):
        if stop:
            found |= {f"flow_stop_{what}": stop, f"flow_resume_{what}": resume}
    return by_keyword(found)


def by_keyword(found: dict[str, Any]) -> dict[str, Any]:
    """Settings as clients say them: in seconds what the cluster counts in milliseconds."""
    return {
        f"{field.removesuffix(MS)}_s" if field.endswith(MS) else field: value / 1000 if field.endswith(MS) else value
        for field, value in found.items()
    }
