"""The Supervisor: starts a cluster's actors on their nodes, introduces them to each other, keeps the address book.

    choose nodes -> start every process at once -> Sequencers listen -> Ownership and brokers listen and dial them
                 -> warm queue replicas dial all of these -> brokers learn each other's client address -> all links up

It makes the cluster's secret, and gives it to the actors in calls only: constructor arguments would be kept by Ray's
control store. When a broker has used up a warm queue replica it asks here for another; what dies is replaced by
`healer.py`. The data plane never comes here.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Coroutine
from typing import Any

from ...protocol.errors import LocalError
from ...protocol.log.quorum import majority
from ...protocol.machine import OWNERSHIP, OWNERSHIP2, SEQUENCER
from ...protocol.supervisor.changes import Change
from ...protocol.supervisor.layout import Node, layout
from ...protocol.supervisor.office import Commission
from ...protocol.supervisor.supervision import Supervision
from ..links.handshake import Credentials
from ..members import ending
from ..members.broker_node import BrokerNode
from ..members.member import LAST_S
from ..members.moves import moved
from ..members.ownership import Ownership
from ..members.queue_replica import QueueReplica
from ..members.sequencer import Sequencer
from ..members.shell import Retired
from ..ray_control import bound
from ..ray_control.placement import Placement, alive_nodes, broker_nodes, current_place, is_supervisor
from ..ray_control.ray_handles import CALL_S, ActorGone, Handle, Teller
from . import tap_life
from .address_book import AddressBook, BookEntry, broker_of, fresh
from .frail_hosts import critical_hosts
from .healer import Healer
from .health import closed, complaints, figures, lost, quorum_critical, sharing_host
from .joiner import Joiner
from .plan import Plan
from .reach import Reach
from .rebalancer import Rebalancer
from .replacer import Replacer
from .supervisor_state import SupervisorState
from .supervisor_watch import SupervisorWatch

log = logging.getLogger(__name__)

START_S = 90.0
STOP_S = 5.0
SPARE_S = 30.0
"""Nothing is replaced while a warm queue replica starts, so it is not waited for longer when its host falls silent."""
RECALL_S = 2.0
NAMES_S = 10.0
"""Killed actors keep their names for a moment."""
STANDBY = SEQUENCER + "2"
ELECTED_S = 25.0
"""A supervisor that no majority of the brokers takes for one has ended itself by then."""


class Supervisor:
    """One per cluster, an ordinary class that `cluster.py` makes an actor.

    Attributes:
        book: the actors.
        stage: what it is doing: "running" once the cluster is complete, "stopped" at the end.
    """

    def __init__(self, name: str, placement: Placement, fenced: bool = False) -> None:
        self.name = name
        self.cluster = secrets.token_hex(6)
        self.placement = placement
        self.plan = Plan()
        self.book = AddressBook()
        self.stage_now = "starting"
        self._secret = secrets.token_bytes(32)
        self.starting = asyncio.Lock()
        self._linking = asyncio.Lock()
        self._running = asyncio.Event()
        self.began = time.time()
        self._version = 0
        self._fenced = fenced
        self.supervision = Supervision(Commission(0, secrets.token_hex(6), name))
        self.reach = Reach(placement.answering)
        self.healer = Healer(self)
        self.replacer = Replacer(self)
        self.joiner = Joiner(self)
        self.rebalancer = Rebalancer(self)
        self._inherited: Change | None = None  # what the last one had begun, until it is taken up
        self._bound: asyncio.Task[None] | None = None
        self._host = ""
        if fenced:
            ending.fence(os.getppid())

    def __repr__(self) -> str:
        return f"Supervisor({self.cluster}, {self.stage_now})"

    # ---- starting

    async def start_cluster(self, plan: Plan) -> None:
        """Start everything; returns when all links are up.

        Raises:
            LocalError: something is missing at the time limit, and what; what was started has been killed.
        """
        if self.book:
            raise LocalError("this cluster has been started already")
        self.plan = plan
        self.supervision = Supervision(self.supervision.commission._replace(number=1), elected=True)
        try:
            await self._start(time.monotonic() + START_S)
        except BaseException:
            await self.stop()
            raise
        self.stage_now = "running"
        await self.tell_members()
        self._begin()

    def _begin(self) -> None:
        here = current_place()["node"]
        self._host = next((node.host for node in alive_nodes() if node.id == here), "")
        self.healer.begin()
        self.rebalancer.begin()
        if self.plan.program:
            watch = bound.watch(self.plan.program, self._end)
            self._bound = asyncio.get_running_loop().create_task(watch, name="bound")
        self._running.set()

    async def _start(self, deadline: float) -> None:
        def left() -> float:
            return max(0.1, deadline - time.monotonic())

        plan, book, members = self.plan, self.book, list(self.plan.members)
        swept = self.placement.sweep()
        if swept:
            log.warning("killed what an earlier cluster left behind: %s", ", ".join(swept))
            await self._names_free(left())
        self._launch()
        self.stage_now = "waiting for processes"
        await asyncio.gather(*(self.verify(name, left()) for name in book))

        self.stage_now = "listening"
        await self.start_sequencer(SEQUENCER, True)
        await self.start_sequencer(STANDBY, False)
        await tap_life.start(self)
        brokers = (self.start_broker(broker, plan.port(broker), False, book.peers_of_broker()) for broker in members)
        await asyncio.gather(self.start_ownership(OWNERSHIP), self.start_ownership(OWNERSHIP2), *brokers)
        for broker in members:
            book.change(broker, serving=True)
        for name in book.replicas():
            await self.start_replica(name)

        self.stage_now = "linking"
        missing = await asyncio.gather(*(self._missing(name, left()) for name in book))
        lines = [line for lines in missing for line in lines]
        if lines:
            raise LocalError(
                f"these links did not come up within {START_S:g} s: {'; '.join(lines)}; see the actors' logs"
            )

    def _launch(self) -> None:
        """Begin every process at once: starting them is what takes the time."""
        members, nodes = self.plan.members, alive_nodes()
        here = current_place()["node"]
        where = layout(members, broker_nodes(nodes), next((node.host for node in nodes if node.id == here), ""))
        self.new(Sequencer, SEQUENCER, where.sequencer)
        self.new(Sequencer, STANDBY, where.standby)
        self.new(Ownership, OWNERSHIP, where.ownership)
        self.new(Ownership, OWNERSHIP2, where.ownership2)
        tap_life.launch(self, where.brokers[members[0]])
        for broker in members:
            self.new(BrokerNode, broker, where.brokers[broker])
        for broker in members:
            for number in range(self.plan.spares):
                self.new(QueueReplica, f"{broker}.r{number}", where.brokers[broker])

    def new(self, cls: type, name: str, node: Node) -> None:
        """Begin a process; `verify` waits for it."""
        handle = self.placement.actor(cls, name, node.id, True)
        self.book[name] = BookEntry(handle, cls.__name__, node.id, node.host)

    async def verify(self, name: str, timeout_s: float) -> None:
        entry = self.book[name]
        place = await self.placement.verify(entry.handle, entry.node, timeout_s)
        self.book.change(name, pid=place["pid"], loop=place["loop"])
        if self.stage_now != "running":
            up = sum(entry.pid > 0 for entry in self.book.values())
            self.stage_now = f"{up} of {len(self.book)} processes are up"

    async def order(self, name: str, method: str, *args: Any, timeout_s: float = CALL_S) -> Any:
        """Have a member do something, in the name of this supervisor: when another has come it refuses (`obey`)."""
        return await self.order_to(self.book[name].handle, method, *args, timeout_s=timeout_s)

    async def order_to(self, handle: Handle, method: str, *args: Any, timeout_s: float = CALL_S) -> Any:
        return await handle.call("obey", tuple(self.supervision.commission), method, *args, timeout_s=timeout_s)

    async def start_actor(self, name: str, *args: Any, inc: int = 0) -> None:
        """Let a process begin. `inc`: its incarnation, if it was given one."""
        self.book.change(name, inc=inc or fresh())
        entry = self.book[name]
        credentials = Credentials(self.cluster, self._secret, name)
        addresses = await self.order(name, "start", credentials, self.plan.bind or entry.host, *args)
        self.book.change(name, peers=addresses.get("peers", ""), clients=addresses.get("clients", ""))

    async def start_sequencer(self, name: str, leading: bool) -> None:
        uid = fresh()
        await self.start_actor(name, uid, list(self.plan.members), leading, inc=uid)

    async def start_ownership(self, name: str) -> None:
        plan, inc = self.plan, fresh()
        await self.start_actor(name, inc, plan.slice_ms, self.book.sequencers(), inc=inc)

    async def start_broker(self, broker: str, port: int, blank: bool, peers: dict[str, str]) -> None:
        want_spare = Teller(self.placement, "want_spare")
        plan, inc = self.plan, fresh()
        await self.start_actor(
            broker, port, inc, list(plan.members), plan.token, peers, blank, want_spare, bool(plan.events),
            plan.queue_actors_max, plan.message_bytes, inc=inc,
        )  # fmt: skip

    async def start_replica(self, name: str) -> None:
        async with self._linking:  # each dials those that listen already, so every two are linked once
            peers, inc = self.book.peers_of_replica(name), fresh()
            await self.start_actor(name, broker_of(name), inc, peers, bool(self.plan.events), inc=inc)

    async def _missing(self, name: str, timeout_s: float) -> list[str]:
        """The links of `name` that are not up in time."""
        wanted = self._links_of(name)
        if not wanted:
            return []
        missing = await self.book[name].handle.call("until_linked", wanted, timeout_s, timeout_s=timeout_s + 5)
        return [f"{name} to {other}" for other in missing]

    def _links_of(self, name: str) -> list[str]:
        """Links counted at one end: the one that is needed first."""
        sequencers = list(self.book.sequencers())
        role = self.book[name].role
        if role == "QueueReplica":
            fellows = [other for other in self.book.replicas() if broker_of(other) != broker_of(name)]
            return [*sequencers, *self.book.of("Ownership"), broker_of(name), *fellows]
        if role == "BrokerNode":
            return [*sequencers, *self.book.replicas(name)]
        return sequencers if role == "Ownership" else []

    async def _names_free(self, timeout_s: float) -> None:
        until = time.monotonic() + min(timeout_s, NAMES_S)
        while self.placement.sweep() and time.monotonic() < until:
            await asyncio.sleep(0.05)

    # ---- running

    async def want_spare(self, broker: str) -> bool:
        """Start another warm queue replica for `broker` if the limit allows; whether one was started."""
        async with self.starting:
            mine = self.book.replicas(broker)
            full = len(mine) >= max(self.plan.spares, self.plan.queue_actors_max)
            if self.stage_now != "running" or full or broker not in self.book:
                return False
            return await self.add_replica(broker)

    async def add_replica(self, broker: str) -> bool:
        """Start a queue replica for `broker`, under a name that was never used before."""
        name = f"{broker}.r{self.healer.number(broker)}"
        entry = self.book[broker]
        try:
            await self.healer.confirmed()
            self.new(QueueReplica, name, Node(entry.node, entry.host, {}))
            await self.verify(name, SPARE_S)
            await self.start_replica(name)
        except Exception:
            log.exception("no queue replica %s for broker %s", name, broker)
            if name in self.book:
                self.book.pop(name).handle.kill()
            return False
        self.healer.mind(name)
        return True

    async def tell_members(self) -> bool:
        """Tell every broker where clients find the others, and what a new Supervisor would have to know; whether a
        majority of them knows it now."""
        self._version += 1
        addresses, state = self.book.serving(), self._state().packed()
        brokers = self.book.of("BrokerNode")
        calls: list[Coroutine[Any, Any, Any]] = []
        for rank, broker in enumerate(brokers):
            if broker in self.healer.turns:
                continue  # it is told when it has come back; nobody waits for one that stands still
            watch = SupervisorWatch(self.placement, state, rank, tuple(brokers))
            calls.append(self._tell_broker(broker, addresses, watch))
        told = sum(await asyncio.gather(*calls))
        return told >= majority([b for b in brokers if self.book[b].inc or b in self.healer.turns])

    async def _tell_broker(self, broker: str, addresses: dict[str, str], watch: SupervisorWatch) -> bool:
        """Whether it remembers."""
        said = await asyncio.gather(
            self.order(broker, "members", addresses, timeout_s=STOP_S),
            self.order(broker, "remember", watch, timeout_s=STOP_S),
            return_exceptions=True,
        )
        return not isinstance(said[1], BaseException)

    def _state(self) -> SupervisorState:
        return SupervisorState.of(
            self.book,
            version=self._version,
            number=self.supervision.commission.number,
            cluster=self.cluster,
            secret=self._secret,
            plan=self.plan,
            began=self.began,
            numbers=dict(self.healer.numbers),
            change=self.joiner.change,
            ended=dict(self.joiner.ended),
        )

    async def resume(self, packed: bytes) -> None:
        """Take over from a Supervisor that has died or is out of reach: once a majority of the brokers takes this one
        for the supervisor, what the other knew, then what has died since is replaced.

        Raises:
            LocalError: another one supervises; this process ends.
        """
        state = SupervisorState.unpacked(packed)
        self.cluster, self.plan, self.book = state.cluster, state.plan, state.handles(self.placement)
        self._inherited = state.change
        await self.healer.elected(ELECTED_S)
        state = await self._newest(state)
        self.cluster, self._secret, self._version = state.cluster, state.secret, state.version
        self.plan, self.began = state.plan, state.began
        self.book = state.handles(self.placement)
        self.healer.numbers.update(state.numbers)
        await self._end_unknown()
        for name in self.book.half_started():
            self.healer.dead(name)
        self.stage_now = "running"
        self.joiner.resume(state.change, state.ended)
        self._inherited = None
        await self.replacer.acquaint()  # the last one may have come no further than to tell of a new one
        await self.tell_members()
        self._begin()

    async def _newest(self, state: SupervisorState) -> SupervisorState:
        """Whoever started us may have missed the last word: a broker that has left would then be healed back, and one
        that joins would not be known. A change was told to a majority, so a majority is asked.

        Raises:
            LocalError: too few answer.
        """
        until = time.monotonic() + ELECTED_S
        while time.monotonic() < until:
            book = self.book
            brokers = book.of("BrokerNode")
            calls = (book[broker].handle.call("recall", timeout_s=RECALL_S) for broker in brokers)
            found = await asyncio.gather(*calls, return_exceptions=True)
            others = [SupervisorState.unpacked(packed) for packed in found if isinstance(packed, bytes)]
            newest = max([state, *others], key=lambda one: one.age)
            if newest.age > state.age:
                state, self.book = newest, newest.handles(self.placement)  # its brokers are those that count
                self._inherited = state.change
            elif self.supervision.enough(
                b for b, said in zip(brokers, found, strict=True) if not isinstance(said, BaseException)
            ):
                return state
            try:
                await self.healer.confirmed()
            except LocalError as error:
                log.warning("what the last supervisor knew is not known yet: %s", error)
        reason = "too few brokers say what the last supervisor knew: another one is to try"
        self.resign(reason)
        raise LocalError(reason)

    async def _end_unknown(self) -> None:
        """End the actors that were started after the state was kept: known to Ray by name, but not to us."""
        ended: set[str] = set()
        for name in self.placement.names():
            if is_supervisor(name) or (handle := self.placement.find(name)) is None:
                continue
            if name not in self.book or handle.id != self.book[name].handle.id:
                handle.kill()
                ended.add(name)
        until = time.monotonic() + NAMES_S
        while ended & set(self.placement.names()) and time.monotonic() < until:
            await asyncio.sleep(0.05)

    def changing(self) -> str:
        """The broker that joins or leaves, "" for none."""
        change = self.joiner.change or self._inherited
        return change.broker if change is not None else ""

    async def add_broker(self, request: str, node: str) -> None:
        """Begin to add a broker (`Joiner.add`)."""
        await self._running.wait()
        await self.joiner.add(request, node)

    async def remove_broker(self, request: str, broker: str) -> None:
        """Begin to remove a broker (`Joiner.remove`)."""
        await self._running.wait()
        await self.joiner.remove(request, broker)

    async def progress(self, request: str) -> dict[str, Any]:
        """How far that is (`Joiner.progress`)."""
        await self._running.wait()  # a Supervisor that has just taken over does not know yet what was asked
        return self.joiner.progress(request)

    async def rebalance(self) -> dict[str, Any]:
        """Spread brokers over hosts, whatever the plan says (`Rebalancer.progress`)."""
        await self._running.wait()
        return self.rebalancer.progress()

    async def stage(self) -> str:
        """What the start is doing now, for a progress display."""
        return self.stage_now

    async def book_now(self) -> dict[str, Any]:
        """What a client or the command line needs to know: addresses, token, where each broker is, pids."""
        book = self.book
        return {
            "cluster": self.cluster,
            "namespace": self.placement.namespace,
            "stage": self.stage_now,
            "token": self.plan.token,
            "addresses": book.serving(),
            "nodes": {name: entry.node for name, entry in book.items() if entry.clients},
            "program": self.plan.program,
            "pids": {self.name: os.getpid()} | {name: entry.pid for name, entry in book.items() if entry.pid},
        }

    async def status(self, timeout_s: float = 3.0) -> dict[str, Any]:
        """The whole cluster as plain values; an actor that does not answer is reported as not alive."""
        actors = await self.actors(timeout_s)
        wrong = complaints(self.plan, actors) + self.joiner.under_way() + self.healer.under_way()
        wrong += closed(self.plan, actors, self.book.serving())
        return {
            "cluster": self.cluster,
            "namespace": self.placement.namespace,
            "stage": self.stage_now,
            "uptime_s": round(time.time() - self.began, 1),
            "brokers": list(self.plan.members),
            "members": self.book.serving(),
            **figures(self.plan.members, self.book.serving()),
            "change": str(self.joiner.change) if self.joiner.change is not None else "",
            "authenticated": bool(self.plan.token),
            "supervisor": {"pid": os.getpid(), "host": self._host, **self.supervision.report()},
            "healthy": not wrong,
            "unhealthy": wrong,
            "lost": [loss.facts() for loss in lost(actors)],
            "warnings": self.rebalancer.warnings(actors) + tap_life.warnings(self.plan.events, actors),
            "moved": moved(actors),
            "actors": actors,
        }

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
        members = self.plan.members
        if broker and broker not in members:
            raise LocalError(f"there is no broker {broker!r} in this cluster: it has {', '.join(members)}")
        actors = await self.actors(3.0)
        answers: dict[str, dict[str, Any]] = {}
        for one in [broker] if broker else members:
            together = sharing_host(actors, one) if whole_node else [one]
            answers[one] = {"together": together, "reasons": quorum_critical(self.plan, actors, *together)}
        return answers if broker else answers | critical_hosts(self.plan, actors)

    async def actors(self, timeout_s: float, role: str = "") -> list[dict[str, Any]]:
        """What the actors (of a role) say of themselves, each with its line of the address book."""
        book = {name: entry for name, entry in self.book.items() if entry.pid and role in ("", entry.role)}
        reports = await asyncio.gather(*(self._report(entry.handle, timeout_s) for entry in book.values()))
        return [
            {
                "name": name,
                "role": entry.role,
                "pid": entry.pid,
                "node": entry.node,
                "host": entry.host,
                "loop": entry.loop,
                "address": entry.clients or entry.peers,
                **report,
            }
            for (name, entry), report in zip(book.items(), reports, strict=True)
        ]

    async def _report(self, handle: Handle, timeout_s: float) -> dict[str, Any]:
        try:
            return {"alive": True, **await handle.call("status", timeout_s=timeout_s)}
        except ActorGone as error:
            return {"alive": False, "error": str(error)}
        except LocalError as error:
            return {"alive": True, "error": str(error)}

    async def place(self) -> dict[str, Any]:
        from ..ray_control.placement import current_place

        return current_place()

    # ---- stopping

    def resign(self, reason: str) -> None:
        """Another supervises: nothing more is said to anybody, and this process ends."""
        log.warning("this supervisor ends: %s", reason)
        self.stage_now = "superseded"
        self.rebalancer.close()
        self.healer.close()
        self.joiner.close()
        if self._fenced:
            asyncio.get_running_loop().call_later(LAST_S, ending.leave, Retired(reason))

    async def stop(self) -> dict[str, int]:
        """Close all links, clients' first, then end every actor but this one; returns the pids by name.

        Raises:
            LocalError: this one does not supervise the cluster any more.
        """
        if self.supervision.resigned:
            raise LocalError(f"this is not the cluster's supervisor any more: {self.supervision.resigned}")
        self.stage_now = "stopped"
        self.healer.close()
        self.joiner.close()
        self.rebalancer.close()
        if self._bound is not None and self._bound is not asyncio.current_task():
            self._bound.cancel()
        brokers = self.book.of("BrokerNode")
        others = [name for name in self.book if name not in brokers]
        await self._tell(others, "hush")
        await self._tell(brokers, "stop")
        await self._tell(others, "stop")
        pids = {name: entry.pid for name, entry in self.book.items()}
        await asyncio.gather(*(entry.handle.end(STOP_S) for entry in self.book.values()))
        self.book = AddressBook()
        return pids

    async def _tell(self, names: list[str], method: str) -> None:
        calls = (self.order(name, method, timeout_s=STOP_S) for name in names)
        await asyncio.gather(*calls, return_exceptions=True)

    async def quit(self) -> None:
        """End this process, after `stop`."""
        ending.quit()

    async def _end(self) -> None:
        await self.stop()
        if (me := self.placement.find(self.name)) is not None:
            me.tell("quit")
