"""Consumers that hold a message for longer than their queue lets them (RabbitMQ: consumer_timeout).

The broker whose consumer it is counts, from when it has given the message out; then it ends that consumer, whose
messages go back by the event that ends any: flagged, and counted as deliveries that have failed. A queue that says
nothing of it has a plain `Dispatcher`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..queue.dispatch import Delivered, Dispatcher
from ..queue.settings import QueueSettings
from ..wire.queue_frames import HeldTooLong
from .outbox import QueueOutbox


def dispatcher_of(settings: QueueSettings, outbox: QueueOutbox) -> Callable[..., Dispatcher]:
    """What makes the dispatcher of a queue with these settings."""
    if not settings.consumer_timeout_ms:
        return Dispatcher
    return partial(TimedDispatcher, outbox, settings.consumer_timeout_ms)


class TimedDispatcher(Dispatcher):
    """Args: timeout_ms: for so long a consumer may hold a message; the rest is a `Dispatcher`'s."""

    def __init__(self, outbox: QueueOutbox, timeout_ms: int, *rest: Any) -> None:
        super().__init__(*rest)
        self._outbox = outbox
        self._timeout_ms = timeout_ms
        self._given = deque[tuple[int, int, int]]()  # (until when, subscription, acquisition), by rising time
        self._told: set[int] = set()  # subscriptions that are about to end

    def run(self, acquire: bool, next_acquisition: Iterator[int]) -> tuple[list[Delivered], bool]:
        """As any; and the broker hears of consumers that have held something for too long."""
        self._look()
        delivered, again = super().run(acquire, next_acquisition)
        until_ms = self._outbox.now_ms + self._timeout_ms
        self._given += (
            (until_ms, one.subscription.id, one.acquisition)
            for one in delivered
            if one.acquisition and one.subscription.accept
        )
        if self._given:
            self._outbox.set_timer(self.state.id, self._given[0][0])
        return delivered, again

    def _look(self) -> None:
        given, outbox = self._given, self._outbox
        self._told &= self.subscriptions.keys()
        while given:
            until_ms, sub, acquisition = given[0]
            holds = sub in self.subscriptions and acquisition in self.subscriptions[sub].held
            if holds and until_ms > outbox.now_ms:
                return
            given.popleft()
            if holds and sub not in self._told:
                self._told.add(sub)
                self.subscriptions[sub].waits += 1  # it is given nothing more
                outbox.send(outbox.broker, HeldTooLong(self.state.id, sub))
