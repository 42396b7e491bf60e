"""Spreads the brokers over hosts again when a host has come or come back. Which broker goes where is decided in
`../../protocol/supervisor/layout.py`, and when in `../../protocol/supervisor/rebalance.py`.

    whole for a while -> a new broker joins on the emptiest host -> it has everything -> one of the fullest host leaves

So nothing has fewer copies at any time, and one member changes at a time. The move under way is in the plan, of which
every broker has a copy: the next supervisor goes on with it. A standby sequencer that shares the host of the one that
leads is replaced elsewhere, and so is the Ownership that stands by on the host of the one on duty. Nothing is moved
while anything is missing.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Any

from msgspec.structs import replace

from ...protocol.errors import LocalError
from ...protocol.status.cluster import ClusterStatus
from ...protocol.status.members import AnyMember
from ...protocol.supervisor.layout import Node, astray, emptiest, uneven
from ...protocol.supervisor.rebalance import DONE, LEAVE, WAIT, Rebalance, onwards
from ..ray_control.placement import alive_nodes, broker_nodes, ended_hosts
from .announcer import Announcer
from .frail_hosts import frail
from .health import leader, on_duty
from .joiner import Joiner
from .reach import Reach
from .reasons import Reason
from .record import ClusterRecord

log = logging.getLogger(__name__)

LOOK_S = 1.0
ASK_S = 2.0
NODES_S = 2.0


class Rebalancer:
    """Attributes:
    nodes: the Ray nodes that may carry brokers, as of the last look.
    ended: hosts whose Ray node has ended.
    wanted: a user has asked for it.

    Args:
        status: asks the whole cluster how it is, within a time limit in seconds.
        dead: told of an actor that is to be replaced, though it lives.
    """

    def __init__(
        self,
        record: ClusterRecord,
        reach: Reach,
        joiner: Joiner,
        announcer: Announcer,
        status: Callable[[float], Awaitable[ClusterStatus]],
        dead: Callable[[str], None],
    ) -> None:
        self.nodes: list[Node] = []
        self.ended: list[str] = []
        self.wanted = False
        self._record = record
        self._reach = reach
        self._joiner = joiner
        self._announcer = announcer
        self._status = status
        self._dead = dead
        self._task: asyncio.Task[None] | None = None
        self._spreading = Rebalance()

    def begin(self) -> None:
        self._spreading = Rebalance(self._record.config.timing)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="rebalancer")

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def warnings(self, actors: list[AnyMember]) -> list[Reason]:
        """Why one host may not fail now, and where Ray is to be started again."""
        plan = self._record.plan
        hosts = {node.host for node in self.nodes}
        found = frail(plan, actors, len(hosts))
        if plan.moving[0] in plan.members:
            text = f"brokers are being spread over the hosts: {plan.moving[0]} leaves when another has joined"
            found.append(Reason.of("brokers-spreading", plan.moving[0], text))
        if 0 < len(hosts) < plan.hosts and self.ended:
            where = ", ".join(self.ended)
            text = (
                f"Ray's node on {where} has ended, and nothing runs there until it is started again: "
                "`ray start --address=HEAD:PORT` on that host"
            )
            found.append(Reason.of("ray-node-ended", where, text))
        return found

    def progress(self) -> dict[str, Any]:
        """Ask for it: "even" when there is nothing to move, else "stage" in words."""
        move = self._move()
        moving = bool(self._record.plan.moving[0])
        self.wanted = move is not None or moving
        change = self._joiner.under_way()
        if change:
            stage = change[0]
        elif move is not None:
            stage = f"{move[0]} is to move to {move[1]}, when the cluster is whole"
        else:
            stage = ""
        return {"even": not self.wanted and not change, "stage": stage}

    def _move(self) -> tuple[str, str] | None:
        """The broker that is to move, and the host, among all nodes that Ray holds for alive."""
        book = self._record.book
        brokers = {name: book[name].host for name in book.of("BrokerNode")}
        hosts = sorted({node.host for node in self.nodes})
        return uneven(brokers, hosts) if hosts else None

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self._look()
            except Exception:
                log.exception("spreading brokers over hosts: not now")

    async def _look(self) -> None:
        self.nodes, self.ended = await asyncio.wait_for(asyncio.to_thread(_carriers), NODES_S)
        if self._record.plan.moving[0]:
            await self._go_on()
        elif self._joiner.change is None and (self._record.config.rebalance or self.wanted):
            await self._begin()

    async def _begin(self) -> None:
        now_ms = int(time.monotonic() * 1000)
        if self._astray(self.nodes) is None:
            self._spreading.ripe(now_ms, False, False)
            self.wanted = False
            return
        status = await self._status(ASK_S)
        if not self._spreading.ripe(now_ms, True, status.healthy, self.wanted):
            return
        # A host that was cut off is alive to Ray for a while, and no better place yet.
        answering = await self._reach.among(self.nodes)
        leading = leader(status.actors)
        if leading is None:
            return
        found = self._astray(answering, leading.name, on_duty(leading))
        if found is not None and found[1]:
            await self._start(*found)
        elif found is not None:
            log.info("%(member)s shares the host of its fellow: it is replaced elsewhere", {"member": found[0]})
            self._dead(found[0])

    def _astray(self, nodes: list[Node], leading: str = "", duty: str = "") -> tuple[str, str] | None:
        """The actor that is to go elsewhere, among these nodes (`layout.astray`)."""
        book = self._record.book
        sequencers, ownerships, brokers = (
            {name: book[name].host for name in book.of(role)} for role in ("Sequencer", "Ownership", "BrokerNode")
        )
        return astray(sequencers, ownerships, brokers, [node.host for node in nodes], leading, duty)

    async def _start(self, broker: str, host: str) -> None:
        record = self._record
        log.info(
            "brokers are not spread over the hosts: %(broker)s is to leave for one on %(new_host)s",
            {"broker": broker, "new_host": host},
        )
        node = emptiest([node for node in self.nodes if node.host == host], record.book.places_of_brokers())
        record.plan = replace(record.plan, moving=(broker, len(record.plan.members)))
        try:
            await self._joiner.add(secrets.token_hex(8), node.id)  # this tells every broker of the plan
        except LocalError:
            await self._done()
            raise

    async def _go_on(self) -> None:
        """A newcomer has joined, or is about to: then the other one may leave."""
        plan, changing = self._record.plan, self._joiner.change is not None
        if onwards(plan.moving, plan.members, changing, True) == WAIT:
            return
        whole = (await self._status(ASK_S)).healthy
        plan, changing = self._record.plan, self._joiner.change is not None
        step = onwards(plan.moving, plan.members, changing, whole)
        if step == LEAVE:
            await self._joiner.remove(secrets.token_hex(8), plan.moving[0])
        elif step == DONE:
            await self._done()

    async def _done(self) -> None:
        self._record.plan = replace(self._record.plan, moving=("", 0))
        await self._announcer.tell()


def _carriers() -> tuple[list[Node], list[str]]:
    nodes = alive_nodes()
    return broker_nodes(nodes), ended_hosts(nodes)
