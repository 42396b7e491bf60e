"""One consumer as its broker's dispatch sees it: its credit, its place in the queue, and the messages it holds."""

from __future__ import annotations

from ..ranges import RangeSet
from .credit import CreditBalance
from .delivery_order import DeliveryOrder


class Subscription:
    """One consumer of the queue at this broker.

    Attributes:
        id: the broker's number for it.
        browse: the consumer does not acquire.
        accept: the consumer will settle; otherwise acquired is accepted.
        order: in which order it is offered messages.
        place: its place in the order: no message before it is of interest.
        held: acquisition -> positions delivered and not yet settled.
        draining: the consumer wants to know when it has got all there is.
        wanted, asked, known: number of the last drain that must be sure; of the last for which the stream is asked; of
            the last whose `DrainMark` is applied here.
        waits: number of things to wait for before the next delivery: each of its own releases that is not applied, and
            the return of messages it held at another broker.
        blocked: messages it held at another broker are known to be held there still.
        priority: those of a higher one are served first (`ranks.py`).
    """

    __slots__ = (
        "accept", "asked", "blocked", "browse", "credit", "draining", "held", "id", "known", "order", "place",
        "priority", "waits", "wanted",
    )  # fmt: skip

    def __init__(self, id: int, browse: bool, accept: bool, order: DeliveryOrder) -> None:
        self.id = id
        self.browse = browse
        self.accept = accept
        self.order = order
        self.place = order.start(browse)
        self.credit = CreditBalance()
        self.held: dict[int, RangeSet] = {}
        self.draining = False
        self.wanted = self.asked = self.known = 0
        self.waits = 0
        self.blocked = False
        self.priority = 0

    def drain(self, sure: bool) -> None:
        """The consumer asks to hear when it has got all there is; with `sure`, all that is complete by now."""
        self.draining = True
        self.wanted += sure
