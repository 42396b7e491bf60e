"""Since when nobody has used a queue that goes when it is not used (RabbitMQ: x-expires): as a pure function of the
cluster stream, like `vacancies.py`.

Its declaration is a use, and so is each one after that, and every consumer for as long as it is there; browsers,
senders and questions are none. So its time begins with the event that declared it last, or with which its last
consumer went.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from ..queue.settings import QueueSettings
from ..wire.settings import read
from .definitions import QueueDefinition
from .vacancies import USED, Vacancies


class IdleQueues(Vacancies):
    """Attributes: since: id of a queue that goes so -> index of the event since which nobody uses it, or `USED`."""

    def declared(self, queue: QueueDefinition) -> None:
        settings = read(QueueSettings, queue.arguments)
        if settings.expires_ms:
            self._waits_s[queue.id] = settings.expires_ms / 1000

    def used(self, queue: QueueDefinition, index: int) -> None:
        """The event at `index` declares it, for the first time or again."""
        if queue.id in self._waits_s and self.since.get(queue.id) != USED:
            self.since[queue.id] = index

    def changed(self, queue: QueueDefinition, users: Container[str], index: int) -> None:
        """The event at `index` may have changed whether the queue goes so, and when. `users`: as of `look`."""
        went = self._waits_s.pop(queue.id, None) is not None
        self.declared(queue)
        if queue.id not in self._waits_s:
            self.since.pop(queue.id, None)
        elif not went:
            self.since[queue.id] = USED if queue.id in users else index


def sooner(*waits: Mapping[tuple[str, int], float]) -> dict[tuple[str, int], float]:
    """How long each of these waits, by whichever reason it goes first."""
    found: dict[tuple[str, int], float] = {}
    for each in waits:
        for left, wait_s in each.items():
            found[left] = min(wait_s, found.get(left, wait_s))
    return found
