"""Since when queues that go by themselves have no consumers any more: as a pure function of the cluster stream.

A queue that was declared so goes when its last consumer in the whole cluster has gone and none has come for its time
(`QueueSettings.vacant_s`); one that has had none yet stays. Whether one is there `Uses` knows. The end of its last use
is an event, whose index names all the time from there until a consumer comes again. A broker whose clock says that this
was long enough orders the deletion with that index: it has effect only while it is still the same time. So it does not
matter which broker says it, nor how often, nor who has died meanwhile (`broker/auto_deletion.py`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Self

from ..queue.settings import QueueSettings
from ..wire.settings import read
from .definitions import QueueDefinition

USED = 0
"""As an index: the queue has consumers."""


class Vacancies:
    """Attributes:
    since: id of a queue that goes by itself and has had consumers -> index of the event with which the last of them
        went, or `USED`.
    """

    def __init__(self) -> None:
        self.since: dict[str, int] = {}
        self._waits_s: dict[str, float] = {}  # queue id -> how long it waits; of all that go by themselves
        self._if_empty: set[str] = set()  # of those, such as go only when nothing is in them

    def declared(self, queue: QueueDefinition) -> None:
        settings = read(QueueSettings, queue.arguments)
        if settings.auto_delete:
            self._waits_s[queue.id] = settings.vacant_s
            if settings.goes_empty:
                self._if_empty.add(queue.id)

    def forget(self, id: str) -> None:
        """The queue is gone."""
        self._waits_s.pop(id, None)
        self._if_empty.discard(id)
        self.since.pop(id, None)

    def look(self, users: Container[str], index: int, queue: str = "") -> None:
        """The event at `index` may have changed who uses `queue`; "": any. `users`: ids of the queues with
        consumers."""
        for id in self._of_these([queue] if queue else self._waits_s):
            if id in users:
                self.since[id] = USED
            elif self.since.get(id) == USED:
                self.since[id] = index

    def _of_these(self, ids: Iterable[str]) -> list[str]:
        return [id for id in ids if id in self._waits_s]

    def waits(self) -> dict[tuple[str, int], float]:
        """(id of a queue that has been left, index) -> seconds that it waits from there; then it goes, with what is in
        it."""
        return {left: wait_s for left, wait_s in self._waits() if left[0] not in self._if_empty}

    def waits_if_empty(self) -> dict[tuple[str, int], float]:
        """The same of queues that go only if nothing is in them then, or later."""
        return {left: wait_s for left, wait_s in self._waits() if left[0] in self._if_empty} if self._if_empty else {}

    def _waits(self) -> Iterable[tuple[tuple[str, int], float]]:
        return [((id, since), self._waits_s[id]) for id, since in self.since.items() if since != USED]

    def snapshot(self) -> list[tuple[str, int]]:
        return sorted(self.since.items())

    @classmethod
    def restore(cls, queues: Iterable[QueueDefinition], since: Iterable[tuple[str, int]]) -> Self:
        vacancies = cls()
        for queue in queues:
            vacancies.declared(queue)
        vacancies.since = dict(since)
        return vacancies
