"""Tells brokers where clients find the others, and what the next supervisor must know. A broker keeps that, and looks
whether it is needed (`supervisor_watch.py`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

from ...protocol.log.quorum import majority
from ...protocol.status.machines import BrokerStatus
from ...protocol.status.members import read_member
from ...protocol.supervisor.supervision import Supervision
from ...protocol.supervisor.turns import Turns
from ..ray_control.placement import Placement
from ..ray_control.ray_handles import ActorGone
from .orders import Orders
from .record import ClusterRecord
from .supervisor_state import SupervisorState
from .supervisor_watch import WatchConfig
from .tasks import Tasks

log = logging.getLogger(__name__)

TELL_S = 5.0
ASK_S = 2.0


class Announcer:
    """
    Args:
        turns: the actors that are being replaced: a broker among them is not waited for.
        successor: the class of the next supervisor, pickled: a broker unpacks it when it starts one.
    """

    def __init__(
        self,
        record: ClusterRecord,
        placement: Placement,
        supervision: Supervision,
        orders: Orders,
        turns: Turns,
        successor: bytes,
    ) -> None:
        self._record = record
        self._placement = placement
        self._supervision = supervision
        self._orders = orders
        self._turns = turns
        self._successor = successor
        self._tasks = Tasks()
        self._placed: dict[str, str] = {}  # broker -> its host, as stores were told

    def close(self) -> None:
        self._tasks.close()

    async def tell(self) -> bool:
        """Tell every broker where clients find the others, and what a new Supervisor would have to know; whether a
        majority of them knows it now."""
        record = self._record
        record.version += 1
        book = record.book
        addresses, state = book.serving(), self._state().packed()
        brokers = book.of("BrokerNode")
        calls: list[Coroutine[Any, Any, bool]] = []
        for rank, broker in enumerate(brokers):
            if broker in self._turns:
                continue  # a broker is told when it has come back; one that stands still is not waited for
            watch = WatchConfig(
                placement=self._placement, state=state, rank=rank, brokers=tuple(brokers), successor=self._successor
            )
            calls.append(self._tell_broker(broker, addresses, watch))
        told = sum(await asyncio.gather(*calls))
        self._tasks.spawn(self._tell_stores())
        return told >= majority([b for b in brokers if record.book[b].inc or b in self._turns])

    async def _tell_stores(self) -> None:
        """Stores keep where brokers are, for a start at which some are missing."""
        book = self._record.book
        stores, places = book.of("StoreNode"), {name: book[name].host for name in book.of("BrokerNode")}
        if stores and places != self._placed:
            self._placed = places
            await self._orders.give_all(stores, "places", places)

    async def _tell_broker(self, broker: str, addresses: dict[str, str], watch: WatchConfig) -> bool:
        """Whether it remembers."""
        said = await asyncio.gather(
            self._orders.give(broker, "members", addresses, timeout_s=TELL_S),
            self._orders.give(broker, "remember", watch, timeout_s=TELL_S),
            return_exceptions=True,
        )
        return not isinstance(said[1], BaseException)

    def _state(self) -> SupervisorState:
        record = self._record
        return SupervisorState(
            version=record.version,
            number=self._supervision.commission.number,
            cluster=record.cluster,
            secret=record.secret,
            plan=record.plan,
            began=record.began,
            book=record.book,
            numbers=record.numbers,
            change=record.changes.change,
            ended=record.changes.ended,
            down=record.store_failures.left_down(),
        )

    def serve_when_joined(self, broker: str) -> None:
        """Tell clients of a broker that has come (back) when it has the wiring."""
        self._tasks.spawn(self._serve_when_joined(broker))

    async def _serve_when_joined(self, broker: str) -> None:
        record = self._record
        entry = record.book[broker]
        while record.book.get(broker) is not None and record.book[broker].pid == entry.pid:
            try:
                machine = read_member(await entry.handle.call("status", timeout_s=ASK_S)).machine
                joined = isinstance(machine, BrokerStatus) and not machine.blank and machine.returning is not True
                if joined and not record.leaves(broker):
                    record.book.change(broker, serving=True)
                    log.info(
                        "broker %(broker)s takes clients at %(address)s",
                        {"broker": broker, "address": entry.clients, "broker_host": entry.host},
                    )
                    await self.tell()
                    return
            except ActorGone:
                pass
            await asyncio.sleep(0.1)
