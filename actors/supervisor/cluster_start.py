"""Starts a cluster's first processes on their nodes, and introduces them to each other.

(with stores: find them, and what they are) -> choose nodes -> start every process at once -> (stores are opened)
    -> Sequencers listen -> Ownership and brokers listen and dial them -> warm queue replicas dial all of these
    -> all links up -> (brokers that were there before have learned what was complete, and let clients in)

A cluster that was there before has no sequencer that leads from its birth: which log counts, a majority says.
"""

from __future__ import annotations

import asyncio
import logging
import time

from ...protocol.errors import LocalError
from ...protocol.machine import OWNERSHIP, OWNERSHIP2, SEQUENCER
from ...protocol.status.machines import BrokerStatus
from ...protocol.status.members import read_member
from ...protocol.supervisor.layout import Layout, Node, layout
from ...protocol.supervisor.stores import ResumeCluster
from ...protocol.supervisor.supervision import Supervision
from ..members.broker_node import BrokerNode
from ..members.ownership import Ownership
from ..members.queue_replica import QueueReplica
from ..members.sequencer import Sequencer
from ..ray_control.placement import Placement, alive_nodes, broker_nodes, current_place
from ..ray_control.ray_handles import Handle
from .address_book import BookEntry, broker_of
from .launcher import Launcher
from .record import ClusterRecord
from .store_start import StoreStart
from .store_survey import StoreSurvey

log = logging.getLogger(__name__)

START_S = 90.0
BACK_S = 90.0
"""Logs are compared, entries fetched, queues taken: of many queues that is many rounds."""
ASK_S = 2.0
NAMES_S = 10.0
"""Killed actors keep their names for a moment."""
STANDBY = SEQUENCER + "2"


