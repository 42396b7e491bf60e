"""A binding is made: what goes on from exchanges' own queues (`queue/relay.py`) goes by it from there on."""

from __future__ import annotations

from collections.abc import Callable

from ..queue.relay import AGAIN
from ..wire.events import DeadLetterDone, Lift, encode_event
from ..wiring.wiring import Outcome
from .cluster_state import ClusterState
from .requests import UNSEEN, Requests


def bound(cluster: ClusterState, requests: Requests, exchange: str, then: Callable[[], None]) -> None:
    """All brokers that are connected know the binding; one that is not waits for it (`DeadLetterDone.wired`). Queues
    that keep the last message send it on again, to whom it has not reached. `then`: all that is ordered."""
    relays = cluster.wiring.relays_to(exchange)
    if not relays:
        then()
        return
    event = encode_event(DeadLetterDone(AGAIN, cluster.keeper.commit))
    requests.request([(relay, event) for relay in relays], then)


def bound_unseen(cluster: ClusterState, requests: Requests, exchange: str) -> None:
    """A binding may be made that this broker does not know of yet, and its client does not hear that it is: what goes
    on must go by it all the same. So behind an event that has no effect, as soon as that has applied here."""

    def applied(outcome: Outcome) -> None:
        if outcome is UNSEEN:
            bound_unseen(cluster, requests, exchange)
        else:
            bound(cluster, requests, exchange, lambda: None)

    requests.order(Lift("", cluster.broker, cluster.inc, 0), applied)
