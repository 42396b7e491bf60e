"""A question of one broker to the others, and an answer. Brokers have no links to each other: both go by the sequencer,
which passes them on as they are. Kinds 120 and 121, which no client may send."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from typing import Any

from .frame import Frame


class FellowsAsked(Frame):
    """Broker `asker`, incarnation `inc`, asks all others what they alone know, by a number of its own."""

    asker: str
    inc: int
    number: int
    what: list[str] = []


class FellowTold(Frame):
    """Broker `broker` answers that question with plain values."""

    asker: str
    inc: int
    number: int
    broker: str
    value: dict[str, Any]
