"""Queues that one client has for itself: whether its connection is there, as a pure function of the cluster stream.

A queue that is declared exclusive belongs to the client, by its id, whose connection has declared it: no other declares
or purges it, consumes from it, binds or deletes it. That connection may go to another broker: a broker orders
`Exclusive` when it has it, and when it has not any more; a later connection of the client takes over from an earlier
one, wherever that was. The queue goes when the connection was closed, or has been gone for its time
(`QueueSettings.vacant_s`), by the same order as one that its consumers have left (`vacancies.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ..errors import IN_USE, PeerError
from ..queue.settings import QueueSettings
from ..wire.events import DeclareQueue, Exclusive
from ..wire.settings import read
from .definitions import QueueDefinition
from .snapshot import ExclusivesSnapshot, Presence

IsOut = Callable[[str, int], bool]
"""Whether that incarnation of a broker is out."""


class Exclusives:
    """Attributes:
    present: queue id -> the connection of its client.
    parted: queue id -> index of the event with which that has gone. closed: ids of those whose client closed it.
    lives: queue id -> the latest connection of its client that there has been: an earlier one does not come again.
    of: client id -> ids of the queues that it has for itself.
    """

    def __init__(self) -> None:
        self.present: dict[str, Presence] = {}
        self.parted: dict[str, int] = {}
        self.closed: set[str] = set()
        self.lives: dict[str, int] = {}
        self.of: dict[str, list[str]] = {}
        self._waits_s: dict[str, int] = {}

    def declared(self, queue: QueueDefinition) -> None:
        if queue.client:
            self.of.setdefault(queue.client, []).append(queue.id)
            self._waits_s[queue.id] = read(QueueSettings, queue.arguments).vacant_s

    def begin(self, queue: QueueDefinition, event: DeclareQueue, index: int, is_out: IsOut) -> None:
        """Its client has declared it, or again, by the connection that the event names."""
        self.order(Exclusive(queue.id, event.broker, event.inc, True, event.life), index, is_out)
        if queue.id not in self.present:
            self.parted.setdefault(queue.id, index)

    def forget(self, queue: QueueDefinition) -> None:
        """The queue is gone."""
        if self._waits_s.pop(queue.id, None) is not None:
            self.of[queue.client].remove(queue.id)
            if not self.of[queue.client]:
                del self.of[queue.client]
        self.present.pop(queue.id, None)
        self.parted.pop(queue.id, None)
        self.lives.pop(queue.id, None)
        self.closed.discard(queue.id)

    def order(self, event: Exclusive, index: int, is_out: IsOut) -> None:
        id, had = event.queue, self.present.get(event.queue)
        if id not in self._waits_s:
            return
        there = had is not None and (had.broker, had.inc) == (event.broker, event.inc)
        if not event.on:
            if there:
                self._part(id, index)
                if event.closed:
                    self.closed.add(id)
        elif not is_out(event.broker, event.inc) and self.may_come(id, event.life, there):
            self.lives[id] = event.life
            self.present[id] = Presence(id, event.broker, event.inc, event.life)
            self.parted.pop(id, None)
            self.closed.discard(id)

    def may_come(self, id: str, life: int, there: bool = False) -> bool:
        """Whether that connection of a queue's client counts. `there`: it is at the broker where one is already."""
        newest = self.lives.get(id, 0)
        return life > newest or (life == newest and (there or id not in self.present))

    def ends(self, index: int, is_out: IsOut) -> None:
        """Incarnations of brokers may be out, and the connections with them."""
        for id, one in list(self.present.items()):
            if is_out(one.broker, one.inc):
                self._part(id, index)

    def _part(self, id: str, index: int) -> None:
        del self.present[id]
        self.parted[id] = index

    def waits(self) -> dict[tuple[str, int], int]:
        """(id of a queue whose client has gone, index) -> seconds that it waits from there."""
        return {(id, at): 0 if id in self.closed else self._waits_s[id] for id, at in self.parted.items()}

    def snapshot(self) -> ExclusivesSnapshot:
        present = [self.present[id] for id in sorted(self.present)]
        parted, lives = sorted(self.parted.items()), sorted(self.lives.items())
        return ExclusivesSnapshot(present, parted, sorted(self.closed), lives)

    @classmethod
    def restore(cls, queues: Iterable[QueueDefinition], was: ExclusivesSnapshot) -> Exclusives:
        exclusives = cls()
        for queue in queues:
            exclusives.declared(queue)
        exclusives.present = {one.queue: one for one in was.present}
        exclusives.parted, exclusives.closed = dict(was.parted), set(was.closed)
        exclusives.lives = dict(was.lives)
        return exclusives


def others(name: str) -> str:
    """Why a client is refused a queue."""
    return f"queue {name!r} is exclusive to another connection: declare one of your own, or send to this one"


def check_owner(queue: QueueDefinition | None, client: str) -> None:
    """Raises PeerError: `in-use`, another client has that queue for itself."""
    if queue is not None and queue.client not in ("", client):
        raise PeerError(IN_USE, others(queue.name))
