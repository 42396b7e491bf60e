"""Starts a cluster's first processes on their nodes, and introduces them to each other.

(with stores: find them, and what they are) -> choose nodes -> start every process at once -> (stores are opened: of a
    cluster that was there before each when its process is up) -> Sequencers listen -> Ownership and brokers listen and
    dial them -> warm queue replicas dial all of these -> all links up -> (brokers that were there before have learned
    what was complete, and let clients in)

A cluster that was there before has no sequencer that leads from its birth: which log counts, a majority says. It goes
on without a broker whose store is refused now, or that is sent away, if the others are enough: a directory that was put
back from an old copy is found only when logs are compared. That broker is replaced like any that has died.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable

from ...protocol.errors import LocalError
from ...protocol.machine import OWNERSHIP, OWNERSHIP2, SEQUENCER, store_of
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
from ..ray_control.ray_handles import ActorDied, ActorGone, Handle
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
LINK_S = 2.0
"""It is looked so often who has ended, while links are waited for."""
LINK_LOOK_S = 0.1
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
        self._gone: set[str] = set()  # brokers of these that are done without

    async def run(self) -> None:
        """Start everything; returns when all links are up, and brokers that were there before let clients in.

        Raises:
            LocalError: something is missing at the time limit, or stores cannot be used, and what.
        """
        record, launcher = self._record, self._launcher
        swept = self._placement.sweep()
        if swept:
            log.warning("killed what an earlier cluster left behind: %(members)s", {"members": ", ".join(swept)})
            await self._names_free(NAMES_S)
        if record.config.store.data:
            await self._find_stores()
        plan, book = record.plan, record.book
        self._launch()
        record.stage = "waiting for processes"
        await self._processes()
        until = time.monotonic() + START_S  # reading logs takes as long as it takes
        record.stage = "listening"
        await launcher.start_sequencer(SEQUENCER, self._back is None)  # else who leads is for the stores to say
        await launcher.start_sequencer(STANDBY, False)
        await launcher.start_tap()
        members = [name for name in book.of(BrokerNode.__name__) if book[name].node]
        brokers = (
            self._within(
                launcher.start_broker(name, plan.port(name), self._back is not None, book.peers_of_broker(name)), name
            )
            for name in members
        )
        await asyncio.gather(launcher.start_ownership(OWNERSHIP), launcher.start_ownership(OWNERSHIP2), *brokers)
        for name in book.replicas():
            if broker_of(name) not in self._gone:
                await self._within(launcher.start_replica(name), broker_of(name))

        record.stage = "linking"
        await self._link(until)
        if self._back is not None:
            await self._until_serving([broker for broker in members if broker not in self._back.blank])
            return
        for broker in members:
            book.change(broker, serving=True)

    async def _processes(self) -> None:
        """Wait for all processes, and let the stores begin.

        Those of a cluster that was there before are opened as soon as their processes are up: they read while the other
        processes start. Those of a new one wait: a cluster that cannot be started would leave directories of members.

        Raises:
            LocalError: a process did not come up in time; or a store cannot be used, and the others are not enough.
        """
        launcher, record, birth = self._launcher, self._record, self._back is None
        there = [name for name, entry in record.book.items() if entry.node]
        up = {name: asyncio.ensure_future(launcher.verify(name, START_S)) for name in there}
        every = asyncio.gather(*up.values())

        async def begin(broker: str) -> None:
            await (every if birth else up[store_of(broker)])
            await launcher.start_store(broker, birth)

        begun = asyncio.gather(*(begin(broker) for broker in self._stores), return_exceptions=True)
        await every
        record.stage = "opening stores" if self._stores else "listening"
        self._without_refused(await begun)

    # ---- who is done without

    def _without_refused(self, begun: list[BaseException | None]) -> None:
        """A store that is refused now, though it looked well, has no process, as one that is missing.

        Args:
            begun: for each of the stores the error with which its beginning has ended.

        Raises:
            LocalError: why one cannot be used, and the others are not enough.
        """
        launcher, book = self._launcher, self._record.book
        for (broker, node), error in zip(self._stores.items(), begun, strict=True):
            if error is not None:
                self._do_without(broker, error)
                for name in book.group(broker):
                    launcher.drop(name)
                book[broker] = BookEntry(Handle(broker, None), BrokerNode.__name__, "", node.host)

    def _do_without(self, broker: str, error: BaseException) -> None:
        """Go on without this broker, if that can be done; else raise the error."""
        if broker in self._gone:
            return
        if (
            self._back is None
            or not isinstance(error, LocalError)
            or not self._back.enough_without([*self._gone, broker])
        ):
            raise error
        self._gone.add(broker)
        self._record.notes.append(f"the cluster has started without {broker}, which is started again: {error}")
        log.warning(
            "the cluster has started without %(broker)s, which is started again: %(reason)s",
            {"broker": broker, "reason": error},
        )

    async def _within(self, begins: Awaitable[None], broker: str) -> None:
        """Let a process of a broker begin; of one that has ended again the broker is done without."""
        try:
            await begins
        except ActorDied as error:
            self._do_without(broker, _has_ended(broker, error))

    async def _link(self, until: float) -> None:
        """Wait until all links are up, but for those of brokers that are sent away meanwhile.

        Raises:
            LocalError: some are not up in time.
        """
        book = self._record.book
        while True:
            names = [name for name, entry in book.items() if entry.node and broker_of(name) not in self._gone]
            wait_s = max(0.1, min(LINK_S, until - time.monotonic()))
            missing = await asyncio.gather(*(self._missing(name, wait_s) for name in names))
            lines = [line for lines in missing for line in lines]
            if not lines:
                return
            if time.monotonic() > until:
                raise LocalError(
                    f"these links did not come up within {START_S:g} s: {'; '.join(lines)}; see the actors' logs"
                )
            await asyncio.sleep(LINK_LOOK_S)  # one that cannot be asked says so at once

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
        while waiting := [broker for broker in brokers if not book[broker].serving and broker not in self._gone]:
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
        except ActorDied as error:
            self._do_without(broker, _has_ended(broker, error))
            return None
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
        wanted, handle = self._links_of(name), self._record.book[name].handle
        if not wanted:
            return []
        try:
            missing = await handle.call("until_linked", wanted, timeout_s, timeout_s=timeout_s + 5)
        except ActorDied as error:
            if broker_of(name) not in self._stores:
                raise
            self._do_without(broker_of(name), _has_ended(broker_of(name), error))
            return [f"{name}, which has ended"]  # whose links are wanted is seen anew
        except ActorGone as error:
            return [str(error)]
        return [f"{name} to {other}" for other in missing]

    def _links_of(self, name: str) -> list[str]:
        """Links counted at one end: the one that is needed first."""
        book = self._record.book
        sequencers = list(book.sequencers())
        role = book[name].role
        if role == "QueueReplica":
            fellows = [o for o in book.replicas() if broker_of(o) not in (broker_of(name), *self._gone)]
            return [*sequencers, *book.of("Ownership"), broker_of(name), *book.store(broker_of(name)), *fellows]
        if role == "BrokerNode":
            return [*sequencers, *book.store(name), *book.replicas(name)]
        return sequencers if role == "Ownership" else []

    async def _names_free(self, timeout_s: float) -> None:
        until = time.monotonic() + min(timeout_s, NAMES_S)
        while self._placement.sweep() and time.monotonic() < until:
            await asyncio.sleep(0.05)


def _has_ended(broker: str, error: ActorDied) -> LocalError:
    """A process has ended before it was of use: Ray knows how, and nobody but its log knows why."""
    how = " ".join(str(error).split())
    return LocalError(
        f"its process has ended ({how}), perhaps because its log is older than what others know of it, as that of a "
        f"directory put back from a copy: see the log of {broker}"
    )
