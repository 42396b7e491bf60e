"""What becomes of a transfer that is committed, where the queue decides that as it applies it: one that refuses
messages at its limit, or holds its producers back. Kinds 16 and 17, between a broker and its own replicas; and 115, to
a client.
"""

# pyright: reportGeneralTypeIssues=false
# msgspec hands `frozen` down to subclasses, which the type checker does not know.
from __future__ import annotations

from .frame import Frame


class Judged(Frame):
    """To its broker: what has become of the enqueues that this broker has asked for.

    Attributes:
        inc: the incarnation of the broker that has asked for them.
        requests: numbers of its requests that are applied here; their completions need wait no longer.
        refused: to each of them, the client's numbers that the queue has refused, as ranges.
        stopped: the queue holds its producers back: it says no more of what is not refused until it does not.
        again: this replica begins anew with the queue, and may not have seen all applied: ask (`Judge`) for what waits.
        over: the queue destroys itself, for it would have exceeded its limit: it is to be deleted.
    """

    queue: str
    inc: int
    requests: list[int] = []
    refused: list[list[int]] = []
    stopped: bool = False
    again: bool = False
    over: bool = False


class Judge(Frame):
    """To its replica: what has become of these?

    Attributes:
        inc: the broker's incarnation.
        asked: (number of the request, client, the client's numbers in it, as ranges).
    """

    queue: str
    inc: int
    asked: list[tuple[int, str, list[int]]]


class HeldBack(Frame):
    """To a client: what its sender `handle` has under way waits until these queues, by name, have room; none: it waits
    no longer for that."""

    handle: int
    queues: list[str]
