"""Events of the cluster stream, and wirings made of them, to test with."""

from __future__ import annotations

from typing import Any

from mantamq.protocol.wire.events import AnyEvent, Bind, DeclareExchange, DeclareQueue
from mantamq.protocol.wiring.wiring import Wiring


def queue(name: str, alternate: str = "", **arguments: Any) -> DeclareQueue:
    return DeclareQueue(name, arguments, alternate=alternate)


def queues(*names: str) -> list[AnyEvent]:
    return [queue(name) for name in names]


def exchange(name: str, type: str = "direct", alternate: str = "", **arguments: Any) -> DeclareExchange:
    return DeclareExchange(name, type, arguments, alternate=alternate)


def bind(exchange: str, queue: str, key: str = "", **arguments: Any) -> Bind:
    return Bind(exchange, queue, key, arguments)


def link(exchange: str, to: str, key: str = "", **arguments: Any) -> Bind:
    """Bind an exchange to an exchange."""
    return Bind(exchange, "", key, arguments, to)


def wired(*events: AnyEvent) -> Wiring:
    """A wiring in which all `events`, at 1, 2, ..., succeeded."""
    wiring = Wiring()
    for index, event in enumerate(events, 1):
        outcome = wiring.apply(event, index)
        assert outcome.code == "", (event, outcome)
    return wiring


def names(ids: tuple[str, ...]) -> list[str]:
    """Of the queues with these ids; "@x" is the relay of exchange x."""
    return [id.rpartition("#")[0].replace("manta.exchange.", "@") for id in ids]


def to(wiring: Wiring, exchange: str, key: str = "", headers: dict[str, Any] | None = None) -> list[str]:
    """The names of the queues to which a message goes."""
    return names(wiring.route(exchange, key, headers))
