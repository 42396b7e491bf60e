"""A cluster with stores is stopped clean: first everybody gives back what they hold, while a majority still runs to
order it; then all that is in memory is written down; then the stores are closed, all under one id (`durable.md` 4).

    give_back    clients are sent away, messages and locks go back
    close        brokers and replicas: checkpoints, on disk, and not a word more; then their store

It makes the next start short, and no message is flagged redelivered then. Nothing depends on it: a process that does
not answer in time is left as a power cut leaves it, and its store stays dirty.
"""

from __future__ import annotations

import asyncio
import logging
import secrets

from ...protocol.machine import broker_of, store_of
from .orders import Orders
from .record import ClusterRecord

log = logging.getLogger(__name__)

GIVE_BACK_S = 10.0
CLOSE_S = 20.0
STOP_CLEAN_S = GIVE_BACK_S + 2 * CLOSE_S
"""All of it at the most."""


class CleanStop:
    """In the name of one supervisor. `give_back_s`, `close_s`: how long each step may take."""

    def __init__(
        self, record: ClusterRecord, orders: Orders, give_back_s: float = GIVE_BACK_S, close_s: float = CLOSE_S
    ) -> None:
        self._record = record
        self._orders = orders
        self._give_back_s = give_back_s
        self._close_s = close_s

    async def run(self) -> list[str]:
        """Stop all members but those that have no store; returns the brokers whose stores stay dirty."""
        book, shutdown = self._record.book, secrets.token_hex(8)
        brokers = [name for name in book.of("BrokerNode") if book.store(name)]
        await self._each(brokers, "give_back", timeout_s=self._give_back_s)
        members = [*brokers, *(name for name in book.replicas() if book.store(broker_of(name)))]
        late = {broker_of(name) for name in await self._each(members, "close", shutdown, timeout_s=self._close_s)}
        stores = [store_of(broker) for broker in brokers if broker not in late]
        late.update(map(broker_of, await self._each(stores, "close", shutdown, timeout_s=self._close_s)))
        if late:
            log.warning("not closed clean: %(brokers)s", {"brokers": ", ".join(sorted(late))})
        return sorted(late)

    async def _each(self, names: list[str], order: str, *args: str, timeout_s: float) -> list[str]:
        """Those that do not carry out an order in time."""
        calls = (self._orders.give(name, order, *args, timeout_s=timeout_s) for name in names)
        done = await asyncio.gather(*calls, return_exceptions=True)
        failed = {name: why for name, why in zip(names, done, strict=True) if isinstance(why, BaseException)}
        for name, why in failed.items():
            log.warning("%(order)s: %(member)s did not: %(reason)s", {"order": order, "member": name, "reason": why})
        return list(failed)
