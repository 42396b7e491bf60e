"""Starts an actor in the place of one that has gone, on a host that answers.

sequencer   a new standby, on another host than the one that leads
the tap     where it was, if that node answers; the page, too, which begins beside the first broker
Ownership   there too, but not on the host of the other one
a broker    its store and its replicas end with it; all begin again, blank or with what the store has, and clients are
            told when it has the wiring
a store     its broker ends with it
a replica   none, if the broker has enough of them
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from ...protocol.errors import LocalError
from ...protocol.machine import EVENTS, MANAGEMENT, is_sequencer
from ...protocol.supervisor.layout import for_ownership, for_sequencer
from ...protocol.supervisor.turns import Turns
from ..members.sequencer import Sequencer
from .address_book import broker_of
from .announcer import Announcer
from .launcher import VERIFY_S, Launcher
from .management_life import PageDown
from .nodes import Nodes
from .orders import Orders
from .record import ClusterRecord
from .store_homes import StoreHomes

log = logging.getLogger(__name__)


class Replacer:
    """
    Args:
        turns: who is to be replaced.
        mind: called with an actor whose death is to be heard of from now on.
        homes: where brokers with stores are started again.
    """

    def __init__(
        self,
        record: ClusterRecord,
        orders: Orders,
        turns: Turns,
        nodes: Nodes,
        launcher: Launcher,
        announcer: Announcer,
        mind: Callable[[str], None],
        homes: StoreHomes,
    ) -> None:
        self._record = record
        self._orders = orders
        self._turns = turns
        self._nodes = nodes
        self._launcher = launcher
        self._announcer = announcer
        self._mind = mind
        self._homes = homes

    async def sequencer(self, dead: str) -> None:
        """A new standby, on another host than the sequencer that is left if there is one."""
        book, launcher = self._record.book, self._launcher
        await launcher.end(dead)
        book.pop(dead, None)
        node = for_sequencer(await self._nodes.answering(), [book[name].host for name in book.of("Sequencer")])
        name = launcher.new_sequencer(dead)
        launcher.new(Sequencer, name, node)
        try:
            await launcher.verify(name, VERIFY_S)
            await launcher.start_sequencer(name, False)
            # A sequencer that is dialled may lead, so the next supervisor must know it: it ends strangers.
            if not await self._announcer.tell():
                raise LocalError(f"a majority of the brokers is to know of {name} before anybody dials it")
        except BaseException:
            book.pop(name).handle.kill()
            raise
        self._mind(name)
        await self.acquaint()
        await self._orders.give_all([n for n in book if not is_sequencer(n)], "part", [dead])
        await self._announcer.tell()

    async def acquaint(self) -> None:
        """Have all members dial the sequencers there are; a link that is up stays."""
        book = self._record.book
        await self._orders.give_all([n for n in book if not is_sequencer(n)], "meet", book.sequencers())

    async def ownership(self, name: str) -> None:
        """Where it was, or, if that node does not answer or the other one is there too, on another host than that."""
        book = self._record.book
        await self._launcher.end(name)
        others = [book[other].host for other in book.of("Ownership") if other != name]
        node = for_ownership(await self._nodes.answering(), book[name].node, others)
        await self._launcher.launch_ownership(name, node)
        await self._orders.give_all(book.replicas(), "meet", {name: book[name].peers})
        await self._announcer.tell()

    async def events(self) -> None:
        """On the node where it was, if that answers: its parts may be there."""
        book = self._record.book
        await self._launcher.end(EVENTS)
        await self._launcher.launch_tap(await self._nodes.for_broker(book[EVENTS].node))
        await self._orders.give_all([*book.of("BrokerNode"), *book.replicas()], "meet", {EVENTS: book[EVENTS].peers})
        await self._announcer.tell()

    async def management(self) -> None:
        """On the node where it was, if that answers: people have its address.

        Raises:
            PageDown: it could not start; the record knows when that is tried again.
        """
        book, starts = self._record.book, self._record.page_starts
        node = book[book.of("BrokerNode")[0]].node
        if MANAGEMENT in book:
            node = book[MANAGEMENT].node
            await self._launcher.end(MANAGEMENT)
        node = await self._nodes.for_broker(node)
        try:
            await self._launcher.launch_management(node)
        except Exception as error:
            why = (str(error).splitlines() or [type(error).__name__])[0]
            starts.failed(_now_ms(), f"it could not start: {why}")
            raise PageDown(why) from error
        starts.began(_now_ms())
        await self._announcer.tell()

    async def replica(self, name: str) -> bool:
        """Whether another has come: its broker may have enough of them."""
        book, another = self._record.book, False
        broker = broker_of(name)
        await self._launcher.end(name)
        book.pop(name, None)
        await self._orders.give_all([n for n in book.replicas() if broker_of(n) != broker], "part", [name])
        if broker in book and broker not in self._turns and len(book.replicas(broker)) < self._record.config.spares + 1:
            another = await self._launcher.add_replica(broker)
        await self._announcer.tell()
        return another

    async def broker(self, broker: str) -> bool:
        """The broker, its store and its replicas begin again: blank, or with what the store has. False: it is left
        down."""
        book, stored = self._record.book, bool(self._record.config.store.data)
        old = book[broker]
        replicas = book.replicas(broker)
        book.change(broker, serving=False)
        await self._announcer.tell()
        group = [name for name in book.group(broker) if name != broker]
        await asyncio.gather(*(self._launcher.end(name) for name in [broker, *group]))
        book.change(broker, pid=0)
        self._turns.drop(broker)  # its store's turn is its own
        for name in group:
            book.pop(name, None)
            self._turns.drop(name)
        await self._orders.give_all(book.replicas(), "part", replicas)
        if self._record.store_failures.down(broker):
            book.change(broker, peers="")  # nobody is there
            why = self._record.store_failures.down(broker)
            log.error("broker %(broker)s is not started any more: %(reason)s", {"broker": broker, "reason": why})
            await self._announcer.tell()
            return False
        node = await (self._homes.of(broker) if stored else self._nodes.for_broker(old.node))
        stays = node.host == old.host
        port = int(old.clients.rsplit(":", 1)[1]) if old.clients and stays else self._record.plan.port(broker)
        # The next choice of a place counts the broker where it is about to be.
        book.change(broker, node=node.id, host=node.host, clients=old.clients if stays else "")
        names = await self._launcher.launch_broker(broker, node, max(self._record.config.spares, len(replicas)))
        try:
            await self._launcher.introduce(broker, names, port)
            if old.clients not in ("", address := book[broker].clients):
                log.warning(
                    "broker %(broker)s has moved: clients connect to %(address)s, it was %(before)s before",
                    {"broker": broker, "address": address, "before": old.clients},
                )
            self._announcer.serve_when_joined(broker)
        except BaseException:
            for name in [name for name in book.group(broker) if name != broker]:
                book.pop(name).handle.kill()
            raise
        return True


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
