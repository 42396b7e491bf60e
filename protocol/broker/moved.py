"""Messages that were moved out of a queue of this broker's replicas, on their way to where they go.

They go as a producer's messages would, but are not held back: a queue that may refuse them is waited for until it has
said what it has taken. What no queue has taken returns to its place. Nothing is noted on them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ..log.outbox import FollowerOutbox
from ..ranges import compress, pairs
from ..wire.client_frames import Transfer
from ..wire.events import Enqueue, decode_event
from ..wire.queue_frames import DeadLetter, DeadLettered
from .cluster_state import ClusterState
from .requests import Requests
from .routing import Numbers, Parts, route_each
from .session import SenderLink
from .transfers import Transfers
from .verdicts import Case


class Landing(Case):
    """A piece of a batch. Args: cluster, which knows the queues.

    Attributes:
        taken: index of a message -> by how many queues it is taken.
        counted: ids of the queues of which that is known. One that is deleted since, and sends what it holds to its
            alternate, has sent these there.
    """

    __slots__ = ("_cluster", "counted", "taken")

    def __init__(self, link: SenderLink, taken: list[int], cluster: ClusterState) -> None:
        super().__init__(None, link)
        self._cluster = cluster
        self.taken = taken
        self.counted: set[str] = set()

    def committed(self, parts: Parts) -> None:
        """All of it is in the streams of those queues that are kept."""
        open_ = {queue for queue, _ in self.awaits}
        self.counted.update(queue for queue, _ in parts if queue not in open_ and self._cluster.wiring.kept(queue))

    def said(self, queue: str, number: int, refused: list[int]) -> None:
        if (queue, number) in self.awaits:
            _count(self.taken, refused, -1)
            if self._cluster.wiring.kept(queue):
                self.counted.add(queue)
        super().said(queue, number, refused)


def _taken(count: int, parts: Parts, missing: list[int], judged: Numbers) -> list[int]:
    """To how many queues each of so many messages goes; where none of those may refuse it, that it goes to any."""
    if not judged:
        nowhere = set(missing)
        return [int(index not in nowhere) for index in range(count)]
    taken = [0] * count
    for queue, data in parts:
        event = decode_event(data) if queue not in judged else None
        _count(taken, event.numbers if isinstance(event, Enqueue) else judged[queue], 1)
    return taken


def _count(taken: list[int], numbers: list[int], by: int) -> None:
    for first, last in pairs(numbers):
        for number in range(first, last + 1):
            taken[number - 1] += by


class MovedMessages:
    """Args: again: called with a piece whose way has to be found anew, and who asked for it."""

    def __init__(
        self, outbox: FollowerOutbox, cluster: ClusterState, requests: Requests, transfers: Transfers,
        again: Callable[[str, DeadLetter], None],
    ) -> None:  # fmt: skip
        self._outbox = outbox
        self._cluster = cluster
        self._requests = requests
        self._transfers = transfers
        self._again = again

    def go(self, peer: str, frame: DeadLetter) -> None:
        """Send a piece on, applied once."""
        wiring, count = self._cluster.wiring, len(frame.blobs)
        link = SenderLink(0, frame.exchange, "", f"{frame.queue}@{frame.id}")
        keys = [keys[0] for keys in frame.keys]
        if frame.key:
            queue = wiring.by_id(frame.key)
            keys = [queue.name if queue is not None else ""] * count
        transfer = Transfer(0, 1, frame.blobs, keys)
        parts, missing, judged = route_each(self._cluster, link, transfer, frame.expiry, self._outbox.now_ms, frame)
        landing = Landing(link, _taken(count, parts, missing, judged), self._cluster)
        if not parts:
            self._landed(peer, frame, parts, landing)
            return
        number = self._requests.request(parts, partial(self._landed, peer, frame, parts, landing))
        for queue, numbers in judged.items():
            self._transfers.verdicts.expect(landing, queue, number, numbers)

    def _landed(self, peer: str, frame: DeadLetter, parts: Parts, landing: Landing) -> None:
        """All is committed; what becomes of it in queues that have a say in that is perhaps not known yet."""
        again = partial(self._landed, peer, frame, parts, landing)
        if self._transfers.held and self._transfers.holds(parts, again):
            return
        landing.committed(parts)
        if any(queue not in landing.counted and self._cluster.wiring.kept(queue) is None for queue, _ in parts):
            self._again(peer, frame)  # perhaps it did not count; the queues that have got it drop the repeat
        elif landing.awaits:
            landing.decided = again
        else:
            left = [position for position, taken in zip(frame.positions, landing.taken, strict=True) if not taken]
            self._outbox.send(peer, DeadLettered(frame.queue, frame.id, compress(left)))
