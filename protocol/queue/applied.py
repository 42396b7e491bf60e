"""The outcome of one event, the same on every replica of the queue."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Applied:
    """The outcome of an event.

    Attributes:
        effective: False when the event was void (an acquire without the grant, an own out of turn).
        lost: runs of an accept, release or reject which the broker did not hold; of moved messages what has gone.
        positions: ranges the event concerned: enqueued, returned, rejected, discarded.
        aside: ranges that this event sets aside for the alternate exchange, but for those that it rejects.
        orphans: batches of messages on their way there (see `QueueState.batches`) whose broker is out.
        dropped: (first, last, whether a consumer held them) of messages that went because others came, as a ring's.
    """

    effective: bool = True
    lost: list[int] = field(default_factory=list)
    positions: list[tuple[int, int]] = field(default_factory=list)
    orphans: list[int] = field(default_factory=list)
    dropped: list[tuple[int, int, bool]] = field(default_factory=list)
    aside: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class PutOff(Applied):
    """The outcome of an event by which messages come back, and some of them wait.

    Attributes:
        waits: (position, Unix ms): when each of these is due.
    """

    waits: list[tuple[int, int]] = field(default_factory=list)
