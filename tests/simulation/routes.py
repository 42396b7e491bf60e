"""Messages sent to an exchange that is gone complete nowhere: transfers, as brokers get them, against completions."""

from __future__ import annotations

from mantamq.protocol.wire.client_frames import AttachSender, Completed, Transfer

from .model import Violation, each
from .world import World


class Routes:
    """Watches clients' senders.

    Attributes:
        gone: how many messages came to a broker where their exchange was deleted.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.gone = 0
        self._exchanges: dict[tuple[str, int], str] = {}  # (client, handle) -> exchange
        self._lost: dict[tuple[str, int], set[int]] = {}  # the same -> numbers that found their exchange gone
        world.watch(
            sent={AttachSender: self._attaches, Completed: self._completed}, arrived={Transfer: self._transferred}
        )

    def _attaches(self, source: str, target: str, frame: AttachSender) -> None:
        self._exchanges[source, frame.handle] = frame.exchange

    def _completed(self, source: str, target: str, frame: Completed) -> None:
        lost = self._lost.get((target, frame.handle), set()).intersection(each(frame.ranges))
        if lost:
            exchange = self._exchanges[target, frame.handle]
            raise Violation(f"{target} hears that {sorted(lost)} are complete; exchange {exchange} was deleted")

    def _transferred(self, source: str, target: str, frame: Transfer) -> None:
        if target in self.world.brokers:
            exchange = self._exchanges[source, frame.handle]
            if exchange and self.world.machines[target].wiring.exchange(exchange) is None:
                self.gone += len(frame.blobs)
                numbers = range(frame.first, frame.first + len(frame.blobs))
                self._lost.setdefault((source, frame.handle), set()).update(numbers)
