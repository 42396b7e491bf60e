"""Exchanges that are bound to exchanges: the queues that a message reaches by them.

A message goes on from an exchange to all that is bound to it and takes it, exchanges like queues, under the key it came
with. It comes through each exchange once, so a ring of them ends, and it is once in each queue. An exchange on its way
that itself finds nothing passes it to its alternate exchange; the first one does so only if it has reached no queue at
all (`wiring.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .exchanges import Exchange


def reached(
    exchanges: Mapping[str, Exchange], first: Exchange, key: str, headers: dict[str, Any] | None, onward: bool = False
) -> list[str]:
    """Names of the queues that a message reaches from `first` on; one may stand there several times.

    Args:
        onward: it comes from the first one's relay, and goes on from there.

    Raises:
        LooksAtHeaders: that depends on the message's headers, and they were not given.
    """
    found: list[str] = []
    seen = {first.definition.name}
    waiting = [first]
    while waiting:
        exchange = waiting.pop()
        if exchange.relay and not (onward and exchange is first):
            found.append(exchange.relay)
            continue
        queues = exchange.bound(key, headers)
        further = exchange.links.bound(key, headers) if exchange.links is not None else []
        alternate = exchange.definition.alternate
        if alternate and not queues and not further and exchange is not first:
            further = [alternate]
        found += queues
        for name in further:
            if name not in seen and name in exchanges:
                seen.add(name)
                waiting.append(exchanges[name])
    return found


def look_at_headers(exchanges: Mapping[str, Exchange], name: str) -> bool:
    """Whether routing at that exchange, or wherever a message goes from there, looks at its headers."""
    return any(exchanges[one].definition.type == "headers" for one in onward(exchanges, name) if one in exchanges)


def onward(exchanges: Mapping[str, Exchange], first: str) -> set[str]:
    """Names of the exchanges that a message may reach from there, that one among them."""
    seen, waiting = {first}, [first]
    while waiting:
        exchange = exchanges.get(waiting.pop())
        if exchange is None:
            continue
        names = {exchange.definition.alternate} - {""}
        if exchange.links is not None:
            names |= {binding.queue for binding in exchange.links.bindings.values()}
        waiting += names - seen
        seen |= names
    return seen
