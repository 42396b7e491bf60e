"""Events by which brokers come, go, and are out, and by which one supervises the cluster."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from .event import Event


class Evict(Event, tag=11):
    """Broker `broker`, incarnation `inc` and older, is out (Q3): requeue the messages it holds, drop its grant, void
    its events."""

    broker: str
    inc: int


class Rejoin(Event, tag=12):
    """Voter `voter` has lost its log and has been brought up to date again as incarnation `inc` (K4): from here on it
    votes, and no frame of an older incarnation of it counts."""

    voter: str
    inc: int


class Return(Event, tag=13):
    """Voter `voter` is back with the log that it had, as another process of life `life` (`durable.md` S9): older lives
    of it are out, as by a `Rejoin`. Its log counts as it did before, so of votes and logs this changes nothing. Only a
    member that keeps its log on disk comes back so, and in such a cluster all members know this event."""

    voter: str
    life: int


class Member(Event, tag=38):
    """A broker joins (`present`) or leaves the voters of this stream, one change at a time.

    The rule goes by the place in the log (`log/quorum.py`): entries up to and including this one are committed by a
    majority of the voters before it, entries behind it by a majority of the voters after it.
    """

    broker: str
    inc: int
    present: bool


class Supervise(Event, tag=54):
    """`name` supervises the cluster from here on, under `number`, if that is above the one before: orders of lower
    numbers have no effect at any member (`supervisor/office.py`)."""

    number: int
    id: str
    name: str
