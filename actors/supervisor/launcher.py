"""Starts and ends the processes of a cluster: the part under `healer.py` (who comes back), `joiner.py` (who joins and
leaves) and `cluster_start.py` (the first of all).

    new -> Ray starts the process -> verify -> start: it listens and dials, as its kind does -> it is minded

A process is in the address book from `new` on, and has an incarnation from its start on. Before a broker is launched in
the place of another, the brokers confirm the supervisor: a second process of a broker that lives would put it out.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from ...protocol.machine import EVENTS, MANAGEMENT, SEQUENCER, store_of
from ...protocol.supervisor.layout import Node
from ...protocol.supervisor.store_words import StoreWord
from ...protocol.supervisor.turns import Turns
from ..config import (
    BrokerConfig,
    Config,
    ManagementNodeConfig,
    MemberConfig,
    OwnershipConfig,
    ReplicaConfig,
    SequencerConfig,
    StoreNodeConfig,
    TapConfig,
)
from ..links.handshake import Credentials
from ..members.broker_node import BrokerNode
from ..members.ownership import Ownership
from ..members.queue_replica import QueueReplica
from ..members.store_node import StoreNode, StoreRefused
from ..ray_control.placement import Placement
from ..ray_control.ray_handles import Teller
from .address_book import BookEntry, broker_of, fresh
from .lookout import Lookout
from .orders import Orders
from .plan import number_of
from .record import ClusterRecord

log = logging.getLogger(__name__)

ASK_S = 2.0
VERIFY_S = 30.0
RECOVER_S = 600.0
"""A store reads its logs from end to end before it says anything."""
SPARE_S = 30.0
"""Nothing is replaced while a warm queue replica starts, so it is not waited for longer when its host falls silent."""
BROKER = "broker"


class Overseer(Protocol):
    """What a launcher asks of the part that judges who lives (`supervision_shell.py`)."""

    async def confirmed(self) -> None:
        """Wait until a majority of the brokers has just said that this is the supervisor."""

    def launched(self, name: str) -> None:
        """Another process of this name waits to begin."""

    def began(self, name: str) -> None:
        """This broker is about to begin."""

    def mind(self, name: str) -> None:
        """Hear of the death of this actor."""

    async def end(self, name: str, outside: bool = False) -> None:
        """Make sure that the process is gone, if the cluster holds it for gone as well."""


class Launcher:
    """Attributes:
    starting: held while processes are started in the place of others, or for a newcomer.
    """

    def __init__(
        self, record: ClusterRecord, placement: Placement, orders: Orders, overseer: Overseer, turns: Turns
    ) -> None:
        self.starting = asyncio.Lock()
        self._linking = asyncio.Lock()
        self._record = record
        self._placement = placement
        self._orders = orders
        self._overseer = overseer
        self._turns = turns

    # ---- names and numbers, which are never used twice

    def number(self, kind: str) -> int:
        """A number no actor of this kind (a broker's replicas, the sequencers) has had."""
        record = self._record
        taken = [int(name.rsplit("r", 1)[-1] or 1) for name in record.book.replicas(kind)]
        used = max([record.numbers.get(kind, -1), *taken])
        record.numbers[kind] = used + 1
        return used + 1

    def new_broker(self) -> str:
        """A broker's name that was never used."""
        record = self._record
        numbers = [number_of(name) for name in (*record.plan.members, *record.book.of("BrokerNode"))]
        used = record.numbers[BROKER] = max([record.numbers.get(BROKER, 0), *numbers]) + 1
        return f"b{used}"

    def new_sequencer(self, dead: str) -> str:
        """The name of the sequencer that comes in the place of another."""
        record = self._record
        taken = [int(name[len(SEQUENCER) :] or 1) for name in [dead, *record.book.of("Sequencer")]]
        number = record.numbers[SEQUENCER] = max([record.numbers.get(SEQUENCER, 2), *taken]) + 1
        return f"{SEQUENCER}{number}"

    # ---- a process

    def new(self, cls: type, name: str, node: Node) -> None:
        """Begin a process; `verify` waits for it."""
        handle = self._placement.actor(cls, name, node.id, True)
        self._record.book[name] = BookEntry(handle, cls.__name__, node.id, node.host)

    def new_tap(self, node: Node) -> None:
        """Begin the tap's process, if the cluster keeps events."""
        if self._record.config.events.directory:
            from ..members.event_tap import EventTap

            self.new(EventTap, EVENTS, node)

    def new_store(self, broker: str, node: Node) -> None:
        """Begin the process of a broker's store, if the cluster has stores."""
        if self._record.config.store.data:
            self.new(StoreNode, store_of(broker), node)

    async def verify(self, name: str, timeout_s: float) -> None:
        record = self._record
        entry = record.book[name]
        place = await self._placement.verify(entry.handle, entry.node, timeout_s)
        record.book.change(name, pid=place["pid"], loop=place["loop"])
        if record.stage != "running":
            up = sum(entry.pid > 0 for entry in record.book.values())
            record.stage = f"{up} of {len(record.book)} processes are up"

    def drop(self, name: str) -> None:
        """End a process that did not start as it should, at once, and forget it."""
        self._record.book.pop(name).handle.kill()

    async def end(self, name: str, outside: bool = False) -> None:
        """Make sure that the process is gone, if the cluster holds it for gone as well.

        Args:
            outside: it is no member by the cluster's own word: it has left, or it never began.

        Raises:
            LocalError: it is not ended, and why.
        """
        await self._overseer.end(name, outside)

    # ---- letting one of each kind begin

    def _member(self, name: str, inc: int, peers: dict[str, str] | None = None) -> MemberConfig:
        """Of any kind. `inc`: its incarnation, 0 where nobody asks for it."""
        record, chosen = self._record, self._record.config
        return MemberConfig(
            credentials=Credentials(record.cluster, record.secret, name, inc),
            bind=chosen.bind or record.book[name].host, peers=peers or {}, limits=chosen.limits, timing=chosen.timing,
            logs=replace(self._placement.logs, host=record.book[name].host),
        )  # fmt: skip

    async def look(self, broker: str, cluster: str = "") -> StoreWord:
        """What a broker's store says of itself, before it is started. `cluster`: its id; "": any."""
        config = self._store_node(broker, False)
        credentials = dataclasses.replace(config.member.credentials, cluster=cluster)
        config = replace(config, member=replace(config.member, credentials=credentials))
        handle = self._record.book[store_of(broker)].handle
        return msgspec.convert(await handle.call("look", config, timeout_s=RECOVER_S), StoreWord)

    async def start_store(self, broker: str, birth: bool = False) -> None:
        """Let a broker's store begin: from then on the book has the life of it.

        Args:
            birth: the cluster begins with it. Else a store without a log is blank.
        """
        name = store_of(broker)
        config = self._store_node(broker, birth)
        record = self._record
        try:
            begun = await self._orders.give(name, "start", config, timeout_s=RECOVER_S)
        except StoreRefused as error:
            record.store_failures.note(broker, record.book[name].handle.id, _now_ms(), str(error))
            raise
        record.book.change(name, inc=int(begun["life"]), peers=begun["peers"])

    def _store_node(self, broker: str, birth: bool) -> StoreNodeConfig:
        name, record = store_of(broker), self._record
        return StoreNodeConfig(
            member=self._member(name, fresh()), broker=broker, store=record.config.store,
            node=record.book[name].host, birth=birth,
        )  # fmt: skip

    async def _start(self, name: str, inc: int, config: Config, *further: Any) -> None:
        """Let a process begin."""
        record = self._record
        record.book.change(name, inc=inc)
        addresses = await self._orders.give(name, "start", config, *further)
        record.book.change(name, peers=addresses.get("peers", ""), clients=addresses.get("clients", ""))

    async def start_sequencer(self, name: str, leading: bool) -> None:
        inc, voters = fresh(), self._record.plan.members
        await self._start(name, inc, SequencerConfig(member=self._member(name, inc), voters=voters, leading=leading))

    async def start_ownership(self, name: str) -> None:
        record, inc = self._record, fresh()
        member = self._member(name, inc, record.book.sequencers())
        await self._start(name, inc, OwnershipConfig(member=member, slice_ms=record.config.slice_ms))

    async def start_tap(self) -> None:
        """Let it listen, if there is one: it goes on where the parts end."""
        record = self._record
        if EVENTS in record.book:
            from ...store.events.event_folders import folder_of

            events = record.config.events
            folder = folder_of(events.directory, record.began, record.cluster)
            await self._start(EVENTS, fresh(), TapConfig(member=self._member(EVENTS, 0), events=events, folder=folder))

    async def start_broker(self, broker: str, port: int, blank: bool, peers: dict[str, str]) -> None:
        """With a store its incarnation is the life of that, and it dials it, too."""
        voters, chosen, book = self._record.plan.members, self._record.config, self._record.book
        store = store_of(broker)
        inc = book[store].inc if store in book else fresh()
        config = BrokerConfig(
            member=self._member(broker, inc, peers | book.store(broker)), client_port=port, voters=voters, blank=blank,
            token=chosen.token, events=bool(chosen.events.directory), replicas_max=chosen.queue_actors_max,
            store=chosen.store.folder(broker),
        )  # fmt: skip
        await self._start(broker, inc, config, Teller(self._placement, "want_spare"))

    async def start_replica(self, name: str) -> None:
        async with self._linking:  # each dials those that listen already, so every two are linked once
            record, book = self._record, self._record.book
            # Clocks may be set back, and requests below its broker's incarnation would be an older one's.
            inc = max([fresh(), *(book[other].inc + 1 for other in book.group(broker_of(name)))])
            member = self._member(name, inc, record.book.peers_of_replica(name))
            broker, chosen = broker_of(name), record.config
            config = ReplicaConfig(
                member=member, broker=broker, events=bool(chosen.events.directory), store=chosen.store.folder(broker)
            )
            await self._start(name, inc, config)

    # ---- what begins and ends together

    async def add_replica(self, broker: str) -> bool:
        """Start a queue replica for `broker`, under a name that was never used before."""
        name = f"{broker}.r{self.number(broker)}"
        entry = self._record.book[broker]
        try:
            await self._overseer.confirmed()
            self.new(QueueReplica, name, Node(entry.node, entry.host, {}))
            await self.verify(name, SPARE_S)
            await self.start_replica(name)
        except Exception:
            log.exception("no queue replica %(member)s for broker %(broker)s", {"member": name, "broker": broker})
            if name in self._record.book:
                self.drop(name)
            return False
        self._overseer.mind(name)
        return True

    async def launch_ownership(self, name: str, node: Node) -> None:
        """The process of an Ownership, which begins."""
        self.new(Ownership, name, node)
        await self.verify(name, VERIFY_S)
        await self.start_ownership(name)
        self._overseer.mind(name)

    async def launch_tap(self, node: Node) -> None:
        """The tap's process, which begins."""
        self.new_tap(node)
        await self.verify(EVENTS, VERIFY_S)
        await self.start_tap()
        self._overseer.mind(EVENTS)

    async def launch_management(self, node: Node) -> None:
        """The page's process, which begins. One that cannot is no process of the cluster."""
        from ..members.management_node import ManagementNode

        record, chosen = self._record, self._record.config
        page = chosen.management
        last = record.book.get(MANAGEMENT)
        was_at = record.page_address = (last.peers if last is not None else "") or record.page_address
        if was_at and (page.elsewhere or not page.port):
            page = replace(page, port=int(was_at.rpartition(":")[2]), elsewhere=True)  # people have its address
        self.new(ManagementNode, MANAGEMENT, node)
        try:
            await self.verify(MANAGEMENT, VERIFY_S)
            config = ManagementNodeConfig(
                member=self._member(MANAGEMENT, 0), management=page, token=chosen.token,
                brokers=tuple(record.book.serving().values()),
            )  # fmt: skip
            await self._start(MANAGEMENT, fresh(), config, Lookout(self._placement))
        except BaseException:
            self.drop(MANAGEMENT)
            raise
        self._overseer.mind(MANAGEMENT)

    async def launch_broker(self, broker: str, node: Node, replicas: int, gently: bool = False) -> list[str]:
        """The processes of a broker that is started again or joins; returns the names of its replicas.

        Args:
            replicas: how many there are to be.
            gently: one after the other. Each takes a core while it starts, and those that serve need it as well.

        Raises:
            LocalError: one did not start. The replicas and the store are gone then.
        """
        await self._overseer.confirmed()  # a second process of a broker that lives would put it out
        names = [f"{broker}.r{self.number(broker)}" for _ in range(replicas)]
        try:
            self.new_store(broker, node)
            for name in [broker, *names]:
                self.new(QueueReplica if name in names else BrokerNode, name, node)
                self._overseer.launched(name)
                if gently:
                    await self.verify(name, VERIFY_S)
            rest = self._stored(broker, [] if gently else [broker, *names])
            await asyncio.gather(*(self.verify(name, VERIFY_S) for name in rest))
        except BaseException:
            for name in self._stored(broker, names):
                if name in self._record.book:
                    self.drop(name)
            raise
        return names

    def _stored(self, broker: str, names: list[str]) -> list[str]:
        """These, and the broker's store if it has one."""
        store = store_of(broker)
        return [store, *names] if store in self._record.book else names

    async def introduce(self, broker: str, names: list[str], port: int) -> None:
        """Let a broker and its replicas begin: they dial the others. They are blank, but for what their store has.

        The broker goes last: with the wiring it learns of all queues at once, and the first replica would get them all.
        """
        handle = self._record.book[broker].handle
        await self._overseer.confirmed()
        if store_of(broker) in self._record.book:
            await self.start_store(broker)
        self._overseer.began(broker)
        await self.start_broker(broker, port, blank=True, peers={})
        for name in names:
            await self.start_replica(name)
        await handle.call("until_linked", names, ASK_S)
        await self._orders.give(broker, "meet", self._record.book.peers_of_broker(broker))
        for name in self._stored(broker, [broker, *names]):
            self._overseer.mind(name)

    async def forget(self, broker: str) -> None:
        """End a broker and its replicas for good."""
        book = self._record.book
        names = book.group(broker)
        replicas = book.replicas(broker)
        await asyncio.gather(*(self.end(name, outside=True) for name in names))
        for name in names:
            book.pop(name, None)
            self._turns.drop(name)
        self._record.store_failures.forget(broker)
        await self._orders.give_all(book.replicas(), "part", replicas)


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
