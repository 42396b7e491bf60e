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
from .book import broker_of, fresh, number_of
from .broker_actor import BrokerNode
from .ownership_actor import Ownership
from .placement import Node, alive_nodes, broker_nodes
from .ray_handles import ActorGone
from .replica_actor import QueueReplica
from .sequencer_actor import Sequencer
from .spreading import best, by_turns, emptiest

if TYPE_CHECKING:
    from .supervisor import Supervisor

log = logging.getLogger(__name__)

LOOK_S = 1.0
ASK_S = 2.0
VERIFY_S = 30.0
AGAIN_S = 1.0
ENROL_S = 10.0
"""How long a broker that was started again may take until the sequencer knows it."""
BROKER = "broker"
STILL_S = 4.0
"""A sequencer, Ownership, the tap, or a replica that its broker has given up, which answers nothing for so long is
ended and replaced."""


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
        book = self._supervisor.book
        for name in book:
            self.mind(name)
        for broker in book.of("BrokerNode"):
            if not book[broker].serving:
                self._spawn(self._serve_when_joined(broker))
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

    def new_broker(self) -> str:
        """A broker's name that was never used."""
        supervisor = self._supervisor
        numbers = [number_of(name) for name in (*supervisor.plan.members, *supervisor.book.of("BrokerNode"))]
        used = self.numbers[BROKER] = max([self.numbers.get(BROKER, 0), *numbers]) + 1
        return f"b{used}"

    def under_way(self) -> list[str]:
        """What is being replaced."""
        leaves = self._supervisor.joiner.leaves
        names = [name for name in [*self._dead, *([self._healing] if self._healing else [])] if not leaves(name)]
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
            raise ActorGone(f"{name} has ended")
        except ActorGone as error:
            if self._supervisor.book.get(name) is not None:
                log.warning("%s has died: %s", name, str(error).splitlines()[0])
                self._dead[name] = None
        except Exception as error:
            log.warning("cannot watch %s: %r", name, error)

    def dead(self, name: str) -> None:
        """Replace this actor."""
        self._dead[name] = None

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
        watched = [*book.of("Sequencer"), *book.of("Ownership"), *book.of(tapping.ROLE), *await self._parted()]
        answers = await asyncio.gather(
            *(book[name].handle.call("status", timeout_s=ASK_S) for name in watched), return_exceptions=True
        )
        now = time.monotonic()
        self._silent_since = {name: at for name, at in self._silent_since.items() if name in watched}
        for name, answer in zip(watched, answers, strict=True):
            if isinstance(answer, BaseException):
                since = self._silent_since.setdefault(name, now)
                if now - since > STILL_S and name in book and name not in self._dead:
                    log.warning("%s stands still: ending it", name)
                    await self.end(name)
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

    async def _parted(self) -> list[str]:
        """Queue replicas without a link to their broker: it has given them up, or they are about to begin or to end."""
        book = self._supervisor.book
        brokers = book.of("BrokerNode")
        calls = (book[name].handle.call("status", timeout_s=ASK_S) for name in brokers if book[name].pid)
        answers = await asyncio.gather(*calls, return_exceptions=True)
        known = [answer for answer in answers if isinstance(answer, dict) and "machine" in answer]
        linked = {name for answer in known for name in answer["machine"]["replicas"]}
        able = {answer["name"] for answer in known}
        return [n for n in book.replicas() if broker_of(n) in able and n not in linked and book[n].pid]

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
        book, joiner = self._supervisor.book, self._supervisor.joiner
        if joiner.leaves(name) and not await joiner.must_return(name):
            return
        if is_sequencer(name):
            await self._heal_sequencer(name)
        elif name == OWNERSHIP:
            await self._heal_ownership()
        elif name == EVENTS:
            await self._heal_events()
        elif name not in book:
            return
        elif "." not in name:
            await self._heal_broker(name)
        else:
            await self._heal_replica(name)

    async def _heal_sequencer(self, dead: str) -> None:
        """A new standby, on another host than the sequencer that is left if there is one."""
        supervisor, book = self._supervisor, self._supervisor.book
        await self.end(dead)
        book.pop(dead, None)
        others = [book[name].host for name in book.of("Sequencer")]
        node = best(by_turns(broker_nodes(alive_nodes())), others)
        taken = [int(name[len(SEQUENCER) :] or 1) for name in [dead, *book.of("Sequencer")]]
        number = self.numbers[SEQUENCER] = max([self.numbers.get(SEQUENCER, 2), *taken]) + 1
        name = f"{SEQUENCER}{number}"
        supervisor.new(Sequencer, name, node)
        try:
            await supervisor.verify(name, VERIFY_S)
            await supervisor.start_actor(name, fresh(), list(supervisor.plan.members), False)
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
        await self.end(OWNERSHIP)
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
        await self.end(EVENTS)
        tapping.launch(supervisor, node)
        await supervisor.verify(EVENTS, VERIFY_S)
        await tapping.start(supervisor)
        self.mind(EVENTS)
        await self._tell([*book.of("BrokerNode"), *book.replicas()], "meet", {EVENTS: book[EVENTS].peers})
        await supervisor.tell_members()

    async def _heal_replica(self, name: str) -> None:
        supervisor, book = self._supervisor, self._supervisor.book
        broker = broker_of(name)
        await self.end(name)
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
        await asyncio.gather(*(self.end(name) for name in [broker, *replicas]))
        for name in replicas:
            book.pop(name, None)
            self._dead.pop(name, None)
        await self._tell(book.replicas(), "part", replicas)
        node = self._node_for(old.node)
        port = int(old.clients.rsplit(":", 1)[1]) if old.clients and node.host == old.host else 0
        names = await self.launch(broker, node, max(supervisor.plan.spares, len(replicas)))
        try:
            await self.introduce(broker, names, port)
        except BaseException:
            for name in names:
                book.pop(name).handle.kill()
            raise
        self._replaced[broker] = time.monotonic()

    async def launch(self, broker: str, node: Node, replicas: int, gently: bool = False) -> list[str]:
        """The processes of a broker that is to come in blank; returns the names of its replicas.

        Args:
            replicas: how many there are to be.
            gently: one after the other. Each takes a core while it starts, and those that serve need it as well.

        Raises:
            LocalError: one did not start. The replicas are gone then.
        """
        supervisor = self._supervisor
        names = [f"{broker}.r{self.number(broker)}" for _ in range(replicas)]
        try:
            for name in [broker, *names]:
                supervisor.new(QueueReplica if name in names else BrokerNode, name, node)
                if gently:
                    await supervisor.verify(name, VERIFY_S)
            if not gently:
                await asyncio.gather(*(supervisor.verify(name, VERIFY_S) for name in [broker, *names]))
        except BaseException:
            for name in names:
                if name in supervisor.book:
                    supervisor.book.pop(name).handle.kill()
            raise
        return names

    async def introduce(self, broker: str, names: list[str], port: int) -> None:
        """Let a broker and its replicas begin, blank: they dial the others.

        The broker goes last: with the wiring it learns of all queues at once, and the first replica would get them all.
        """
        supervisor, handle = self._supervisor, self._supervisor.book[broker].handle
        await supervisor.start_broker(broker, port, blank=True, peers={})
        for name in names:
            await supervisor.start_replica(name)
        await handle.call("until_linked", names, ASK_S)
        await handle.call("meet", supervisor.book.peers_of_broker())
        for name in [broker, *names]:
            self.mind(name)
        self._spawn(self._serve_when_joined(broker))

    async def forget(self, broker: str) -> None:
        """End a broker and its replicas for good."""
        book = self._supervisor.book
        names = book.group(broker)
        replicas = book.replicas(broker)
        await asyncio.gather(*(self.end(name, gently=True) for name in names))
        for name in names:
            book.pop(name, None)
            self._dead.pop(name, None)
        await self._tell(book.replicas(), "part", replicas)

    async def _serve_when_joined(self, broker: str) -> None:
        """Clients are told of a broker that has come back when it has rejoined."""
        supervisor = self._supervisor
        entry = supervisor.book[broker]
        while supervisor.book.get(broker) is not None and supervisor.book[broker].pid == entry.pid:
            try:
                report = await entry.handle.call("status", timeout_s=ASK_S)
                if not report.get("machine", {}).get("blank", True) and not supervisor.joiner.leaves(broker):
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
        return same[0] if same else self.emptiest(nodes)

    def emptiest(self, nodes: list[Node]) -> Node:
        """The node for one more broker (`spreading.emptiest`)."""
        entries = self._supervisor.book.values()
        return emptiest(nodes, [(e.node, e.host) for e in entries if e.role == "BrokerNode"])

    async def end(self, name: str, gently: bool = False) -> None:
        """Make sure that the process is gone: one that stands still hears no request to end itself.

        Args:
            gently: let it end itself if it can: nothing is wrong with it, it is not needed any more.
        """
        minder = self._minders.pop(name, None)
        if minder is not None:
            minder.cancel()
        entry = self._supervisor.book.get(name)
        if entry is None:
            return
        if gently and await entry.handle.end(ASK_S):
            return
        entry.handle.kill()
        if entry.pid and entry.node == (await self._supervisor.place())["node"]:
            try:
                os.kill(entry.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        elif entry.pid:
            await asyncio.to_thread(self._supervisor.placement.kill_process, entry.node, entry.pid)
