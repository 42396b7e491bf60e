"""All that is there, by its name and in the order of names."""

from __future__ import annotations

from collections.abc import Iterable

from .definitions import Binding, ExchangeDefinition, QueueDefinition
from .exclusives import check_owner
from .routing import Routing


class Inventory(Routing):
    """Exchanges, queues and bindings, as whoever declares and applies them has filled them in."""

    def __init__(self) -> None:
        super().__init__()
        self._by_id: dict[str, QueueDefinition] = {}

    def _put(self, queue: QueueDefinition) -> None:
        self._queues[queue.name] = self._by_id[queue.id] = queue
        self._leads[queue.name] = queue.id

    def _drop(self, queue: QueueDefinition) -> None:
        del self._queues[queue.name], self._by_id[queue.id], self._leads[queue.name]

    def _lead(self, source: str, target: str) -> None:
        """What is sent to the one queue comes into the other."""
        self._leads[source] = self._queues[target].id

    def _lead_all(self, redirects: Iterable[tuple[str, str]]) -> None:
        for source, target in redirects:
            self._lead(source, target)

    def leads(self, name: str) -> QueueDefinition | None:
        """The queue into which what is sent to the one of that name comes: itself, unless it is redirected."""
        return self._by_id.get(self._leads.get(name, ""))

    def queue(self, name: str) -> QueueDefinition | None:
        return self._queues.get(name)

    def by_id(self, id: str) -> QueueDefinition | None:
        return self._by_id.get(id)

    def queues(self) -> list[QueueDefinition]:
        return [self._queues[name] for name in sorted(self._queues)]

    @property
    def queue_count(self) -> int:
        """How many queues there are."""
        return len(self._queues)

    def exchange(self, name: str) -> ExchangeDefinition | None:
        found = self._exchanges.get(name)
        return found.definition if found is not None else None

    def internal(self, exchange: str) -> bool:
        """Whether clients send nothing to that exchange."""
        return exchange in self._exchanges and self._exchanges[exchange].settings.internal

    def exchanges(self) -> list[ExchangeDefinition]:
        return [self._exchanges[name].definition for name in sorted(self._exchanges)]

    def bindings(self) -> list[Binding]:
        return [
            self._exchanges[name].bindings[place]
            for name in sorted(self._exchanges)
            for place in sorted(self._exchanges[name].bindings)
        ]

    def links(self) -> list[Binding]:
        """Bindings to exchanges; in these a queue's name is an exchange's."""
        linked = [links for name in sorted(self._exchanges) if (links := self._exchanges[name].links) is not None]
        return [links.bindings[place] for links in linked for place in sorted(links.bindings)]

    def made(self) -> list[int]:
        """At which index each of `exchanges` was declared, and each of `bindings` and of `links` was made."""
        there = [self._exchanges[name] for name in sorted(self._exchanges)]
        linked = [exchange.links for exchange in there if exchange.links is not None]
        made = [exchange.made[place] for exchange in there + linked for place in sorted(exchange.bindings)]
        return [exchange.since for exchange in there] + made

    def _check_asker(self, queue: str, client: str) -> None:
        """Where the client that asked is named: its broker may not have known yet whose the queue is."""
        if client:
            check_owner(self._queues.get(queue), client)

    def _may_be_alternate(self, name: str) -> bool:
        return name in self._exchanges and not self._exchanges[name].settings.auto_delete
