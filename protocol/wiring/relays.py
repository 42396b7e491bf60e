"""Exchanges that give all that goes through them one order, to number it or to keep the last: each has a queue.

Brokers route each for itself, so what goes through an exchange has no order until it is in a queue. What is sent to
such an exchange goes to its *relay*, a queue of its own, and from there on to where its bindings lead
(`queue/relay.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import IN_USE, INVALID, NOT_FOUND, PeerError
from ..limits import DEFAULT
from ..queue.settings import QueueSettings
from ..wire.events import DeclareExchange, DeclareQueue
from ..wire.settings import read
from .definitions import ExchangeDefinition, QueueDefinition
from .exchanges import RELAYS, Exchange
from .links import onward
from .settings import ExchangeSettings


def relay_of(event: DeclareExchange, durable: bool) -> DeclareQueue | None:
    """The declaration of the exchange's relay, which is ordered before it; None: it needs none.

    Raises:
        PeerError: `invalid`, its name leaves no room for the relay's.
    """
    settings = read(ExchangeSettings, event.arguments)
    if not settings.relays:
        return None
    if len(RELAYS + event.name) > DEFAULT.name_chars:
        most = DEFAULT.name_chars - len(RELAYS)
        raise PeerError(
            INVALID, f"an exchange that numbers or keeps its messages has a name of at most {most} characters"
        )
    arguments: dict[str, Any] = {"manta.exchange": event.name}
    if settings.sequence:
        arguments["manta.exchange_sequence"] = True
    if settings.initial:
        arguments["manta.exchange_initial"] = True
    return DeclareQueue(RELAYS + event.name, arguments, durable)


def relay_name(exchange: ExchangeDefinition | None) -> str:
    """The name of its relay, "" for none."""
    relays = exchange is not None and read(ExchangeSettings, exchange.arguments).relays
    return RELAYS + exchange.name if exchange is not None and relays else ""


def relayed(queue: QueueDefinition) -> str:
    """The exchange whose relay a queue is, "" for none."""
    return read(QueueSettings, queue.arguments).exchange


def check_relay(exchange: Exchange, queues: Mapping[str, QueueDefinition]) -> None:
    """Raises PeerError: `not-found`, an exchange that needs a relay has none; `in-use`, it is another queue."""
    if not exchange.relay:
        return
    name, queue = exchange.definition.name, queues.get(exchange.relay)
    if queue is None:
        raise PeerError(NOT_FOUND, f"exchange {name!r} needs a queue {exchange.relay!r}, and it is gone: ask again")
    if relayed(queue) != name:
        raise PeerError(IN_USE, f"exchange {name!r} needs queue {exchange.relay!r} for itself: delete that first")


def check_no_ring(exchanges: Mapping[str, Exchange], source: str, target: str) -> None:
    """Raises PeerError: `invalid`, with `target` bound to `source` what a relay sends on would come back to it. In a
    ring without a relay a message ends where it has been."""
    ring = [name for name in onward(exchanges, target) if source in onward(exchanges, name)]
    if relays := sorted(name for name in ring if name in exchanges and exchanges[name].relay):
        text = f"exchange {relays[0]!r} would get back what it has sent on"
        raise PeerError(INVALID, f"{text}: have no ring through an exchange with qpid.msg_sequence or qpid.ive")


def relays_to(exchanges: Mapping[str, Exchange], queues: Mapping[str, QueueDefinition], exchange: str) -> list[str]:
    """Ids of the relays from which messages may go on to the bindings of that exchange."""
    before = [one for name, one in exchanges.items() if one.relay in queues and exchange in onward(exchanges, name)]
    return sorted(queues[one.relay].id for one in before)
