"""How exchanges end: each takes its bindings with it, also those to it. One that was declared to go with the last of
its own bindings then goes, too; one that never had any stays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ..errors import NOT_ALLOWED, NOT_FOUND, PeerError
from .exchanges import Exchange


def end(exchanges: dict[str, Exchange], names: Iterable[str]) -> tuple[str, ...]:
    """Exchanges of these names are deleted, and those that go with them. Returns the names of all, sorted."""
    gone: list[str] = []
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if exchanges.pop(name, None) is not None:
            gone.append(name)
            waiting += unused([other for other in exchanges.values() if other.unlink(name)])
    return tuple(sorted(gone))


def unused(less: Iterable[Exchange]) -> list[str]:
    """Of exchanges that have just lost bindings, the names of those that go with the last of them."""
    return [
        exchange.definition.name
        for exchange in less
        if exchange.settings.auto_delete and not exchange.bindings and exchange.links is None
    ]


def check_alternate(exchanges: Mapping[str, Exchange], name: str) -> None:
    """Raises PeerError: `not-found`, `not-allowed`, there is none of that name that stays, as an alternate has to."""
    if name and name not in exchanges:
        raise PeerError(NOT_FOUND, f"there is no exchange {name!r} to be the alternate: declare it first")
    if name and exchanges[name].settings.auto_delete:
        text = f"exchange {name!r} goes with the last of its bindings, and an alternate has to stay: name another"
        raise PeerError(NOT_ALLOWED, text)
