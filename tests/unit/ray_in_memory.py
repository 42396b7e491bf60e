"""A Ray that never ran: actors are objects of this process and loop, with real sockets between them; nodes are names.

What a supervisor starts on it is a real cluster. An actor dies as a process does: its links break, and whoever has a
call under way at it hears that it has died.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from mantamq.actors.config import LogConfig
from mantamq.actors.members.broker_node import BrokerNode
from mantamq.actors.members.member import MemberActor
from mantamq.actors.members.store_node import StoreNode
from mantamq.actors.ray_control import placement
from mantamq.actors.ray_control.placement import is_supervisor
from mantamq.actors.ray_control.ray_handles import CALL_S, ActorDied, ActorGone
from mantamq.actors.supervisor import cluster_start, nodes, rebalancer, store_survey, supervision_shell, supervisor
from mantamq.actors.supervisor.supervisor import Supervisor
from mantamq.protocol.supervisor.layout import Node

LAST_WORD_S = 0.02
NODES = [Node(f"n{number}", "127.0.0.1", {}) for number in (1, 2, 3)]


class MadeUpHandle:
    """As `Handle`.

    Attributes:
        dead: set when the process has gone.
        stands_still: calls have no answer.
    """

    def __init__(self, ray: RayInMemory, name: str, actor: Any, node: str) -> None:
        self.ray, self.name, self.actor, self.node = ray, name, actor, node
        self.id = f"{len(ray.all):032x}"
        self.dead = asyncio.Event()
        self.stands_still = False

    async def call(self, method: str, *args: Any, timeout_s: float = CALL_S) -> Any:
        if self.dead.is_set():
            raise ActorDied(f"{self.name} is dead")
        self.ray.calls.append((self.name, method, args))
        answer = self.ray.spawn(self._answer(method, *args))  # it goes on when nobody waits for it any more
        if args[1:2] == ("start",) and not self.stands_still:
            self.ray.starts.add(answer)
            answer.add_done_callback(self.ray.starts.discard)
        died = asyncio.ensure_future(self.dead.wait())
        limit_s = None if timeout_s == float("inf") else timeout_s
        try:
            await asyncio.wait([answer, died], timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if answer.done() and not answer.cancelled():
                return answer.result()
            raise (
                ActorDied(f"{self.name} is dead") if died.done() else ActorGone(f"{self.name} did not answer {method}")
            )
        finally:
            died.cancel()

    async def _answer(self, method: str, *args: Any) -> Any:
        if self.stands_still:
            await asyncio.sleep(3600)
        if method == "place":
            return {"node": self.node, "pid": int(self.id, 16) + 1_000_000_000, "loop": "asyncio"}
        if args[1:2] != ("start",):
            return await getattr(self.actor, method)(*args)
        try:
            return await getattr(self.actor, method)(*args)
        finally:
            if self.actor.shell is not None:
                self.actor.shell._on_failure = self._failed
            if self.dead.is_set():  # while it started: what it has begun goes with it, or it would dial for ever
                self.ray.forget(self)

    def _failed(self, error: BaseException) -> None:
        """Its last word leaves, as in the time that a process has for it."""
        self.actor._broke(error)
        self.ray.loop.call_later(LAST_WORD_S, self.kill)

    def tell(self, method: str, *args: Any) -> None:
        """From any thread."""
        asyncio.run_coroutine_threadsafe(self.call(method, *args), self.ray.loop)

    def kill(self) -> None:
        if not self.dead.is_set():
            self.dead.set()
            self.ray.forget(self)

    async def end(self, timeout_s: float = 0.0) -> bool:
        was_there = not self.dead.is_set()
        self.kill()
        return was_there


class RayInMemory:
    """As `Placement`.

    Attributes:
        named: the actors that are there, by name.
        all: all there ever were.
        calls: (name, method, arguments) of all calls.
        silent: nodes that run nothing that is given to them.
        fails: names of actors that do not start.
        starts: those that are under way.
    """

    namespace = "made up"
    logs = LogConfig()

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.named: dict[str, MadeUpHandle] = {}
        self.all: list[MadeUpHandle] = []
        self.calls: list[tuple[str, str, tuple[Any, ...]]] = []
        self.silent: set[str] = set()
        self.fails: set[str] = set()
        self.starts: set[asyncio.Task[Any]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._stopping: set[asyncio.Task[Any]] = set()

    def actor(self, cls: type, name: str, node: str, *args: Any) -> MadeUpHandle:
        if name in self.named:
            raise ValueError(f"{name} is there already")
        fenced: tuple[Any, ...] = args[:-1]  # an object of this process has no parent to end with
        handle = MadeUpHandle(self, name, cls(name, *fenced), node)
        if isinstance(handle.actor, MemberActor):
            handle.actor._leave = handle.kill  # pyright: ignore[reportAttributeAccessIssue]
        self.named[name] = handle
        self.all.append(handle)
        return handle

    async def verify(self, handle: MadeUpHandle, node: str, timeout_s: float) -> dict[str, Any]:
        if handle.name in self.fails:
            raise ActorGone(f"{handle.name} does not start")
        return await handle.call("place", timeout_s=timeout_s)

    def find(self, name: str) -> MadeUpHandle | None:
        return self.named.get(name)

    def supervisor(self) -> MadeUpHandle | None:
        return next((handle for name, handle in self.named.items() if is_supervisor(name)), None)

    def names(self) -> list[str]:
        return list(self.named)

    def sweep(self) -> list[str]:
        left = [name for name in self.named if not is_supervisor(name)]
        for name in left:
            self.named[name].kill()
        return left

    def answering(self, nodes: list[str], timeout_s: float) -> set[str]:
        return set(nodes) - self.silent

    def ask_nodes(self, nodes: list[str], question: Any, *args: Any, timeout_s: float) -> dict[str, Any]:
        return {node: question(*args) for node in nodes if node not in self.silent}

    def kill_process(self, node: str, pid: int) -> None: ...

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def forget(self, handle: MadeUpHandle) -> None:
        if self.named.get(handle.name) is handle:
            del self.named[handle.name]
        actor = handle.actor
        if isinstance(actor, Supervisor):
            actor._close()
        if isinstance(actor, BrokerNode) and actor._watch is not None:
            actor._watch.close()
        if isinstance(actor, StoreNode):
            self._stopping.add(self.spawn(actor.stop()))  # with the process its lock is gone
        elif isinstance(actor, MemberActor) and actor.shell is not None:
            self._stopping.add(self.spawn(actor.shell.stop()))

    async def gone(self) -> None:
        """When everything has ended: also what an actor begins that was starting, and which no process takes along."""
        for handle in list(self.named.values()):
            handle.kill()
        for task in self._tasks - self.starts - self._stopping:
            task.cancel()
        await asyncio.gather(*self.starts, return_exceptions=True)
        await asyncio.gather(*self._stopping)


@contextmanager
def nodes_in_memory() -> Iterator[None]:
    """Ray's nodes are `NODES`, and everything asks from the first."""

    def alive() -> list[Node]:
        return NODES

    def here() -> dict[str, Any]:
        return {"node": NODES[0].id, "pid": os.getpid()}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nodes.Nodes.__init__, "__defaults__", (alive,))
        patch.setattr(rebalancer, "_carriers", lambda: (NODES, []))
        patch.setattr(placement, "current_place", here)
        for module in (cluster_start, store_survey, supervision_shell, supervisor):
            patch.setattr(module, "alive_nodes", alive)
        for module in (cluster_start, supervision_shell, supervisor):
            patch.setattr(module, "current_place", here)
        yield
