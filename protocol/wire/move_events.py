"""Events by which messages that wait in a queue go on to another one, as an operator orders (`queue/moves.py`)."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from .event import Event

TO_KEY, TO_QUEUE, TO_SUBJECT, HOME, DISCARD = "", "queue", "subject", "home", "discard"
"""How messages find their way: all by one key; all to the queue of that id; each by its subject; each to the queue in
which it died, as it says; or they go nowhere, and are gone."""


class Move(Event, tag=20):
    """Of the messages in these ranges those that are available are set aside as one batch, and go on to an exchange.

    A move takes as many of these events as it needs. It looks at a queue's positions once, from the first to the last
    that there was when it began, and one that does not go on where the move stands is void: whichever broker goes on
    with it, a message goes once, and no more go than were asked for. Void, too, unless `broker` holds `grant`, as of an
    `Acquire`: what is on its way to a consumer is his. Without ranges it is of any broker that finds nothing, since an
    owner whose consumers wait at an empty queue keeps the lock: what another broker has chosen is void behind it.

    Attributes:
        token: of the move, drawn by its client.
        broker, inc, grant: who asks for it, and sees to the copies while it lives.
        after, upto: the move stands behind position `after`, and behind `upto` from here on.
        last: the last position that it looks at.
        exchange, key, by: where they go; `by`: `TO_KEY`, `TO_QUEUE` (of the id `key`), `TO_SUBJECT`, `HOME` or
            `DISCARD`.
    """

    token: str
    broker: str
    inc: int
    grant: int
    after: int
    upto: int
    last: int
    ranges: list[int]
    exchange: str = ""
    key: str = ""
    by: str = TO_KEY


class Moved(Event, tag=21):
    """The copies of a batch of moved messages are committed: dequeue them here, but for those that nobody took.

    Attributes:
        batch: index of the event that set them aside.
        back: ranges of those that return to their places: their queue is gone, or has refused them.
    """

    batch: int
    back: list[int] = []
