"""The Supervisor: one actor per cluster, which puts the parts of this room together and answers for them.

It starts a cluster (`cluster_start.py`) or takes over from the last supervisor (`takeover.py`), and from then on has
three others work: `healer.py` replaces what dies, `joiner.py` lets brokers join and leave, `rebalancer.py` spreads them
over hosts. All know the cluster by one `ClusterRecord`, and start and end processes by one `Launcher`.

It makes the cluster's secret, and gives it to the actors in calls only: constructor arguments would be kept by Ray's
control store. When a broker has used up a warm queue replica it asks here for another. The data plane never comes here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import secrets
import time
from typing import Any

from msgspec.structs import replace

from ...protocol.errors import LocalError
from ...protocol.status.cluster import ClusterStatus
from ...protocol.supervisor.office import Commission
from ...protocol.supervisor.supervision import Supervision
from ...protocol.supervisor.turns import Turns
from ..config import ClusterBook
from ..members import ending
from ..members.member import LAST_S
from ..members.moves import moved
from ..members.shell import Retired
from ..process_logs import set_up
from ..ray_control import bound
from ..ray_control.placement import Placement, alive_nodes, current_place
from . import management_life, tap_life
from .address_book import AddressBook
from .announcer import Announcer
from .clean_stop import CleanStop
from .cluster_start import ClusterStart
from .frail_hosts import critical_hosts
from .healer import Healer
from .health import closed, complaints, lost, quorum_critical, sharing_host, store_warnings, stranger_warnings
from .joiner import Joiner
from .launcher import Launcher
from .nodes import Nodes
from .orders import Orders
from .plan import Plan
from .reach import Reach
from .reasons import FirstSeen, texts
from .rebalancer import Rebalancer
from .record import ClusterRecord
from .replacer import Replacer
from .reports import reports
from .store_homes import StoreHomes
from .store_survey import StoreSurvey
from .supervision_shell import SupervisionShell
from .takeover import Takeover

log = logging.getLogger(__name__)

STOP_S = 5.0
LEFT_S = 30.0
"""Whoever has stopped the cluster ends its supervisor, too, within this time; else it ends itself."""


class Supervisor:
    """One per cluster, an ordinary class that `cluster.py` makes an actor."""

    def __init__(self, name: str, placement: Placement, fenced: bool = False) -> None:
        self.name = name
        self._placement = placement
        self._fenced = fenced
        self._running = asyncio.Event()
        self._bound: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[list[str]] | None = None
        self._unclean: list[str] = []
        self._host = ""
        self._first_seen = FirstSeen()
        record = self._record = ClusterRecord()
        supervision = self._supervision = Supervision(Commission(0, secrets.token_hex(6), name))
        turns, reach = Turns(), Reach(placement.answering)
        orders = self._orders = Orders(record, supervision)
        nodes = Nodes(record, reach)
        shell = self._shell = SupervisionShell(record, supervision, placement, orders, turns, reach, self._resign)
        announcer = Announcer(record, placement, supervision, orders, turns, pickle.dumps(Supervisor))
        launcher = Launcher(record, placement, orders, shell, turns)
        survey = self._survey = StoreSurvey(record, placement)
        homes = StoreHomes(record, nodes, survey=survey)
        replacer = Replacer(record, orders, turns, nodes, launcher, announcer, shell.mind, homes)
        joiner = Joiner(record, orders, nodes, launcher, announcer, shell.dead)
        self._announcer, self._launcher, self._replacer, self._joiner = announcer, launcher, replacer, joiner
        self._healer = Healer(record, supervision, shell, turns, launcher, replacer, joiner, announcer, homes)
        self._rebalancer = Rebalancer(record, reach, joiner, announcer, self.report, shell.dead)
        if fenced:
            ending.fence(os.getppid(), name, placement.logs)

    def __repr__(self) -> str:
        return f"Supervisor({self._record.cluster}, {self._record.stage})"

    # ---- starting

    async def start_cluster(self, plan: Plan) -> None:
        """Start everything; returns when all links are up.

        Raises:
            LocalError: something is missing at the time limit, and what; what was started has been killed.
        """
        record, supervision = self._record, self._supervision
        if record.book:
            raise LocalError("this cluster has been started already")
        record.plan = plan
        supervision.timing = plan.config.timing
        supervision.commission, supervision.elected = supervision.commission._replace(number=1), True
        began_s = time.monotonic()
        try:
            await ClusterStart(record, self._placement, self._launcher, supervision, self._survey).run()
        except BaseException as error:
            log.error("the cluster could not be started: %(reason)s", {"reason": error})
            await self.stop()
            raise
        record.stage = "running"
        await self._announcer.tell()
        self._begin()
        log.info(
            "the cluster runs, with %(brokers)s",
            {
                "brokers": ", ".join(record.plan.members), "id": record.cluster, "data": record.config.store.data,
                "took_ms": _since_ms(began_s),
            },
        )  # fmt: skip

    async def resume(self, packed: bytes) -> None:
        """Take over from a Supervisor that has died or is out of reach: once a majority of the brokers takes this one
        for the supervisor, what the other knew, then what has died since is replaced.

        Raises:
            LocalError: another one supervises; this process ends.
        """
        record, began_s = self._record, time.monotonic()
        state = await Takeover(record, self._placement, self._supervision, self._shell, self._resign).run(packed)
        record.stage = "running"
        self._joiner.resume(state.change, state.ended)
        record.inherited = None
        await self._replacer.acquaint()  # the last one may have come no further than to tell of a new one
        await self._announcer.tell()
        self._begin()
        number = self._supervision.commission.number
        log.info("%(member)s has taken over", {"member": self.name, "number": number, "took_ms": _since_ms(began_s)})

    def _log_as(self) -> None:
        """Write this process's log as the cluster does, with what is known of both by now."""
        if self._fenced:
            set_up(replace(self._placement.logs, host=self._host), self.name, [self._record.config.token])

    def _begin(self) -> None:
        here = current_place()["node"]
        self._host = next((node.host for node in alive_nodes() if node.id == here), "")
        self._log_as()
        self._healer.begin()
        self._rebalancer.begin()
        if program := self._record.config.program:
            watch = bound.watch(program, self._end)
            self._bound = asyncio.get_running_loop().create_task(watch, name="bound")
        self._running.set()

    # ---- running

    async def want_spare(self, broker: str) -> bool:
        """Start another warm queue replica for `broker` if the limit allows; whether one was started."""
        record = self._record
        async with self._launcher.starting:
            mine = record.book.replicas(broker)
            full = len(mine) >= max(record.config.spares, record.config.queue_actors_max)
            if record.stage != "running" or full or broker not in record.book:
                return False
            return await self._launcher.add_replica(broker)

    async def add_broker(self, request: str, node: str) -> None:
        """Begin to add a broker (`Joiner.add`)."""
        await self._running.wait()
        await self._joiner.add(request, node)

    async def remove_broker(self, request: str, broker: str) -> None:
        """Begin to remove a broker (`Joiner.remove`)."""
        await self._running.wait()
        await self._joiner.remove(request, broker)

    async def progress(self, request: str) -> dict[str, Any]:
        """How far that is (`Joiner.progress`)."""
        await self._running.wait()  # a Supervisor that has just taken over does not know yet what was asked
        return self._joiner.progress(request)

    async def rebalance(self) -> dict[str, Any]:
        """Spread brokers over hosts, whatever the plan says (`Rebalancer.progress`)."""
        await self._running.wait()
        return self._rebalancer.progress()

    async def stage(self) -> str:
        """What the start is doing now, for a progress display."""
        return self._record.stage

    async def book_now(self) -> ClusterBook:
        """What a client or the command line needs to know."""
        record, book = self._record, self._record.book
        return ClusterBook(
            cluster=record.cluster,
            namespace=self._placement.namespace,
            stage=record.stage,
            token=record.config.token,
            addresses=book.serving(),
            nodes={name: entry.node for name, entry in book.items() if entry.clients},
            program=record.config.program,
            notes=tuple(record.notes),
            data=record.config.store.data,
            events=record.config.events.directory,
            paged=record.config.management.port >= 0,
            pids={self.name: os.getpid()} | {name: entry.pid for name, entry in book.items() if entry.pid},
        )

    async def status(self, timeout_s: float = 3.0) -> dict[str, Any]:
        """The whole cluster as plain values: whoever asks may be of another version."""
        return (await self.report(timeout_s)).plain()

    async def report(self, timeout_s: float = 3.0) -> ClusterStatus:
        """The whole cluster; an actor that does not answer is reported as not alive."""
        # Brokers that clients are told of from now on are those of the next report: none of these actors knew of them.
        serving = self._record.book.serving()
        actors = await reports(self._record.book, timeout_s)
        wrong = complaints(self._record.plan, actors) + self._joiner.under_way() + self._healer.under_way()
        wrong += closed(self._record.plan, actors, serving)
        warned = self._rebalancer.warnings(actors) + tap_life.warnings(self._record.config.events.directory, actors)
        chosen, now_ms = self._record.config.management, int(time.monotonic() * 1000)
        warned += management_life.warnings(chosen, actors, self._record.page_starts, now_ms)
        warned += store_warnings(actors) + stranger_warnings(actors)
        supervisor = self._supervision.report()
        supervisor.pid, supervisor.host = os.getpid(), self._host
        return ClusterStatus(
            cluster=self._record.cluster,
            namespace=self._placement.namespace,
            stage=self._record.stage,
            uptime_s=round(time.time() - self._record.began, 1),
            brokers=list(self._record.plan.members),
            members=serving,
            brokers_in_cluster=len(self._record.plan.members),
            brokers_taking_clients=len(serving),
            change=str(self._record.changes.change) if self._record.changes.change is not None else "",
            authenticated=bool(self._record.config.token),
            supervisor=supervisor,
            healthy=not wrong,
            unhealthy=texts(wrong),
            lost=[loss.report() for loss in lost(actors)],
            warnings=texts(warned),
            moved=moved(actors),
            alerts=self._first_seen.alerts(wrong + warned, time.time()),
            actors=actors,
        )

    async def quorum_critical(self, broker: str = "", whole_node: bool = False) -> dict[str, dict[str, Any]]:
        """Whether brokers may be stopped now.

        Args:
            broker: one of them; "" for each.
            whole_node: each goes together with the brokers that share its host.

        Returns:
            broker -> ``{"together": brokers judged to go with it, itself among them, "reasons": what would stop}``;
            when all are asked for and they are on several hosts, "host ADDRESS" of each host as well.

        Raises:
            LocalError: there is no such broker.
        """
        members = self._record.plan.members
        if broker and broker not in members:
            raise LocalError(f"there is no broker {broker!r} in this cluster: it has {', '.join(members)}")
        actors = await reports(self._record.book, 3.0)
        answers: dict[str, dict[str, Any]] = {}
        for one in [broker] if broker else members:
            together = sharing_host(actors, one) if whole_node else [one]
            answers[one] = {"together": together, "reasons": quorum_critical(self._record.plan, actors, *together)}
        return answers if broker else answers | critical_hosts(self._record.plan, actors)

    async def place(self) -> dict[str, Any]:
        return current_place()

    # ---- stopping

    def _resign(self, reason: str) -> None:
        """Another supervises: nothing more is said to anybody, and this process ends."""
        log.warning("this supervisor ends: %(reason)s", {"reason": reason})
        self._record.stage = "superseded"
        self._close()
        if self._fenced:
            asyncio.get_running_loop().call_later(LAST_S, ending.leave, Retired(reason))

    def _close(self) -> None:
        self._shell.close()
        self._close_but_shell()

    def _close_but_shell(self) -> None:
        for part in (self._healer, self._announcer, self._joiner, self._rebalancer):
            part.close()

    async def stop(self, now: bool = False) -> dict[str, int]:
        """Close all links, clients' first, then end every actor but this one; returns the pids by name.

        Args:
            now: as a power cut would, also while another call stops the cluster clean.

        Raises:
            LocalError: this one does not supervise the cluster any more.
        """
        if self._supervision.resigned:
            raise LocalError(f"this is not the cluster's supervisor any more: {self._supervision.resigned}")
        was, self._record.stage = self._record.stage, "stopped"
        began_s = time.monotonic()
        if was != "stopped":  # else what an earlier call has found stands
            self._unclean = [name for name in self._record.book.of("BrokerNode") if self._record.book.store(name)]
            log.info("the cluster is being stopped", {"stage": was, "at_once": now})
        self._close_but_shell()
        await self._stop_clean(was == "running", now)  # brokers go on hearing of the supervisor meanwhile
        self._shell.close()
        if self._bound is not None and self._bound is not asyncio.current_task():
            self._bound.cancel()
        brokers = self._record.book.of("BrokerNode")
        others = [name for name in self._record.book if name not in brokers]
        await self._tell(others, "hush")
        await self._tell(brokers, "stop")
        await self._tell(others, "stop")
        pids = {name: entry.pid for name, entry in self._record.book.items()}
        await asyncio.gather(*(entry.handle.end() for entry in self._record.book.values()))
        self._record.book = AddressBook()
        if was != "stopped":
            log.info("the cluster is stopped", {"unclean": ", ".join(self._unclean), "took_ms": _since_ms(began_s)})
        if self._fenced:
            asyncio.get_running_loop().call_later(LEFT_S, ending.leave, Retired("the cluster has been stopped"))
        return pids

    async def unclean(self) -> list[str]:
        """The brokers whose stores `stop` has not closed clean."""
        return self._unclean

    async def _stop_clean(self, begin: bool, now: bool) -> None:
        """With stores: have all that is in memory written down; an end in a hurry ends that, too. Who asks again for a
        stop that is under way waits for it."""
        if begin and not now and self._record.config.store.data:
            self._stopping = asyncio.get_running_loop().create_task(CleanStop(self._record, self._orders).run())
        if self._stopping is None:
            return
        if now:
            self._stopping.cancel()
        await asyncio.wait([self._stopping])
        if not self._stopping.cancelled() and self._stopping.exception() is None:
            self._unclean = self._stopping.result()

    async def _tell(self, names: list[str], method: str) -> None:
        calls = (self._orders.give(name, method, timeout_s=STOP_S) for name in names)
        await asyncio.gather(*calls, return_exceptions=True)

    async def quit(self) -> None:
        """End this process, after `stop`."""
        ending.quit()

    async def _end(self) -> None:
        await self.stop()
        if (me := self._placement.find(self.name)) is not None:
            me.tell("quit")


def _since_ms(began_s: float) -> int:
    return int((time.monotonic() - began_s) * 1000)
