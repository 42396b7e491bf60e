"""Brokers join and leave a running cluster: the Supervisor's part. What is safe is decided in `protocol/`.

    add:     processes start -> they dial everybody -> wiring -> clients are told -> queue after queue comes up to date
    remove:  clients are told -> drain -> the others take its votes, stream by stream -> its processes end -> forgotten

One change at a time, but a newcomer may be removed again before it has everything. A change is told to every broker
before anything is done, and each step may be done twice, so whatever Supervisor comes next finishes what this one did
not. A broker that dies in the middle is healed like any other and goes on from there, unless the others can let it go
without it. Only a newcomer that never ran is undone.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ..protocol.errors import LocalError
from ..protocol.placing import Node
from .book import broker_of
from .health import leader, quorum_critical
from .placement import alive_nodes
from .ray_handles import ActorGone
from .roster import JOIN, LEAVE, Change, Stage, joined, left, may_leave

if TYPE_CHECKING:
    from .supervisor import Supervisor

log = logging.getLogger(__name__)

LOOK_S = 0.2
ASK_S = 2.0
AGAIN_S = 1.0
ENDED_KEPT = 32
"""Changes that are over and whose end can still be asked for."""


class Undone(LocalError):
    """A change that came to nothing: the cluster is as it was."""


class Joiner:
    """Attributes:
    change: what is under way.
    ended: request -> (broker, what went wrong or ""), the latest ones.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self.change: Change | None = None
        self.ended: dict[str, tuple[str, str]] = {}
        self._supervisor = supervisor
        self._stage = Stage("")
        self._lost = False  # who leaves has died, and the others see to it that it is out
        self._task: asyncio.Task[None] | None = None

    # ---- asked for

    async def add(self, request: str, node: str) -> None:
        """Begin to add a broker. Asked again under the same `request` it does nothing.

        Args:
            node: id (or how it begins) or address of a Ray node; "" for the one with the fewest brokers.

        Raises:
            LocalError: why not.
        """
        if self._known(request):
            return
        self._refuse_another()
        supervisor = self._supervisor
        where = await self._place_for(node)
        self._refuse_another()  # somebody may have been quicker
        broker = supervisor.healer.new_broker()
        self._stage = Stage("its processes start")
        self.change = Change(request, JOIN, broker, where.id)
        supervisor.plan = supervisor.plan.joined_by(broker)
        await self._begin()

    async def remove(self, request: str, broker: str) -> None:
        """Begin to remove a broker. Asked again under the same `request` it does nothing.

        Raises:
            LocalError: why not.
        """
        if self._known(request):
            return
        supervisor = self._supervisor
        self._refuse_another(broker)
        reasons = may_leave(supervisor.plan, await supervisor.actors(ASK_S), broker)
        if reasons:
            raise LocalError("; ".join(reasons))
        self._refuse_another(broker)  # somebody may have been quicker
        if self.change is not None and self._task is not None:
            self._task.cancel()
            self._end(self.change, "it was removed before it had everything")
        self._stage = Stage("its clients are told")
        self.change = Change(request, LEAVE, broker)
        await self._begin()

    def progress(self, request: str) -> dict[str, Any]:
        """How far a change is: "broker", "ended", "error", "stage", "done", "total"; empty: it was never heard of."""
        if request in self.ended:
            broker, error = self.ended[request]
            return {"broker": broker, "ended": True, "error": error, "stage": "", "done": 0, "total": 0}
        change, stage = self.change, self._stage
        if change is None or change.request != request:
            return {}
        return {
            "broker": change.broker, "ended": False, "error": "",
            "stage": stage.text, "done": stage.done, "total": stage.total,
        }  # fmt: skip

    def under_way(self) -> list[str]:
        if self.change is None:
            return []
        stage = self._stage
        count = f" ({stage.done} of {stage.total})" if stage.total else ""
        return [f"{self.change}: {stage.text}{count}"]

    def leaves(self, name: str) -> bool:
        """Whether this is an actor of a broker that leaves."""
        change = self.change
        return change is not None and change.kind == LEAVE and change.broker == broker_of(name)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _known(self, request: str) -> bool:
        return request in self.ended or (self.change is not None and self.change.request == request)

    def _refuse_another(self, leaver: str = "") -> None:
        """While a change is under way; but a newcomer whose processes run may be removed again."""
        supervisor, change = self._supervisor, self.change
        if supervisor.stage_now != "running":
            raise LocalError(f"the cluster is {supervisor.stage_now}: its members do not change now")
        entry = supervisor.book.get(leaver)
        undoes = change is not None and (change.kind, change.broker) == (JOIN, leaver) and entry and entry.clients
        if change is not None and not undoes:
            raise LocalError(f"{self.under_way()[0]}: members change one at a time, ask again when that is done")

    async def _place_for(self, wanted: str) -> Node:
        """A Ray node by its name; "" for the one with the fewest brokers among those that answer."""
        if wanted:
            return self.node_named(wanted)
        replacer = self._supervisor.replacer
        return replacer.emptiest(await replacer.answering())

    def node_named(self, wanted: str) -> Node:
        """An alive Ray node by its id, how that begins, or its address.

        Raises:
            LocalError: there is none, or several.
        """
        nodes = alive_nodes()
        found = [node for node in nodes if node.host == wanted or node.id.startswith(wanted)]
        if len(found) == 1:
            return found[0]
        there = ", ".join(f"{node.id[:12]} at {node.host}" for node in found or nodes)
        raise LocalError(f"{'several' if found else 'no'} Ray nodes are called {wanted!r}: name one of {there}")

    # ---- carried out

    def resume(self, change: Change | None, ended: dict[str, tuple[str, str]]) -> None:
        """Go on with what another Supervisor began."""
        self.change, self.ended = change, dict(ended)
        if change is not None:
            self._stage = Stage("a new supervisor goes on with it")
            log.warning("going on: %s", change)
            self._spawn(change)

    async def _begin(self) -> None:
        change = self.change
        assert change is not None
        await self._supervisor.tell_members()
        self._spawn(change)

    def _spawn(self, change: Change) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(change), name=str(change))

    async def _run(self, change: Change) -> None:
        error = ""
        while True:
            try:
                await (self._join(change) if change.kind == JOIN else self._leave(change))
                break
            except Undone as failure:
                error = str(failure)
                break
            except Exception:
                log.exception("%s: not yet", change)
                await asyncio.sleep(AGAIN_S)
        self._end(change, error)
        await self._supervisor.tell_members()

    def _end(self, change: Change, error: str) -> None:
        self.change = None
        self.ended[change.request] = (change.broker, error)
        while len(self.ended) > ENDED_KEPT:
            del self.ended[next(iter(self.ended))]

    async def _join(self, change: Change) -> None:
        supervisor, broker = self._supervisor, change.broker
        if broker not in supervisor.book:
            async with supervisor.starting:
                await self._start(change)
        while True:
            entry = supervisor.book.get(broker)
            newcomer = await self._machine(broker) if entry is not None and entry.clients else None
            done, self._stage = joined(await self._leading(), newcomer, broker)
            if done and supervisor.book[broker].serving:
                return
            await asyncio.sleep(LOOK_S)

    async def _start(self, change: Change) -> None:
        """Raises Undone when the processes do not start; then nothing is left of them."""
        supervisor, broker = self._supervisor, change.broker
        healer, replacer = supervisor.healer, supervisor.replacer
        node = next((node for node in alive_nodes() if node.id == change.node), None)
        book = supervisor.book
        replicas = max(supervisor.plan.spares, *(len(book.replicas(other)) for other in book.of("BrokerNode")))
        try:
            names = await replacer.launch(broker, node or await self._place_for(""), replicas, gently=True)
        except Exception as error:
            for name in supervisor.book.group(broker):
                await healer.end(name, outside=True)
                supervisor.book.pop(name)
            supervisor.plan = supervisor.plan.left_by(broker)
            raise Undone(f"broker {broker} did not start, and the cluster is as it was: {error}") from error
        # From here on it may have a vote, and the next Supervisor must know its processes.
        await supervisor.tell_members()
        try:
            await replacer.introduce(broker, names, supervisor.plan.port(broker))
        except Exception:
            log.exception("broker %s does not start as it should: once more", broker)
            healer.dead(broker)

    async def _leave(self, change: Change) -> None:
        supervisor, broker = self._supervisor, change.broker
        self._lost = False
        drained = 0
        while True:
            out, self._stage = left(await self._leading(), broker)
            # A sequencer that was paused may say so of one that has joined since: the one that leads is asked in order.
            if (out or self._lost) and await self._certainly_left(broker):
                break
            entry = supervisor.book.get(broker)
            if entry is not None and entry.serving:
                supervisor.book.change(broker, serving=False)
                await supervisor.tell_members()  # so that its clients know where else to go before they must
            if not self._lost and entry is not None and entry.clients and entry.pid not in (0, drained):
                try:
                    await supervisor.order(broker, "drain", timeout_s=ASK_S)
                    drained = entry.pid
                except ActorGone:
                    pass
            await asyncio.sleep(LOOK_S)
        async with supervisor.starting:
            await supervisor.replacer.forget(broker)
            supervisor.plan = supervisor.plan.left_by(broker)

    async def _certainly_left(self, broker: str) -> bool:
        """Have the others ask that it be taken out if it is dead, and whether it is out."""
        book, order = self._supervisor.book, self._supervisor.order
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
        supervisor = self._supervisor
        actors = await supervisor.actors(ASK_S)
        leading = leader(actors)
        if leading is None:
            raise LocalError("no sequencer leads now")
        if left(leading["machine"], name)[0]:
            return False
        # The others cannot even agree that it is gone, when they are no majority without it.
        self._lost = not quorum_critical(supervisor.plan, actors, name)
        return not self._lost

    async def _leading(self) -> dict[str, Any] | None:
        found = leader(await self._supervisor.actors(ASK_S, "Sequencer"))
        return found["machine"] if found is not None else None

    async def _machine(self, name: str) -> dict[str, Any] | None:
        try:
            return (await self._supervisor.book[name].handle.call("status", timeout_s=ASK_S)).get("machine")
        except LocalError:
            return None
