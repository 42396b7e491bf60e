"""Events of policies: what queues are given by the pattern of their names (`wiring/queue_policies.py`), and in the
stream of a queue what has become of it by that (`queue/arrangement.py`)."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from typing import Any

from .event import Event


class PutPolicy(Event, tag=72):
    """A policy is there from here on, in place of one of its name.

    Attributes:
        pattern: of the names of queues (`wiring/name_patterns.py`).
        arguments: that they get, in the spelling of declarations.
        priority: of those whose pattern fits a queue the one with the highest is the queue's.
        operator: it bounds what others say, and is one of a kind of its own, with its own names.
        alternate: exchange for dead letters that they get, "" for none.
    """

    name: str
    pattern: str
    arguments: dict[str, Any]
    priority: int = 0
    operator: bool = False
    alternate: str = ""


class DropPolicy(Event, tag=73):
    """A policy is there no more."""

    name: str
    operator: bool = False


class Configure(Event, tag=25):
    """In a queue's stream: from here on it is as the cluster's stream has it since the event at `index` there. Void
    behind one of the same index, or of a later one: every broker says it, behind all that it has sent to the queue as
    it was before.

    Attributes:
        arguments: that it has now, of those that change how a queue behaves. alternate: likewise.
        broker: who says so, and knows.
        since, brokers: as of `QueueDefinition`.
    """

    index: int
    arguments: dict[str, Any]
    alternate: str = ""
    broker: str = ""
    since: int = 0
    brokers: list[str] = []
