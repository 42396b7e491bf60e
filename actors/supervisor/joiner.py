"""Brokers join and leave a running cluster. Which step comes next is decided in `../../protocol/supervisor/changes.py`,
and this is its shell; which step is safe the members decide.

    add:     processes start -> they dial everybody -> wiring -> clients are told -> queue after queue comes up to date
    remove:  clients are told -> drain -> the others take its votes, stream by stream -> its processes end -> forgotten

One change at a time, but a newcomer may be removed again before it has everything. A change is told to a majority of
the brokers before anything is done, and each step may be done twice, so whatever Supervisor comes next finishes what
this one did not. A broker that dies in the middle is healed like any other and goes on from there, unless the others
can let it go without it. Only a newcomer that never ran is undone.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

from ...protocol.errors import LocalError
from ...protocol.machine import store_of
from ...protocol.status.machines import BrokerStatus, SequencerStatus
from ...protocol.status.members import read_member
from ...protocol.supervisor.change_deeds import (
    JOIN,
    LEAVE,
    Begin,
    BrokerDrained,
    Change,
    DismissBroker,
    Dismissed,
    DrainBroker,
    Fell,
    ForgetBroker,
    Forgotten,
    Hide,
    Introduce,
    Looked,
    Refuse,
    Resumed,
    Return,
    StartBroker,
    Started,
    Tell,
    Told,
    Undo,
    Undone,
)
from ..ray_control.ray_handles import ActorGone
from .announcer import Announcer
from .health import leader, quorum_critical
from .launcher import Launcher
from .nodes import Nodes
from .orders import Orders
from .reasons import Reason
from .record import ClusterRecord
from .reports import reports
from .roster import may_leave

log = logging.getLogger(__name__)

LOOK_S = 0.2
ASK_S = 2.0
AGAIN_S = 1.0


class Joiner:
    """
    Args:
        dead: told of an actor that did not begin as it should, and is to be replaced.
    """

    def __init__(
        self,
        record: ClusterRecord,
        orders: Orders,
        nodes: Nodes,
        launcher: Launcher,
        announcer: Announcer,
        dead: Callable[[str], None],
    ) -> None:
        self._record = record
        self._machine = record.changes
        self._orders = orders
        self._nodes = nodes
        self._launcher = launcher
        self._announcer = announcer
        self._dead = dead
        self._task: asyncio.Task[None] | None = None
        self._began_s = 0.0

    @property
    def change(self) -> Change | None:
        """The change that is under way."""
        return self._machine.change

    # ---- asked for

    async def add(self, request: str, node: str) -> None:
        """Begin to add a broker. Asked again under the same `request` it does nothing.

        Args:
            node: id (or how it begins) or address of a Ray node; "" for the one with the fewest brokers.

        Raises:
            LocalError: why not.
        """
        if self._machine.known(request):
            return
        self._refuse_another()
        where = await self._nodes.for_newcomer(node)
        self._refuse_another()  # another request may have been quicker
        broker = self._launcher.new_broker()
        self._record.plan = self._record.plan.joined_by(broker)
        await self._begin(Begin(Change(request, JOIN, broker, where.id)))

    async def remove(self, request: str, broker: str) -> None:
        """Begin to remove a broker. Asked again under the same `request` it does nothing.

        Raises:
            LocalError: why not.
        """
        if self._machine.known(request):
            return
        record = self._record
        self._refuse_another(broker)
        reasons = may_leave(record.plan, await reports(record.book, ASK_S), broker)
        if reasons:
            raise LocalError("; ".join(reasons))
        self._refuse_another(broker)  # another request may have been quicker
        if self._task is not None:
            self._task.cancel()
        await self._begin(Begin(Change(request, LEAVE, broker), self._has_begun(broker)))

    def progress(self, request: str) -> dict[str, Any]:
        """How far a change is: "broker", "ended", "error", "stage", "done", "total"; empty: it was never heard of."""
        if request in self._machine.ended:
            broker, error = self._machine.ended[request]
            return {"broker": broker, "ended": True, "error": error, "stage": "", "done": 0, "total": 0}
        change, stage = self.change, self._machine.stage
        if change is None or change.request != request:
            return {}
        return {
            "broker": change.broker, "ended": False, "error": "",
            "stage": stage.text, "done": stage.done, "total": stage.total,
        }  # fmt: skip

    def under_way(self) -> list[Reason]:
        change = self.change
        return [Reason.of("members-changing", change.broker, self._machine.under_way())] if change is not None else []

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _refuse_another(self, leaver: str = "") -> None:
        """While a change is under way; but a newcomer whose processes run may be removed again."""
        stage = self._record.stage
        if stage != "running":
            raise LocalError(f"the cluster is {stage}: its members do not change now")
        if why := self._machine.refusal(leaver, self._has_begun(leaver)):
            raise LocalError(why)

    def _has_begun(self, broker: str) -> bool:
        entry = self._record.book.get(broker)
        return entry is not None and bool(entry.clients)

    # ---- the machine's shell

    def resume(self, change: Change | None, ended: dict[str, tuple[str, str]]) -> None:
        """Go on with what another Supervisor began."""
        self._machine.step(Resumed(change, ended))
        if change is not None:
            log.info("going on: %(change)s", {"change": str(change), "broker": change.broker})
            self._spawn(change)

    async def _begin(self, input: Begin) -> None:
        await self._give(input)
        log.info("%(change)s: it has begun", {"change": str(input.change), "broker": input.change.broker})
        self._spawn(input.change)

    def _spawn(self, change: Change) -> None:
        self._began_s = time.monotonic()
        self._task = asyncio.get_running_loop().create_task(self._run(change), name=str(change))

    async def _run(self, change: Change) -> None:
        while self.change is change:
            try:
                if change.kind == LEAVE and self._record.store_failures.down(change.broker):
                    await self.must_return(change.broker)  # nobody starts it again, and so finds that it is dead
                await self._give(await self._looked(change.broker))
                await asyncio.sleep(LOOK_S)
            except Exception:
                log.exception("%(change)s: not yet", {"change": str(change), "broker": change.broker})
                await asyncio.sleep(AGAIN_S)

    def _tell_end(self, change: Change) -> None:
        took_ms = int((time.monotonic() - self._began_s) * 1000)
        broker, error = self._machine.ended.get(change.request, (change.broker, ""))
        if error:
            log.warning(
                "%(change)s: it has failed: %(reason)s", {"change": str(change), "broker": broker, "reason": error}
            )
        else:
            log.info("%(change)s: it is done", {"change": str(change), "broker": broker, "took_ms": took_ms})

    async def _give(self, input: Any) -> None:
        change = self.change
        deeds = self._machine.step(input)
        if change is not None and self.change is not change:
            self._tell_end(change)
        for deed in deeds:
            answer = await self._carry_out(deed)
            if answer is not None:
                await self._give(answer)

    async def _carry_out(self, deed: Any) -> Any:
        """Returns the machine's next input, if there is an answer."""
        kind = type(deed)
        if kind is Tell:
            return Told(await self._announcer.tell())
        if kind is Refuse:
            raise LocalError(deed.why)
        broker = deed.broker
        if kind is StartBroker:
            return await self._start(broker, deed.node)
        if kind is Introduce:
            await self._introduce(broker)
        elif kind is Hide:
            self._record.book.change(broker, serving=False)
            await self._announcer.tell()
        elif kind is DrainBroker:
            return await self._drain(broker)
        elif kind is DismissBroker:
            return Dismissed(await self._certainly_left(broker))
        elif kind is ForgetBroker or kind is Undo:
            async with self._launcher.starting:
                await self._leave_store(broker)
                await self._launcher.forget(broker)
                self._record.plan = self._record.plan.left_by(broker)
            return Forgotten() if kind is ForgetBroker else Undone()
        return None

    async def _leave_store(self, broker: str) -> None:
        """Its directory says so when a broker has left. One that cannot be told is refused by what the others know."""
        store = store_of(broker)
        if store in self._record.book:
            with contextlib.suppress(LocalError):
                await self._orders.give(store, "leave", timeout_s=ASK_S)

    async def _looked(self, broker: str) -> Looked:
        entry = self._record.book.get(broker)
        leading = await self._leading()
        if entry is None:
            return Looked(leading, None, known=False, begun=False, serving=False, inc=0)
        newcomer = await self._report(broker) if entry.clients else None
        entry = self._record.book.get(broker, entry)
        return Looked(leading, newcomer, True, bool(entry.clients), entry.serving, entry.pid)

    async def _start(self, broker: str, wanted: str) -> Started:
        record, book = self._record, self._record.book
        async with self._launcher.starting:
            node = self._nodes.find(wanted)
            replicas = max(record.config.spares, *(len(book.replicas(other)) for other in book.of("BrokerNode")))
            try:
                node = node or await self._nodes.for_newcomer("")
                await self._launcher.launch_broker(broker, node, replicas, gently=True)
            except Exception as error:
                return Started(str(error) or repr(error))
        return Started()

    async def _introduce(self, broker: str) -> None:
        record = self._record
        async with self._launcher.starting:
            try:
                names = record.book.replicas(broker)
                await self._launcher.introduce(broker, names, record.plan.port(broker))
                self._announcer.serve_when_joined(broker)
            except Exception:
                log.exception("broker %(broker)s does not start as it should: once more", {"broker": broker})
                self._dead(broker)

    async def _drain(self, broker: str) -> BrokerDrained | None:
        pid = self._record.book[broker].pid
        try:
            await self._orders.give(broker, "drain", timeout_s=ASK_S)
        except ActorGone:
            return None
        return BrokerDrained(pid)

    async def _certainly_left(self, broker: str) -> bool:
        """Have the others ask that it be taken out if it is dead, and whether it is out."""
        book, order = self._record.book, self._orders.give
        others = [name for name in book.of("BrokerNode") if name != broker and book[name].clients]
        calls = (order(name, "dismiss", broker, timeout_s=ASK_S) for name in others)
        found = await asyncio.gather(*calls, return_exceptions=True)
        return any(done is True for done in found)

    async def must_return(self, name: str) -> bool:
        """An actor of the broker that leaves has died; whether it must be started again so that it can leave.

        Raises:
            LocalError: that cannot be told now.
        """
        if "." in name:
            return False
        actors = await reports(self._record.book, ASK_S)
        leading = leader(actors)
        if leading is None:
            raise LocalError("no sequencer leads now")
        spared = not quorum_critical(self._record.plan, actors, name)
        return any(type(deed) is Return for deed in self._machine.step(Fell(leading.machine, spared)))

    async def _leading(self) -> SequencerStatus | None:
        found = leader(await reports(self._record.book, ASK_S, "Sequencer"))
        return found.machine if found is not None else None

    async def _report(self, name: str) -> BrokerStatus | None:
        try:
            machine = read_member(await self._record.book[name].handle.call("status", timeout_s=ASK_S)).machine
        except LocalError:
            return None
        return machine if isinstance(machine, BrokerStatus) else None
