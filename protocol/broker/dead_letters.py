"""Rejected messages of this broker's replicas, on their way through an alternate exchange. Each batch is applied once,
whichever replicas ask for it, and a queue at its limit that refuses some has them go."""

from __future__ import annotations

from ..log.outbox import FollowerOutbox
from ..wire.client_frames import Transfer
from ..wire.events import Enqueue
from ..wire.queue_frames import DeadLetter, DeadLettered
from ..wiring.exchanges import LooksAtHeaders
from .cluster_state import ClusterState
from .requests import Requests
from .routing import Parts, route_each
from .session import SenderLink
from .transfers import Transfers


class DeadLetterRoutes:
    def __init__(self, outbox: FollowerOutbox, cluster: ClusterState, requests: Requests, transfers: Transfers) -> None:
        self._outbox = outbox
        self._cluster = cluster
        self._requests = requests
        self._transfers = transfers

    def dead_letter(self, peer: str, frame: DeadLetter) -> None:
        """Dead-letter rejected messages: by the alternate exchange, keyed by the queue's name, applied once."""
        name = frame.queue.rpartition("#")[0]
        answer = DeadLettered(frame.queue, frame.id)
        client = f"{frame.queue}@{frame.id}"
        at_ms = self._outbox.now_ms
        event = Enqueue(
            client, [1, len(frame.blobs)], frame.blobs, origins=frame.origins, origin_of=frame.origin_of, at_ms=at_ms
        )
        try:
            parts = self._cluster.traits.enqueues(self._cluster.wiring.route(frame.exchange, name), event)
        except LooksAtHeaders:
            link = SenderLink(0, frame.exchange, name, client)
            parts, _, _ = route_each(self._cluster, link, Transfer(0, 1, frame.blobs), [], at_ms, frame)
        if parts:
            self._requests.request(parts, lambda: self._dead_lettered(peer, frame, parts, answer))
        else:
            self._outbox.send(peer, answer)

    def _dead_lettered(self, peer: str, frame: DeadLetter, parts: Parts, answer: DeadLettered) -> None:
        if self._transfers.held and self._transfers.holds(
            parts, lambda: self._dead_lettered(peer, frame, parts, answer)
        ):
            return
        if self._transfers.gone and any(queue in self._transfers.gone for queue, _ in parts):
            self.dead_letter(peer, frame)  # it did not count; the queues that have got it drop the repeat
        else:
            self._outbox.send(peer, answer)
