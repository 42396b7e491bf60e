"""Consumers by priority: a run serves those of the highest one first, and others with what those have no credit for.

Of equal priority they take turns, as where there is none. A consumer that waits for its own releases, or may not take
what there is, is passed over meanwhile. Browsers take nothing from anybody, and are served first.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from .dispatch import Delivered, Dispatcher
from .subscription import Subscription


def rank(dispatcher: Dispatcher, subscription: Subscription, priority: int) -> None:
    """Give a subscription its priority. Nobody pays for that where all have the same, 0."""
    subscription.priority = priority
    if priority:
        dispatcher.run = partial(_run, dispatcher)


def _run(dispatcher: Dispatcher, acquire: bool, next_acquisition: Iterator[int]) -> tuple[list[Delivered], bool]:
    """As `Dispatcher.run`, rank by rank, and again as long as a rank takes something. It stops above the same bound, so
    at most twice that is given out."""
    everybody, turn = dispatcher.subscriptions, dispatcher.turn
    delivered: list[Delivered] = []
    more = False
    try:
        for served in _ranks(everybody):
            found: list[Delivered] | None = None
            while not more and found != []:
                dispatcher.served, dispatcher.turn = served, turn
                found, more = Dispatcher.run(dispatcher, acquire, next_acquisition)
                delivered += found
                given = sum(b - a + 1 for one in delivered for a, b in one.parts)
                more = more or given >= dispatcher.run_messages
    finally:
        dispatcher.served, dispatcher.turn = everybody, turn + 1
    return delivered, more


def _ranks(everybody: dict[int, Subscription]) -> list[dict[int, Subscription]]:
    """The subscriptions by rank, the first to be served first."""
    ranks: dict[int, dict[int, Subscription]] = {}
    highest = max((s.priority for s in everybody.values()), default=0)
    for id, subscription in everybody.items():
        ranks.setdefault(highest if subscription.browse else subscription.priority, {})[id] = subscription
    return [ranks[priority] for priority in sorted(ranks, reverse=True)]
