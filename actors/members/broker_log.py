"""A line of the log for what changes at a broker: what its clients declare and delete, its store, its clients.

All brokers apply what is declared. The one that was asked for it writes the line, in the life in which it was asked:
so there is one in the cluster. Nothing here is told of messages.
"""

from __future__ import annotations

import logging

from ...protocol.broker.lifecycle import CUT_OFF
from ...protocol.broker.observers import BrokerObserver
from ...protocol.store.news import SLOW
from ...protocol.wire.events import (
    AnyEvent,
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    Entry,
    Unbind,
)
from ...protocol.wire.pattern_events import DropPattern, PutPattern
from ...protocol.wire.policy_events import DropPolicy, PutPolicy
from ...protocol.wire.redirect_events import Redirect
from ...protocol.wiring.wiring import Outcome

log = logging.getLogger(__name__)


class BrokerLog(BrokerObserver):
    """Of one broker in one life."""

    def __init__(self, broker: str, inc: int) -> None:
        self._broker = broker
        self._inc = inc

    def applied(self, index: int, entry: Entry, event: AnyEvent, outcome: Outcome) -> None:
        if not outcome.changed or entry.origin != self._broker or entry.inc != self._inc:
            return
        match event:
            case DeclareQueue() | DeleteQueue():
                _queue(event, outcome)
            case DeclareExchange():
                log.info("exchange %(exchange)s is declared", {"exchange": event.name, "type": event.type})
            case DeleteExchange():
                log.info("exchange %(exchange)s is deleted", {"exchange": event.name})
            case Bind():
                log.debug(
                    "exchange %(exchange)s is bound to %(target)s by %(key)r",
                    {"exchange": event.exchange, "target": event.queue or event.to_exchange, "key": event.key},
                )
            case Unbind():
                log.debug(
                    "exchange %(exchange)s is not bound to %(target)s by %(key)r any more",
                    {"exchange": event.exchange, "target": event.queue or event.to_exchange, "key": event.key},
                )
            case PutPolicy():
                log.info("policy %(policy)s is put", {"policy": event.name, "pattern": event.pattern})
            case DropPolicy():
                log.info("policy %(policy)s is dropped", {"policy": event.name})
            case PutPattern():
                log.info(
                    "pattern %(name)s is put", {"name": event.name, "pattern": event.pattern, "makes": event.makes}
                )
            case DropPattern():
                log.info("pattern %(name)s is dropped", {"name": event.name})
            case Redirect(target=""):
                log.info("queue %(queue)s is redirected no more", {"queue": event.source})
            case Redirect():
                log.info("queue %(queue)s is redirected to %(target)s", {"queue": event.source, "target": event.target})
            case _:
                pass

    def client_opened(self, client: str) -> None:
        log.debug("client %(client)s is connected", {"client": client})

    def client_ended(self, client: str, code: str) -> None:
        log.debug("client %(client)s is gone", {"client": client, "code": code})

    def clients_sent_away(self, count: int, reason: str) -> None:
        if reason == CUT_OFF:
            log.warning("clients have to go, for want of a majority: %(reason)s", {"count": count, "reason": reason})
        else:
            log.info("clients have to go: %(reason)s", {"count": count, "reason": reason})

    def reading_paused(self, paused: bool) -> None:
        if paused:
            log.debug("clients that cannot be told to wait are not read")
        else:
            log.debug("all clients are read again")

    def store_opened(self, before: int, blank: bool, entries: int, took_ms: int) -> None:
        log.info(
            "the store of broker %(broker)s is open",
            {
                "broker": self._broker, "life": self._inc, "life_before": before, "blank": blank, "entries": entries,
                "took_ms": took_ms,
            },
        )  # fmt: skip

    def disk_pressed(self, pressed: bool) -> None:
        if pressed:
            log.warning("the disk of broker %(broker)s has no room: transfers wait", {"broker": self._broker})
        else:
            log.info("the disk of broker %(broker)s has room again", {"broker": self._broker})

    def store_happened(self, what: str, queue: str, value: int, detail: str) -> None:
        if what == SLOW:
            log.warning(
                "a flush of the store of broker %(broker)s took %(took_ms)d ms",
                {"broker": self._broker, "took_ms": value // 1000},
            )


def _queue(event: DeclareQueue | DeleteQueue, outcome: Outcome) -> None:
    """A queue that one client has for itself comes and goes with that, as replies to requests: that is no news."""
    queue = outcome.queue
    if queue is None:
        return
    if queue.client:
        if isinstance(event, DeclareQueue):
            log.debug("exclusive queue %(queue)s is declared", {"queue": queue.name, "id": queue.id})
        else:
            log.debug("exclusive queue %(queue)s is deleted", {"queue": queue.name, "id": queue.id})
    elif isinstance(event, DeclareQueue):
        log.info("queue %(queue)s is declared", {"queue": queue.name, "id": queue.id, "durable": queue.durable})
    else:
        log.info("queue %(queue)s is deleted", {"queue": queue.name, "id": queue.id, "durable": queue.durable})
