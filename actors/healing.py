"""Replaces what dies: the Supervisor's watch over the actors.

A call that never returns waits at every actor, so that its death is heard of at once and nothing is polled; where Ray
is slow to notice (a machine that is gone, a process that stands still), the leading sequencer's word counts: whom it
has evicted is ended and replaced. A broker and its replicas end together and come back blank, under a new incarnation;
the sequencer is replaced by a new standby; Ownership and single replicas come back alone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from ..protocol.effects import EVENTS, OWNERSHIP, SEQUENCER, is_sequencer
from . import tapping
from .book import broker_of, fresh
from .broker_actor import BrokerNode
from .ownership_actor import Ownership
from .placement import Node, alive_nodes, broker_nodes
from .ray_handles import ActorGone
from .replica_actor import QueueReplica
from .sequencer_actor import Sequencer

if TYPE_CHECKING:
    from .supervisor import Supervisor

log = logging.getLogger(__name__)

LOOK_S = 1.0
ASK_S = 2.0
VERIFY_S = 30.0
AGAIN_S = 1.0
ENROL_S = 10.0
"""How long a broker that was started again may take until the sequencer knows it."""
STILL_S = 4.0
"""A sequencer, Ownership or the tap that answers nothing for so long is ended and replaced."""


class Healer:
    """Attributes:
    numbers: kind of actor -> how many names of it were given so far.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self.numbers: dict[str, int] = {}
        self._supervisor = supervisor
        self._minders: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._dead: dict[str, None] = {}
        self._healing = ""
        self._silent_since: dict[str, float] = {}
        self._replaced: dict[str, float] = {}

    def begin(self) -> None:
        for name in self._supervisor.book:
            self.mind(name)
        self._spawn(self._heal_all())
        self._spawn(self._look())

    def close(self) -> None:
        for task in [*self._minders.values(), *self._tasks]:
            task.cancel()

    def number(self, kind: str) -> int:
        """A number no actor of this kind (a broker's replicas, the sequencers) has had."""
        taken = [int(name.rsplit("r", 1)[-1] or 1) for name in self._supervisor.book.replicas(kind)]
        used = max([self.numbers.get(kind, -1), *taken])
        self.numbers[kind] = used + 1
        return used + 1

    def under_way(self) -> list[str]:
        """What is being replaced."""
        names = [*self._dead, *([self._healing] if self._healing else [])]
        return [f"{name} has died and is being replaced" for name in dict.fromkeys(names) if name != EVENTS]

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # ---- hearing of deaths

    def mind(self, name: str) -> None:
        """Hear of the death of this actor."""
        old = self._minders.pop(name, None)
        if old is not None:
            old.cancel()
        self._minders[name] = asyncio.get_running_loop().create_task(self._mind(name), name=f"mind {name}")

    async def _mind(self, name: str) -> None:
        entry = self._supervisor.book[name]
        try:
            await entry.handle.call("linger", timeout_s=float("inf"))
        except ActorGone as error:
            if self._supervisor.book.get(name) is not None:
                log.warning("%s has died: %s", name, str(error).splitlines()[0])
                self._dead[name] = None
        except Exception as error:
            log.warning("cannot watch %s: %r", name, error)

    async def _look(self) -> None:
        """Ask the sequencers whom they have evicted; find processes that stand still."""
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self._look_once()
            except Exception:
                log.exception("looking after the cluster failed")

    async def _look_once(self) -> None:
        book = self._supervisor.book
        watched = [*book.of("Sequencer"), *book.of("Ownership"), *book.of(tapping.ROLE)]
        answers = await asyncio.gather(
            *(book[name].handle.call("status", timeout_s=ASK_S) for name in watched), return_exceptions=True
        )
        now = time.monotonic()
        for name, answer in zip(watched, answers, strict=True):
            if isinstance(answer, BaseException):
                since = self._silent_since.setdefault(name, now)
                if now - since > STILL_S and name in book and name not in self._dead:
                    log.warning("%s stands still: ending it", name)
                    await self._end(name)
                    self._dead[name] = None
                continue
            self._silent_since.pop(name, None)
            machine = answer.get("machine", {})
            if machine.get("standing") == "leading":
                for broker in machine["absent"]:
                    if broker not in book or not book[broker].pid or broker in self._dead or self._fresh(broker):
                        continue  # it is being replaced, or its successor has not enrolled yet
                    log.warning("%s was evicted: ending it", broker)
                    self._dead[broker] = None

    def _fresh(self, broker: str) -> bool:
        return broker == self._healing or time.monotonic() - self._replaced.get(broker, -ENROL_S) < ENROL_S

    # ---- replacing

    async def _heal_all(self) -> None:
        while True:
            if not self._dead:
                await asyncio.sleep(0.05)
                continue
            # What the most depends on comes first.
            name = min(self._dead, key=lambda n: (n == EVENTS, not is_sequencer(n), n != OWNERSHIP, "." in n))
            del self._dead[name]
            self._healing = name
            try:
                async with self._supervisor.starting:
                    await self._heal(name)
            except Exception:
                log.exception("%s could not be replaced yet", name)
                await asyncio.sleep(AGAIN_S)
                self._dead[name] = None
            self._healing = ""

    async def _heal(self, name: str) -> None:
        book = self._supervisor.book
        if is_sequencer(name):
            await self._heal_sequencer(name)
        elif name == OWNERSHIP:
            await self._heal_ownership()
        elif name == EVENTS:
            await self._heal_events()
        elif "." not in name:
            await self._heal_broker(name)
        elif name in book:
            await self._heal_replica(name)

    async def _heal_sequencer(self, dead: str) -> None:
        """A new standby, on another node than the sequencer that is left if there is one."""
        supervisor, book = self._supervisor, self._supervisor.book
        await self._end(dead)
        book.pop(dead, None)
        others = [book[name].node for name in book.of("Sequencer")]
        nodes = broker_nodes(alive_nodes())
        node = next((n for n in nodes if n.id not in others), nodes[0])
        taken = [int(name[len(SEQUENCER) :] or 1) for name in [dead, *book.of("Sequencer")]]
        number = self.numbers[SEQUENCER] = max([self.numbers.get(SEQUENCER, 2), *taken]) + 1
        name = f"{SEQUENCER}{number}"
        supervisor.new(Sequencer, name, node)
        try:
            await supervisor.verify(name, VERIFY_S)
            await supervisor.start_actor(name, fresh(), supervisor.plan.members, False)
        except BaseException:
            book.pop(name).handle.kill()
            raise
        self.mind(name)
        await self._tell([n for n in book if not is_sequencer(n)], "meet", {name: book[name].peers})
        await self._tell([n for n in book if not is_sequencer(n)], "part", [dead])
        await supervisor.tell_members()

    async def _heal_ownership(self) -> None:
        supervisor, book = self._supervisor, self._supervisor.book
        node = self._node_for(book[OWNERSHIP].node)
        await self._end(OWNERSHIP)
        supervisor.new(Ownership, OWNERSHIP, node)
        await supervisor.verify(OWNERSHIP, VERIFY_S)
        await supervisor.start_ownership()
        self.mind(OWNERSHIP)
        await self._tell(book.replicas(), "meet", {OWNERSHIP: book[OWNERSHIP].peers})
        await supervisor.tell_members()

    async def _heal_events(self) -> None:
        """On the node where it was, if that is alive: its parts may be there."""
        supervisor, book = self._supervisor, self._supervisor.book
        node = self._node_for(book[EVENTS].node)
        await self._end(EVENTS)
        tapping.launch(supervisor, node)
        await supervisor.verify(EVENTS, VERIFY_S)
        await tapping.start(supervisor)
        self.mind(EVENTS)
        await self._tell([*book.of("BrokerNode"), *book.replicas()], "meet", {EVENTS: book[EVENTS].peers})
        await supervisor.tell_members()

    async def _heal_replica(self, name: str) -> None:
        supervisor, book = self._supervisor, self._supervisor.book
        broker = broker_of(name)
        await self._end(name)
        book.pop(name, None)
        await self._tell([n for n in book.replicas() if broker_of(n) != broker], "part", [name])
        if broker in book and broker not in self._dead and len(book.replicas(broker)) < supervisor.plan.spares + 1:
            await supervisor.add_replica(broker)
        await supervisor.tell_members()

    async def _heal_broker(self, broker: str) -> None:
        """The broker and its replicas begin again, blank."""
        supervisor, book = self._supervisor, self._supervisor.book
        old = book[broker]
        replicas = book.replicas(broker)
        book.change(broker, serving=False, pid=0)
        await supervisor.tell_members()
        await asyncio.gather(*(self._end(name) for name in [broker, *replicas]))
        for name in replicas:
            book.pop(name, None)
            self._dead.pop(name, None)
        fellows = book.replicas()
        await self._tell(fellows, "part", replicas)
        node = self._node_for(old.node)
        names = [f"{broker}.r{self.number(broker)}" for _ in range(supervisor.plan.spares)]
        supervisor.new(BrokerNode, broker, node)
        for name in names:
            supervisor.new(QueueReplica, name, node)
        try:
            await asyncio.gather(*(supervisor.verify(name, VERIFY_S) for name in [broker, *names]))
            port = int(old.clients.rsplit(":", 1)[1]) if old.clients and node.host == old.host else 0
            await supervisor.start_broker(broker, port, blank=True)
            for name in names:
                await supervisor.start_replica(name)
        except BaseException:
            for name in names:
                book.pop(name).handle.kill()
            raise
        self._replaced[broker] = time.monotonic()
        for name in [broker, *names]:
            self.mind(name)
        self._spawn(self._serve_when_joined(broker))

    async def _serve_when_joined(self, broker: str) -> None:
        """Clients are told of a broker that has come back when it has rejoined."""
        supervisor = self._supervisor
        entry = supervisor.book[broker]
        while supervisor.book.get(broker) is not None and supervisor.book[broker].pid == entry.pid:
            try:
                report = await entry.handle.call("status", timeout_s=ASK_S)
                if not report["machine"]["blank"]:
                    supervisor.book.change(broker, serving=True)
                    await supervisor.tell_members()
                    return
            except ActorGone:
                pass
            await asyncio.sleep(0.1)

    async def _tell(self, names: list[str], method: str, argument: Any) -> None:
        book = self._supervisor.book
        calls = (book[name].handle.call(method, argument, timeout_s=ASK_S) for name in names if book[name].pid)
        await asyncio.gather(*calls, return_exceptions=True)

    def _node_for(self, before: str) -> Node:
        """The node it was on, if that is alive; else the one with the fewest brokers."""
        nodes = broker_nodes(alive_nodes())
        same = [node for node in nodes if node.id == before]
        if same:
            return same[0]
        entries = self._supervisor.book.values()
        return min(nodes, key=lambda node: sum(e.node == node.id and e.role == "BrokerNode" for e in entries))

    async def _end(self, name: str) -> None:
        """Make sure that the process is gone: one that stands still hears no request to end itself."""
        minder = self._minders.pop(name, None)
        if minder is not None:
            minder.cancel()
        entry = self._supervisor.book.get(name)
        if entry is None:
            return
        entry.handle.kill()
        if entry.pid and entry.node == (await self._supervisor.place())["node"]:
            try:
                os.kill(entry.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        elif entry.pid:
            await asyncio.to_thread(self._supervisor.placement.kill_process, entry.node, entry.pid)
