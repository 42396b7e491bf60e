"""Dead letters of this broker's replicas, on their way through an alternate exchange. Each batch is applied once,
whichever replicas ask for it, and a queue at its limit that refuses some has them go.

A message does not go round by itself: it comes to no queue in which it died since a consumer last had a say
(`deaths.py`), and so, where only such ones are bound, to none.

While flow control is on in the cluster they wait, as what producers send does: a batch may be as large as its queue.
But not for longer than a member that is behind is waited for: where it is on since memory or a disk is full, consumers
of dead letters may be those who make room.
"""

from __future__ import annotations

from functools import partial

from ..log.outbox import FollowerOutbox
from ..queue.moves import MOVED
from ..queue.relay import AGAIN
from ..timing import DEFAULT_TIMING, Timing
from ..wire.client_frames import Transfer
from ..wire.events import DeadLetterDone, Enqueue, encode_event
from ..wire.queue_frames import DeadLetter, DeadLettered
from ..wiring.exchanges import LooksAtHeaders
from .cluster_state import ClusterState
from .deaths import noted
from .moved import MovedMessages
from .requests import Requests
from .routing import Parts, route_each
from .session import SenderLink
from .transfers import Transfers


class DeadLetterRoutes:
    def __init__(
        self,
        outbox: FollowerOutbox,
        cluster: ClusterState,
        requests: Requests,
        transfers: Transfers,
        timing: Timing = DEFAULT_TIMING,
    ) -> None:
        self._wait_ms = timing.letters_wait_ms
        self._stopped_ms: int | None = None  # since when flow control is on
        self._outbox = outbox
        self._cluster = cluster
        self._requests = requests
        self._transfers = transfers
        self._moved = MovedMessages(outbox, cluster, requests, transfers, self.dead_letter)
        self._waiting: dict[tuple[str, str, int], DeadLetter] = {}  # by replica, queue and id
        self._asked: dict[str, int] = {}  # exchange's own queue -> up to where it was told to go by the stream

    def dead_letter(self, peer: str, frame: DeadLetter) -> None:
        """Have messages go by the alternate exchange, applied once. Or send on what comes from an exchange's own queue,
        by its keys. Behind those that wait, also where flow control has just gone off: in the order of their queue."""
        if self._held() or self._waiting:
            self._waiting[peer, frame.queue, frame.id] = frame
        else:
            self._cluster.once_applied(frame.wired, partial(self._routed, peer, frame))

    def go_on(self) -> None:
        """At the end of a batch: flow control may have gone on or off, or be on for long."""
        if not self._held() and self._waiting:
            waiting, self._waiting = self._waiting, {}
            for (peer, _, _), frame in waiting.items():
                self.dead_letter(peer, frame)

    def _held(self) -> bool:
        if not self._transfers.stopped:
            self._stopped_ms = None
            return False
        if self._stopped_ms is None:
            self._stopped_ms = self._outbox.now_ms
        return self._outbox.now_ms - self._stopped_ms < self._wait_ms

    def _routed(self, peer: str, frame: DeadLetter) -> None:
        if frame.cause == MOVED:
            self._moved.go(peer, frame)
            return
        answer = DeadLettered(frame.queue, frame.id)
        parts = self._onward(frame) if frame.first else self._by_alternate(frame)
        if parts:
            self._requests.request(parts, lambda: self._dead_lettered(peer, frame, parts, answer))
        else:
            self._outbox.send(peer, answer)

    def _onward(self, frame: DeadLetter) -> Parts:
        """One client for all batches, numbers that only rise: a queue takes each message once, and in order."""
        link = SenderLink(0, frame.exchange, "", f"{frame.queue}@")
        several = [(index, keys) for index, keys in enumerate(frame.keys) if len(keys) > 1]
        newer = self._cluster.wiring.as_of(frame.exchange, frame.wired) is not self._cluster.wiring
        if newer and self._asked.get(frame.queue, -1) < frame.wired:  # who made the binding has not said so
            self._asked[frame.queue] = self._cluster.keeper.commit
            again = encode_event(DeadLetterDone(AGAIN, self._cluster.keeper.commit))
            self._requests.request([(frame.queue, again)], lambda: None)
        transfer = Transfer(0, frame.first, frame.blobs, [keys[0] for keys in frame.keys], several=several)
        return route_each(self._cluster, link, transfer, frame.expiry, self._outbox.now_ms, frame)[0]

    def _by_alternate(self, frame: DeadLetter) -> Parts:
        key = frame.key or frame.queue.rpartition("#")[0]
        client = f"{frame.queue}@{frame.id}"
        at_ms = self._outbox.now_ms
        letters = noted(frame, at_ms)
        blobs, shunned = [blob for blob, _ in letters], [names for _, names in letters]
        event = Enqueue(client, [1, len(blobs)], blobs, origins=frame.origins, origin_of=frame.origin_of, at_ms=at_ms)
        try:
            route = self._cluster.wiring.route(frame.exchange, key)
            if frozenset[str]().union(*shunned).isdisjoint(queue.rpartition("#")[0] for queue in route):
                return self._cluster.traits.enqueues(route, event, lambda: [[key]] * len(blobs))
        except LooksAtHeaders:
            pass
        link = SenderLink(0, frame.exchange, key, client)
        return route_each(self._cluster, link, Transfer(0, 1, blobs), [], at_ms, frame, shunned)[0]

    def _dead_lettered(self, peer: str, frame: DeadLetter, parts: Parts, answer: DeadLettered) -> None:
        if self._transfers.held and self._transfers.holds(
            parts, lambda: self._dead_lettered(peer, frame, parts, answer)
        ):
            return
        if self._transfers.gone and any(queue in self._transfers.gone for queue, _ in parts):
            self.dead_letter(peer, frame)  # it did not count; the queues that have got it drop the repeat
        else:
            self._outbox.send(peer, answer)
