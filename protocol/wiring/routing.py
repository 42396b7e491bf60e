"""Where a message goes from an exchange: by the bindings there are, over exchanges that are bound, to alternates.

Routes are kept as long as the wiring stays as it is; one that looks at a message's headers is found each time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from .definitions import QueueDefinition
from .exchanges import Exchange
from .links import look_at_headers, onward, reached

ROUTES_CACHED = 65_536


class Routing:
    """The routes of exchanges and queues that others add and take out; who does must clear `_cache`."""

    def __init__(self) -> None:
        self._queues: dict[str, QueueDefinition] = {}
        self._leads: dict[str, str] = {}  # name of a queue -> id of the one that gets what is sent to it
        self._exchanges: dict[str, Exchange] = {}
        self._cache: dict[tuple[str, str], tuple[str, ...]] = {}

    def route(self, exchange: str, key: str, headers: dict[str, Any] | None = None) -> tuple[str, ...]:
        """Ids of the queues a message goes to, each once, in the order of their names.

        An exchange that finds no queue, also not by exchanges bound to it, passes the message to its alternate, if it
        has one.

        Raises:
            LooksAtHeaders: that depends on the message's headers, and they were not given.
        """
        place = (exchange, key)
        if headers is None:
            found = self._cache.get(place)
            if found is not None:
                return found
        route = self.route_by_any(exchange, (key,), headers)
        if headers is None:
            if len(self._cache) >= ROUTES_CACHED:
                self._cache.clear()
            self._cache[place] = route
        return route

    def as_of(self, exchange: str, index: int) -> Routing:
        """The routes from that exchange by the bindings that were made up to that index of the stream, or before it was
        declared itself."""
        declared = self._exchanges.get(exchange)
        index = max(index, declared.since) if declared is not None else index
        there = {name: self._exchanges[name] for name in onward(self._exchanges, exchange) if name in self._exchanges}
        newer = {name: one.as_of(index) for name, one in there.items() if one.has_newer(index)}
        if not newer:
            return self
        found = Routing()
        found._queues, found._leads, found._exchanges = self._queues, self._leads, there | newer
        return found

    def route_own(self, exchange: str, key: str, headers: dict[str, Any] | None = None) -> tuple[str, ...]:
        """Id of the queue of that name, whether it is redirected or not."""
        return (self._queues[key].id,) if key in self._queues else ()

    def route_onward(self, exchange: str, key: str, headers: dict[str, Any] | None = None) -> tuple[str, ...]:
        """The same of what comes from the exchange's relay."""
        return self.route_by_any(exchange, (key,), headers, onward=True)

    def route_by_any(
        self, exchange: str, keys: Sequence[str], headers: dict[str, Any] | None = None, onward: bool = False
    ) -> tuple[str, ...]:
        """The same of a message with several keys: the queues that any of them finds. Only one for which none of them
        finds any goes to the alternate. `onward`: it comes from the exchange's relay."""
        seen: set[str] = set()
        while exchange not in seen and exchange in self._exchanges:
            here = self._exchanges[exchange]
            names = {name for key in keys for name in self._names(here, key, headers, onward and not seen)}
            seen.add(exchange)
            leads = self._leads
            ids = tuple(sorted({leads[queue] for queue in names if queue in leads}))
            alternate = here.definition.alternate
            if ids or not alternate:
                return ids
            exchange = alternate
        return ()

    def _names(
        self, exchange: Exchange, key: str, headers: dict[str, Any] | None, onward: bool = False
    ) -> Iterable[str]:
        """Of the queues that it finds, also by exchanges bound to it. `onward`: from behind its relay."""
        if exchange.relay and not onward:
            return (exchange.relay,)
        if exchange.links is not None:
            return reached(self._exchanges, exchange, key, headers, onward)
        return [key] if exchange.definition.name == "" else exchange.bound(key, headers)

    def needs_headers(self, exchange: str) -> bool:
        """Whether routing there, in its alternates, or in exchanges bound to these, looks at a message's headers."""
        return look_at_headers(self._exchanges, exchange)
