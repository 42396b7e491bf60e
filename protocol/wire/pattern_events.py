"""Events of patterns of queues and exchanges that are made when somebody attaches (`wiring/node_patterns.py`)."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from typing import Any

from .event import Event


class PutPattern(Event, tag=80):
    """A pattern is there from here on, in place of one of its name.

    Attributes:
        pattern: of names (`wiring/name_patterns.py`).
        makes: what is made: "queue" or "exchange".
        arguments, durable, alternate, type: that it is declared with, as its client gave them; type: an exchange's.
        priority: of those whose pattern fits a name the one with the highest is the name's.
    """

    name: str
    pattern: str
    makes: str
    arguments: dict[str, Any]
    durable: bool = False
    alternate: str = ""
    type: str = ""
    priority: int = 0


class DropPattern(Event, tag=81):
    """A pattern is there no more."""

    name: str