class ClusterStart:
    """
    Args:
        supervision: of the supervisor that starts the cluster; its number is above those of all before.
        survey: looks for stores.
    """

    def __init__(
        self, record: ClusterRecord, placement: Placement, launcher: Launcher, supervision: Supervision,
        survey: StoreSurvey,
    ) -> None:  # fmt: skip
        self._record = record
        self._placement = placement
        self._launcher = launcher
        self._supervision = supervision
        self._survey = survey
        self._back: ResumeCluster | None = None  # what was there before
        self._stores: dict[str, Node] = {}  # broker -> the node of its store

    async def run(self) -> None:
        """Start everything; returns when all links are up, and brokers that were there before let clients in.

        Raises:
            LocalError: something is missing at the time limit, or stores cannot be used, and what.
        """
        record, launcher = self._record, self._launcher
        swept = self._placement.sweep()
        if swept:
            log.warning("killed what an earlier cluster left behind: %s", ", ".join(swept))
            await self._names_free(NAMES_S)
        if record.config.store.data:
            await self._find_stores()
        deadline = time.monotonic() + START_S

        def left() -> float:
            return max(0.1, deadline - time.monotonic())

        plan, book = record.plan, record.book
        self._launch()
        record.stage = "waiting for processes"
        there = [name for name, entry in book.items() if entry.node]
        await asyncio.gather(*(launcher.verify(name, left()) for name in there))
        members = [name for name in there if book[name].role == "BrokerNode"]

        record.stage = "opening stores" if self._stores else "listening"
        await asyncio.gather(*(launcher.start_store(broker, birth=self._back is None) for broker in self._stores))
        record.stage = "listening"
        await launcher.start_sequencer(SEQUENCER, self._back is None)  # else who leads is for the stores to say
        await launcher.start_sequencer(STANDBY, False)
        await launcher.start_tap()
        brokers = (
            launcher.start_broker(broker, plan.port(broker), self._back is not None, book.peers_of_broker(broker))
            for broker in members
        )
        await asyncio.gather(launcher.start_ownership(OWNERSHIP), launcher.start_ownership(OWNERSHIP2), *brokers)
        for name in book.replicas():
            await launcher.start_replica(name)

        record.stage = "linking"
        missing = await asyncio.gather(*(self._missing(name, left()) for name in there))
        lines = [line for lines in missing for line in lines]
        if lines:
            raise LocalError(
                f"these links did not come up within {START_S:g} s: {'; '.join(lines)}; see the actors' logs"
            )
        if self._back is not None:
            await self._until_serving([broker for broker in members if broker not in self._back.blank])
            return
        for broker in members:
            book.change(broker, serving=True)

    # ---- stores

    async def _find_stores(self) -> None:
        """What was there before, if anything was: members, cluster and number go on from there."""
        record, supervision = self._record, self._supervision
        record.stage = f"looking for stores in {record.config.store.data}"
        start = StoreStart(record, self._launcher, self._survey)
        self._back = await start.run(self._layout())
        self._stores = start.nodes
        if self._back is not None:
            number = max(supervision.commission.number, self._back.supervisor + 1)
            supervision.commission = supervision.commission._replace(number=number)

    async def _until_serving(self, brokers: list[str]) -> None:
        """Wait until those that came with their log let clients in. Who leads, and what was complete, is found out by
        then.

        Raises:
            LocalError: none does at the time limit.
        """
        book, record = self._record.book, self._record
        until = time.monotonic() + BACK_S
        while waiting := [broker for broker in brokers if not book[broker].serving]:
            record.stage = f"{', '.join(waiting)}: learning what was complete"
            for broker in waiting:
                machine = await self._asked(broker)
                if machine is not None and not machine.blank and machine.returning is not True:
                    book.change(broker, serving=True)
            if time.monotonic() > until:
                if book.serving():
                    return  # the others are told of when they do
                raise LocalError(
                    f"no broker lets clients in within {BACK_S:g} s, though {', '.join(brokers)} have their logs: see "
                    "the actors' logs; nothing was changed but by what they have agreed on"
                )
            await asyncio.sleep(0.1)

    async def _asked(self, broker: str) -> BrokerStatus | None:
        try:
            said = read_member(await self._record.book[broker].handle.call("status", timeout_s=ASK_S))
        except LocalError:
            return None
        return said.machine if isinstance(said.machine, BrokerStatus) else None

    # ---- processes

    def _layout(self) -> Layout:
        nodes, here = alive_nodes(), current_place()["node"]
        host = next((node.host for node in nodes if node.id == here), "")
        return layout(self._record.plan.members, broker_nodes(nodes), host)

    def _launch(self) -> None:
        """Begin every process at once: starting them is what takes the time."""
        record, launcher, where = self._record, self._launcher, self._layout()
        plan = record.plan
        nodes = self._stores or where.brokers
        launcher.new(Sequencer, SEQUENCER, where.sequencer)
        launcher.new(Sequencer, STANDBY, where.standby)
        launcher.new(Ownership, OWNERSHIP, where.ownership)
        launcher.new(Ownership, OWNERSHIP2, where.ownership2)
        launcher.new_tap(next(iter(nodes.values())))
        for broker in plan.members:
            if broker in nodes:
                launcher.new(BrokerNode, broker, nodes[broker])
            else:  # it is missing: like one that has died, it is waited for and replaced
                record.book[broker] = BookEntry(Handle(broker, None), BrokerNode.__name__, "", "")
        for broker, node in nodes.items():
            for number in range(plan.config.spares):
                launcher.new(QueueReplica, f"{broker}.r{number}", node)

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
            return [*sequencers, *book.of("Ownership"), broker_of(name), *book.store(broker_of(name)), *fellows]
        if role == "BrokerNode":
            return [*sequencers, *book.store(name), *book.replicas(name)]
        return sequencers if role == "Ownership" else []

    async def _names_free(self, timeout_s: float) -> None:
        until = time.monotonic() + min(timeout_s, NAMES_S)
        while self._placement.sweep() and time.monotonic() < until:
            await asyncio.sleep(0.05)
