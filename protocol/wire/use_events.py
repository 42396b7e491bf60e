"""Events of who uses which queue: consumers, conditions of deletions, and clients that have a queue for themselves."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from .event import Event


class InUse(Event, tag=48):
    """A broker has its first consumer of the queue of that id (`on`), or no longer has any (`wiring/uses.py`).

    Attributes:
        claim: the one consumer that is to have the queue alone, as "client/handle"; "": its consumers share it.
        life: which of that client's connections it is on, counted from 1: a later one takes the claim over.
        place: of a queue with a single active consumer, of which every consumer is ordered: this one's number at the
            broker. Its claim is its name, and keeps its place in line for a later connection of its client.
    """

    queue: str
    broker: str
    inc: int
    on: bool
    claim: str = ""
    life: int = 0
    place: int = 0


class Condemn(Event, tag=49):
    """The queue of that id is to be deleted, if no broker uses it (`if_unused`) and it is found empty behind this event
    (`if_empty`). Until that is decided no broker begins to use it, or completes transfers to it, respectively.

    Attributes:
        broker, inc, number: the broker that asks, its incarnation, and the number of its request.
    """

    queue: str
    broker: str
    inc: int
    number: int
    if_unused: bool
    if_empty: bool


class Lift(Event, tag=50):
    """A `Condemn` is taken back: the queue stays."""

    queue: str
    broker: str
    inc: int
    number: int


class Recount(Event, tag=60):
    """Brokers order `InUse` again: one of them got its wiring from a program that does not know that event."""


class Exclusive(Event, tag=61):
    """The client that has the queue of that id for itself is connected to this broker (`on`), or not any more.

    Attributes:
        life: which of the client's connections it is, counted from 1: a later one takes over from an earlier one.
        closed: the client has closed it, and does not come back.
    """

    queue: str
    broker: str
    inc: int
    on: bool
    life: int = 0
    closed: bool = False
