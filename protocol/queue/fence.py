"""Which incarnations of which brokers are out of a queue (`sequencer.md` Q3): a fence that only ever moves forward."""

from __future__ import annotations


class Fence:
    """Attributes:
    evicted: broker -> its newest incarnation that is out.
    absent: brokers of which no newer incarnation has come back.
    """

    __slots__ = ("absent", "evicted")

    def __init__(self) -> None:
        self.evicted: dict[str, int] = {}
        self.absent: set[str] = set()

    def is_out(self, broker: str, inc: int) -> bool:
        return bool(self.evicted) and inc <= self.evicted.get(broker, -1)

    def put_out(self, broker: str, inc: int) -> bool:
        """This incarnation and all older ones are out; False: they were."""
        if self.is_out(broker, inc):
            return False
        self.evicted[broker] = inc
        self.absent.add(broker)
        return True

    def let_in(self, broker: str, inc: int) -> None:
        """This incarnation comes, unless it is out already."""
        if not self.is_out(broker, inc):
            self.absent.discard(broker)
