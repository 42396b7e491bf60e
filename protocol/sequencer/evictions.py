"""The brokers that are out: up to which incarnation, and which of them have not come back (Q3)."""

from __future__ import annotations

from ..limits import INCARNATIONS_PER_BROKER
from ..machine import broker_of
from .order import Order


class Evictions:
    """Attributes:
    out: broker -> the incarnation of its processes up to which it is evicted.
    absent: brokers that are evicted and have not come back.
    """

    def __init__(self, order: Order) -> None:
        self._order = order
        self.out: dict[str, int] = {}
        self.absent: set[str] = set()

    def begin(self, broker: str) -> int:
        """The broker is out from now on; returns the incarnation up to which it is."""
        inc = self.out[broker] = self.beyond(broker)
        self.absent.add(broker)
        return inc

    def is_out(self, peer: str, inc: int) -> bool:
        return inc <= self.out.get(broker_of(peer), -1)

    def beyond(self, broker: str) -> int:
        """An incarnation that no older process of this broker is above."""
        streams = self._order.streams.values()
        lives = [max(stream.incs.get(broker, 0), stream.lives.get(broker, 0)) for stream in streams]
        for stream in streams:
            lives += (keeper.life for voter, keeper in stream.keepers.items() if voter == broker)
            lives += (inc for origin, (inc, _, _) in stream.numbers.items() if broker_of(origin) == broker)
            lives.append(stream.over.get(broker, 0))
        # Under later ones it may have kept queues of which nothing is known here (`limits.INCARNATIONS_PER_BROKER`).
        return max([*lives, self.out.get(broker, 0) - INCARNATIONS_PER_BROKER]) + INCARNATIONS_PER_BROKER
