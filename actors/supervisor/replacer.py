"""What comes in the place of what has gone: the Supervisor's part that starts it, on a host that answers.

sequencer   a new standby, on another host than the one that leads
the tap     where it was, if that node answers
Ownership   there too, but not on the host of the other one
a broker    its replicas end with it; all begin again, blank, and are told of when they have the wiring
a replica   nothing, if others are enough
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ...protocol.errors import LocalError
from ...protocol.machine import EVENTS, SEQUENCER, is_sequencer
from ...protocol.supervisor.layout import Node, emptiest, for_broker, for_ownership, for_sequencer
from ..members.broker_node import BrokerNode
from ..members.ownership import Ownership
from ..members.queue_replica import QueueReplica
from ..members.sequencer import Sequencer
from ..ray_control.placement import alive_nodes, broker_nodes
from . import tap_life
from .address_book import broker_of

if TYPE_CHECKING:
    from .supervisor import Supervisor

ASK_S = 2.0
VERIFY_S = 30.0


class Replacer:
    def __init__(self, supervisor: Supervisor) -> None:
        self._supervisor = supervisor
        self._healer = supervisor.healer

    async def sequencer(self, dead: str) -> None:
        """A new standby, on another host than the sequencer that is left if there is one."""
        supervisor, book, healer = self._supervisor, self._supervisor.book, self._healer
        await healer.end(dead)
        book.pop(dead, None)
        node = for_sequencer(await self.answering(), [book[name].host for name in book.of("Sequencer")])
        taken = [int(name[len(SEQUENCER) :] or 1) for name in [dead, *book.of("Sequencer")]]
        number = healer.numbers[SEQUENCER] = max([healer.numbers.get(SEQUENCER, 2), *taken]) + 1
        name = f"{SEQUENCER}{number}"
        supervisor.new(Sequencer, name, node)
        try:
            await supervisor.verify(name, VERIFY_S)
            await supervisor.start_sequencer(name, False)
            # From when it is dialled it may lead, and the next Supervisor must know it: whom it does not know it ends.
            if not await supervisor.tell_members():
                raise LocalError(f"a majority of the brokers is to know of {name} before anybody dials it")
        except BaseException:
            book.pop(name).handle.kill()
            raise
        self._healer.mind(name)
        await self.acquaint()
        await self._tell([n for n in book if not is_sequencer(n)], "part", [dead])
        await supervisor.tell_members()

    async def acquaint(self) -> None:
        """Have everybody dial the sequencers there are; whoever does already goes on."""
        book = self._supervisor.book
        await self._tell([n for n in book if not is_sequencer(n)], "meet", book.sequencers())

    async def ownership(self, name: str) -> None:
        """Where it was, or, if that node does not answer or the other one is there too, on another host than that."""
        supervisor, book = self._supervisor, self._supervisor.book
        await self._healer.end(name)
        others = [book[other].host for other in book.of("Ownership") if other != name]
        supervisor.new(Ownership, name, for_ownership(await self.answering(), book[name].node, others))
        await supervisor.verify(name, VERIFY_S)
        await supervisor.start_ownership(name)
        self._healer.mind(name)
        await self._tell(book.replicas(), "meet", {name: book[name].peers})
        await supervisor.tell_members()

    async def events(self) -> None:
        """On the node where it was, if that answers: its parts may be there."""
        supervisor, book = self._supervisor, self._supervisor.book
        await self._healer.end(EVENTS)
        node = await self._node_for(book[EVENTS].node)
        tap_life.launch(supervisor, node)
        await supervisor.verify(EVENTS, VERIFY_S)
        await tap_life.start(supervisor)
        self._healer.mind(EVENTS)
        await self._tell([*book.of("BrokerNode"), *book.replicas()], "meet", {EVENTS: book[EVENTS].peers})
        await supervisor.tell_members()

    async def replica(self, name: str) -> None:
        supervisor, book = self._supervisor, self._supervisor.book
        broker = broker_of(name)
        await self._healer.end(name)
        book.pop(name, None)
        await self._tell([n for n in book.replicas() if broker_of(n) != broker], "part", [name])
        if (
            broker in book
            and broker not in self._healer.turns
            and len(book.replicas(broker)) < supervisor.plan.spares + 1
        ):
            await supervisor.add_replica(broker)
        await supervisor.tell_members()

    async def broker(self, broker: str) -> None:
        """The broker and its replicas begin again, blank."""
        supervisor, book = self._supervisor, self._supervisor.book
        old = book[broker]
        replicas = book.replicas(broker)
        book.change(broker, serving=False)
        await supervisor.tell_members()
        await asyncio.gather(*(self._healer.end(name) for name in [broker, *replicas]))
        book.change(broker, pid=0)
        for name in replicas:
            book.pop(name, None)
            self._healer.turns.drop(name)
        await self._tell(book.replicas(), "part", replicas)
        node = await self._node_for(old.node)
        stays = node.host == old.host
        port = int(old.clients.rsplit(":", 1)[1]) if old.clients and stays else supervisor.plan.port(broker)
        # Whoever chooses a place meanwhile counts it where it is about to be.
        book.change(broker, node=node.id, host=node.host, clients=old.clients if stays else "")
        names = await self.launch(broker, node, max(supervisor.plan.spares, len(replicas)))
        try:
            await self.introduce(broker, names, port)
        except BaseException:
            for name in names:
                book.pop(name).handle.kill()
            raise

    async def launch(self, broker: str, node: Node, replicas: int, gently: bool = False) -> list[str]:
        """The processes of a broker that is to come in blank; returns the names of its replicas.

        Args:
            replicas: how many there are to be.
            gently: one after the other. Each takes a core while it starts, and those that serve need it as well.

        Raises:
            LocalError: one did not start. The replicas are gone then.
        """
        supervisor = self._supervisor
        await self._healer.confirmed()  # a second process of a broker that lives would put it out
        names = [f"{broker}.r{self._healer.number(broker)}" for _ in range(replicas)]
        try:
            for name in [broker, *names]:
                supervisor.new(QueueReplica if name in names else BrokerNode, name, node)
                self._healer.launched(name)
                if gently:
                    await supervisor.verify(name, VERIFY_S)
            if not gently:
                await asyncio.gather(*(supervisor.verify(name, VERIFY_S) for name in [broker, *names]))
        except BaseException:
            for name in names:
                if name in supervisor.book:
                    supervisor.book.pop(name).handle.kill()
            raise
        return names

    async def introduce(self, broker: str, names: list[str], port: int) -> None:
        """Let a broker and its replicas begin, blank: they dial the others.

        The broker goes last: with the wiring it learns of all queues at once, and the first replica would get them all.
        """
        supervisor, handle = self._supervisor, self._supervisor.book[broker].handle
        await self._healer.confirmed()
        self._healer.began(broker)
        await supervisor.start_broker(broker, port, blank=True, peers={})
        for name in names:
            await supervisor.start_replica(name)
        await handle.call("until_linked", names, ASK_S)
        await supervisor.order(broker, "meet", supervisor.book.peers_of_broker())
        for name in [broker, *names]:
            self._healer.mind(name)
        self._healer.serve_when_joined(broker)

    async def forget(self, broker: str) -> None:
        """End a broker and its replicas for good."""
        book = self._supervisor.book
        names = book.group(broker)
        replicas = book.replicas(broker)
        await asyncio.gather(*(self._healer.end(name, outside=True) for name in names))
        for name in names:
            book.pop(name, None)
            self._healer.turns.drop(name)
        await self._tell(book.replicas(), "part", replicas)

    async def _tell(self, names: list[str], method: str, argument: Any) -> None:
        book = self._supervisor.book
        order = self._supervisor.order
        calls = (order(name, method, argument, timeout_s=ASK_S) for name in names if book[name].pid)
        await asyncio.gather(*calls, return_exceptions=True)

    async def answering(self) -> list[Node]:
        """The nodes that may carry brokers and answer."""
        return await self._supervisor.reach.among(broker_nodes(await asyncio.to_thread(alive_nodes)))

    async def _node_for(self, before: str) -> Node:
        """The node it was on, if that answers; else the one with the fewest brokers."""
        return for_broker(await self.answering(), before, self._places())

    def emptiest(self, nodes: list[Node]) -> Node:
        """The node for one more broker (`placing.emptiest`)."""
        return emptiest(nodes, self._places())

    def _places(self) -> list[tuple[str, str]]:
        return [(e.node, e.host) for e in self._supervisor.book.values() if e.role == "BrokerNode"]
