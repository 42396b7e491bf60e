"""Events by which a deleted queue is dissolved: what it still held goes to its alternate exchange, then it is gone."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from .event import Event


class Dissolve(Event, tag=24):
    """In a queue's stream: the broker knows that the queue is deleted, and sends nothing to it behind this event. With
    the first of these all that is in the queue is set aside for the alternate exchange, and whatever still comes is so
    at once (`queue/dissolution.py`)."""

    broker: str


class Dissolved(Event, tag=56):
    """In the cluster's stream: nothing is left of the deleted queue of that id, and its stream ends.

    Attributes:
        letters: how many messages have gone to the alternate since it was deleted.
    """

    queue: str
    letters: int = 0
