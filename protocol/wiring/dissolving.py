"""Queues that are deleted, and whose messages are on their way to their alternate exchange: as a pure function of the
cluster stream.

Such a queue is out of the wiring: nothing is routed to it, nobody finds it, and its name is free. Its stream goes on
until a broker says that nothing is left of it (`broker/dissolutions.py`); until then the exchange that is its alternate
stays.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import NOT_ALLOWED, PeerError
from ..queue.settings import QueueSettings
from ..wire.deletion_events import Dissolved
from ..wire.events import DeleteQueue, Lost
from ..wire.settings import read
from .definitions import QueueDefinition


class Dissolving(dict[str, QueueDefinition]):
    """Id of such a queue -> how it was declared."""

    __slots__ = ()

    def begin(self, queue: QueueDefinition, event: DeleteQueue) -> None:
        """A queue is deleted by that event."""
        if event.aside and read(QueueSettings, queue.arguments, alternate=queue.alternate).leaves_letters:
            self[queue.id] = queue

    def end(self, event: Dissolved | Lost) -> QueueDefinition:
        """Nothing is left of one of them, or nothing that could ever be had.

        Raises:
            PeerError: `not-allowed`, it must stay.
        """
        if isinstance(event, Lost) and self[event.queue].durable and not event.even_durable:
            raise PeerError(NOT_ALLOWED, f"{event.queue!r} is durable, and its disks may be put back")
        return self.pop(event.queue)

    def of_alternate(self, exchange: str) -> list[str]:
        """Whose alternate that exchange is, as words for people."""
        return [f"{one.name} (deleted, and not empty yet)" for one in self.values() if one.alternate == exchange]

    def snapshot(self) -> list[QueueDefinition]:
        return [self[id] for id in sorted(self)]

    @classmethod
    def restore(cls, queues: Iterable[QueueDefinition]) -> Dissolving:
        return cls({queue.id: queue for queue in queues})
