"""The frames about streams without a majority: which wait for which voters, and an operator's order to give one up."""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

import msgspec

from .events import Ballot
from .frame import Frame

WAITS, RESET, LOST = "waits", "reset", "lost"
"""The fates of a stream without a majority. WAITS: it goes on when the missing voters are back. RESET: it never will,
and an operator decides (a queue: `queue reset`; the cluster's own: browse, then stop the cluster and start it anew).
LOST: it never will, and no member has anything of it, so it is dropped."""


class Waiting(msgspec.Struct, array_like=True, frozen=True):
    """One stream that has had no majority for a while.

    Attributes:
        stream: a queue's id, or `events.CLUSTER`.
        voters: the stream's voters, as far as is known; `needed` of them are a majority.
        here: voters that are here with their logs.
        blank: voters that are here and have lost their logs.
        missing: voters that are not here -> for how many ms they have not been, as far as the sender knows.
        for_ms: how long the stream has had no majority.
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
    """From a sequencer to a broker: the streams that have no majority, and the voters each waits for. Sent again while
    there are any, and once more when there are none.

    Attributes:
        ballot, role: of the sequencer; a standby knows of the cluster stream only, and only by its links.
        streams: the cluster's own first, `majorities.TOLD` at most; `more` others wait as well.
    """

    ballot: Ballot
    role: str
    streams: list[Waiting]
    more: int = 0


class Reset(Frame):
    """From a broker to the leader: an operator gives up the queue of id `queue`, which can never have a majority again.
    The broker numbers its orders; `number` comes back with the answer. `even_durable`: also a durable one."""

    queue: str
    number: int
    even_durable: bool = False


class ResetDone(Frame):
    """The queue is gone, and every broker shows it; or, with a code, the reason why it is not reset."""

    number: int
    code: str = ""
    text: str = ""
