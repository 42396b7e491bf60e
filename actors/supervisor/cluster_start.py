"""Starts a cluster's first processes on their nodes, and introduces them to each other.

choose nodes -> start every process at once -> Sequencers listen -> Ownership and brokers listen and dial them
             -> warm queue replicas dial all of these -> all links up
"""

from __future__ import annotations

import asyncio
import logging
import time

from ...protocol.errors import LocalError
from ...protocol.machine import OWNERSHIP, OWNERSHIP2, SEQUENCER
from ...protocol.supervisor.layout import layout
from ..members.broker_node import BrokerNode
from ..members.ownership import Ownership
from ..members.queue_replica import QueueReplica
from ..members.sequencer import Sequencer
from ..ray_control.placement import Placement, alive_nodes, broker_nodes, current_place
from .address_book import broker_of
from .launcher import Launcher
from .record import ClusterRecord

log = logging.getLogger(__name__)

START_S = 90.0
NAMES_S = 10.0
"""Killed actors keep their names for a moment."""
STANDBY = SEQUENCER + "2"


class ClusterStart:
    def __init__(self, record: ClusterRecord, placement: Placement, launcher: Launcher) -> None:
        self._record = record
        self._placement = placement
        self._launcher = launcher

    async def run(self) -> None:
        """Start everything; returns when all links are up.

        Raises:
            LocalError: something is missing at the time limit, and what.
        """
        deadline = time.monotonic() + START_S

        def left() -> float:
            return max(0.1, deadline - time.monotonic())

        record, launcher = self._record, self._launcher
        plan, book, members = record.plan, record.book, list(record.plan.members)
        swept = self._placement.sweep()
        if swept:
            log.warning("killed what an earlier cluster left behind: %s", ", ".join(swept))
            await self._names_free(left())
        self._launch()
        record.stage = "waiting for processes"
        await asyncio.gather(*(launcher.verify(name, left()) for name in book))

        record.stage = "listening"
        await launcher.start_sequencer(SEQUENCER, True)
        await launcher.start_sequencer(STANDBY, False)
        await launcher.start_tap()
        brokers = (
            launcher.start_broker(broker, plan.port(broker), False, book.peers_of_broker(broker)) for broker in members
        )
        await asyncio.gather(launcher.start_ownership(OWNERSHIP), launcher.start_ownership(OWNERSHIP2), *brokers)
        for broker in members:
            book.change(broker, serving=True)
        for name in book.replicas():
            await launcher.start_replica(name)

        record.stage = "linking"
        missing = await asyncio.gather(*(self._missing(name, left()) for name in book))
        lines = [line for lines in missing for line in lines]
        if lines:
            raise LocalError(
                f"these links did not come up within {START_S:g} s: {'; '.join(lines)}; see the actors' logs"
            )

    def _launch(self) -> None:
        """Begin every process at once: starting them is what takes the time."""
        plan, launcher, nodes = self._record.plan, self._launcher, alive_nodes()
        members, here = plan.members, current_place()["node"]
        where = layout(members, broker_nodes(nodes), next((node.host for node in nodes if node.id == here), ""))
        launcher.new(Sequencer, SEQUENCER, where.sequencer)
        launcher.new(Sequencer, STANDBY, where.standby)
        launcher.new(Ownership, OWNERSHIP, where.ownership)
        launcher.new(Ownership, OWNERSHIP2, where.ownership2)
        launcher.new_tap(where.brokers[members[0]])
        for broker in members:
            launcher.new(BrokerNode, broker, where.brokers[broker])
        for broker in members:
            for number in range(plan.config.spares):
                launcher.new(QueueReplica, f"{broker}.r{number}", where.brokers[broker])

    async def _missing(self, name: str, timeout_s: float) -> list[str]:
        """The links of `name` that are not up in time."""
        wanted = self._links_of(name)
        if not wanted:
            return []
        handle = self._record.book[name].handle
        missing = await handle.call("until_linked", wanted, timeout_s, timeout_s=timeout_s + 5)
        return [f"{name} to {other}" for other in missing]

    def _links_of(self, name: str) -> list[str]:
        """Links counted at one end: the one that is needed first."""
        book = self._record.book
        sequencers = list(book.sequencers())
        role = book[name].role
        if role == "QueueReplica":
            fellows = [other for other in book.replicas() if broker_of(other) != broker_of(name)]
            return [*sequencers, *book.of("Ownership"), broker_of(name), *fellows]
        if role == "BrokerNode":
            return [*sequencers, *book.replicas(name)]
        return sequencers if role == "Ownership" else []

    async def _names_free(self, timeout_s: float) -> None:
        until = time.monotonic() + min(timeout_s, NAMES_S)
        while self._placement.sweep() and time.monotonic() < until:
            await asyncio.sleep(0.05)
