"""The frames of streams that have no majority: what waits for whom, and what is done about it by an operator."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

import msgspec

from .events import Ballot
from .frame import Frame

WAITS, RESET, LOST = "waits", "reset", "lost"
"""What becomes of a stream without a majority: it goes on when who is missing is back; it never will, and an operator
decides (a queue: `queue reset`; the cluster's own: browse, then stop the cluster and start it anew); it never will, and
nobody has anything of it, so it is dropped."""


class Waiting(msgspec.Struct, array_like=True, frozen=True):
    """One stream that has had no majority for a while.

    Attributes:
        stream: a queue's id, or `events.CLUSTER`.
        voters: whose logs count, as far as is known; `needed` of them are a majority.
        here: those who are here with their logs.
        blank: those who are here and have lost their logs.
        missing: those who are not here -> for how many ms they have not been, as far as the teller knows.
        for_ms: how long it has had no majority.
        fate: WAITS, RESET or LOST.
    """

    stream: str
    voters: list[str]
    needed: int
    here: list[str]
    blank: list[str]
    missing: dict[str, int]
    for_ms: int
    fate: str = WAITS


class Waits(Frame):
    """From a sequencer to a broker: which streams wait, and for whom. Said again as long as any does, and once when
    none does any more.

    Attributes:
        ballot, role: of the sequencer; one that stands by knows of the cluster stream only, and by its links.
        streams: the cluster's own first, `waiting.TOLD` at most; `more` others wait as well.
    """

    ballot: Ballot
    role: str
    streams: list[Waiting]
    more: int = 0


class Reset(Frame):
    """From a broker to the leader: an operator gives up the queue of id `queue`, which can never have a majority again.
    `number` is the broker's, and comes back with the answer."""

    queue: str
    number: int


class ResetDone(Frame):
    """The queue is gone, and every broker shows it; or, with a code, it is not to be reset, and why."""

    number: int
    code: str = ""
    text: str = ""
