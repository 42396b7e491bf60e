"""The base of a cluster's actors: one shell, a way to ask how it is, and two ways to end.

Ordinary classes: `ray_control/placement.py` alone makes them Ray actors. Started without Ray they are just as alive.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from collections.abc import Iterable
from typing import Any

from ...protocol.errors import LocalError
from ...protocol.machine import Members, Stop, Stopped, Yield, Yielded
from ...protocol.status.members import KIND_OF_ROLE, AnyMember, MemberStatus
from ...protocol.supervisor.office import Commission, Office
from ..config import MemberConfig
from ..process_logs import set_up
from . import ending
from .memory import Gauge, keep_freed_memory
from .shell import DiskFailed, Machine, Retired, Shell

log = logging.getLogger(__name__)

SWITCH_S = 0.0005
"""A thread that works beside the loop (it reads a log, or saves the catalogue) gives the interpreter back so soon: a
flush gives it away and wants it back several times, and ten times as long each time would show."""
LAST_S = 0.2
"""The answer of a process that ends itself has this long to leave."""
ORDERS = frozenset(
    {
        *("start", "meet", "part", "members", "places", "remember"),
        *("drain", "dismiss", "leave", "end", "give_back", "close", "hush", "stop"),
    }
)
"""The orders that a supervisor may give a member, by its number only: see `MemberActor.obey`."""


class Superseded(LocalError):
    """The order of a supervisor that is one no more."""


class MemberActor:
    """Base of the actors. `measures`: its memory counts for its broker's watermark.

    Args:
        name: the peer name.
        fenced: leave this process when its parent dies. For Ray actors: a raylet that is killed may leave its workers
            behind, and they must not go on serving.
    """

    measures = False

    def __init__(self, name: str, fenced: bool = False) -> None:
        self.name = name
        self.shell: Shell | None = None
        self.addresses: dict[str, str] = {}
        self.office = Office()
        self._fenced = fenced
        self._ending = asyncio.Event()
        self._watchers = 0  # calls of `linger`: this actor can end in one of them
        self._exits = False
        self._disk_failure = ""
        self._yielded, self._stopped = asyncio.Event(), asyncio.Event()
        self._left: asyncio.TimerHandle | None = None
        if fenced:
            ending.fence(os.getppid(), name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"

    def _log_as(self, config: MemberConfig, token: str = "") -> None:
        """Write this process's log as the cluster does. `token`: a secret that is not to be in it."""
        if self._fenced:
            set_up(config.logs, self.name, [token])

    def _run(self, machine: Machine, config: MemberConfig, token: str = "", **options: Any) -> Shell:
        """Make the shell; call from the event loop."""
        if self.shell is not None:
            raise LocalError(f"{self!r} has been started already")
        self._log_as(config, token)
        # What importing Ray left behind never dies: the collector need not walk it while messages wait.
        gc.collect()
        gc.freeze()
        keep_freed_memory()
        sys.setswitchinterval(SWITCH_S)
        self.office.timing = config.timing
        machine.office = self.office  # type: ignore[attr-defined]
        ends = {Yielded: lambda effect: self._yielded.set(), Stopped: lambda effect: self._stopped.set()}
        options["deeds"] = ends | options.get("deeds", {})
        self.shell = Shell(
            machine, config.credentials, timing=config.timing, limits=config.limits, on_failure=self._broke, **options
        )
        if self._fenced and self.measures and (config.limits.memory_bytes or config.limits.memory_share):
            gauge = Gauge(config.limits.memory_bytes, config.limits.memory_share)
            asyncio.get_running_loop().call_later(gauge.pause_s, self._measure, self.shell, gauge)
        return self.shell

    def _measure(self, shell: Shell, gauge: Gauge) -> None:
        """Tell the machine how much memory this process has: again and again, until the process ends."""
        shell.give(gauge.measure())
        asyncio.get_running_loop().call_later(gauge.pause_s, self._measure, shell, gauge)

    def _broke(self, error: BaseException) -> None:
        """The shell has stopped for good. Of a disk the supervisor is to know why."""
        if isinstance(error, DiskFailed):
            self._disk_failure = str(error)
            self._ending.set()
        if self._fenced:
            self._exit(error)

    def _exit(self, error: BaseException) -> None:
        """End this process, which has said its last word. Where its part is over, in good order."""
        if isinstance(error, Retired) and self._watchers:
            ending.at_the_latest(70)
            self._exits = True
            self._ending.set()
        else:
            ending.leave(error)

    async def _open(self, config: MemberConfig, **listening: str) -> dict[str, str]:
        """Listen for peers, and dial those that are there; returns the addresses, with those that listen already."""
        self.addresses = {"peers": await self._running().listen_peers(config.bind), **listening}
        log.info(
            "%(member)s has started",
            {"member": self.name, "pid": os.getpid(), "inc": config.inc, "address": self.addresses["peers"]},
        )
        await self.meet(config.peers)
        return self.addresses

    def _running(self) -> Shell:
        if self.shell is None:
            raise LocalError(f"{self!r} has not been started yet")
        return self.shell

    async def pid(self) -> int:
        return os.getpid()

    async def place(self) -> dict[str, Any]:
        """Where this runs: Ray node id, pid, kind of event loop."""
        from ..ray_control.placement import current_place

        return current_place() | {"loop": type(asyncio.get_running_loop()).__module__}

    async def linger(self) -> str:
        """Returns when this actor is about to end: a caller hears of that, and of its death, at once.

        Returns:
            Why its disk has failed, if that is the reason; "" else.
        """
        self._watchers += 1
        try:
            await self._ending.wait()
        finally:
            self._watchers -= 1
        if self._exits:
            ending.quit()  # whoever waits hears of it when this actor is gone, and not before
        return self._disk_failure

    async def quit(self) -> None:
        """End this process in a way that Ray does not take for a death. The caller hears that this actor is gone."""
        self._exits = True
        self._ending.set()  # Ray waits for every call under way
        ending.quit()

    async def obey(self, giver: tuple[int, str, str], method: str, *args: Any) -> Any:
        """Carry out an order, one of `ORDERS`, of the supervisor with this number, id and name.

        Raises:
            Superseded: another supervises by now, and nothing was done.
        """
        if method not in ORDERS:
            raise LocalError(f"{method} is no order: there are {', '.join(sorted(ORDERS))}")
        if not self.office.admits(Commission(*giver)):
            number, _, name = self.office.holder
            raise Superseded(
                f"{self.name} takes orders of {name or 'the supervisor'}, number {number}, and not of number {giver[0]}"
            )
        return await getattr(self, method)(*args)

    async def end(self, outside: bool = False) -> str:
        """End this process, and say "" then; else why not: it is needed.

        Args:
            outside: it is no member any more, by the cluster's own word.
        """
        why = self._needed(outside)
        if not why:
            asyncio.get_running_loop().call_later(LAST_S, self._leave)
        return why

    def _needed(self, outside: bool) -> str:
        """Why this process may not end, whatever a supervisor that was cut off believes of it."""
        return ""

    def _leave(self) -> None:
        if self._fenced:
            self._exit(Retired("this process was asked to end"))
        elif self.shell is not None:
            asyncio.get_running_loop().create_task(self.shell.stop())

    async def meet(self, peers: dict[str, str]) -> None:
        """Dial peers: name to "host:port"; a new address replaces an old one."""
        for name, address in peers.items():
            self._running().dial(name, address)

    async def part(self, names: list[str]) -> None:
        """Dial these no more."""
        for name in names:
            self._running().part(name)

    async def until_linked(self, names: Iterable[str], timeout_s: float) -> list[str]:
        """Wait for links to all `names`; returns the missing ones at the time limit."""
        return await self._running().until_up(names, timeout_s)

    async def members(self, addresses: dict[str, str]) -> None:
        """Tell the machine the brokers' client addresses."""
        self._running().give(Members(addresses))

    async def status(self) -> dict[str, Any]:
        """What this actor says of itself, as plain values: whoever asks may be of another version."""
        return self.report().plain()

    def report(self) -> AnyMember:
        role = type(self).__name__
        status = KIND_OF_ROLE.get(role, MemberStatus)(name=self.name, role=role, pid=os.getpid())
        if self.shell is not None:
            status = status.linked(self.shell.report())
            status.machine = self._report(self.shell.machine)
        return status

    def _report(self, machine: Any) -> Any:
        """The machine's report of itself."""
        return machine.report()

    async def give_back(self) -> None:
        """The cluster is to stop, and still runs: send clients away, and give back what they hold. Returns when that is
        done; at once where nothing is kept on disk."""
        stored = getattr(self._running().machine, "stored", False)
        if stored and not self._stopped.is_set():  # else an earlier stop has closed this, and nothing is held here
            self._yielded.clear()
            self._running().give(Yield())
            await self._yielded.wait()

    async def close(self, shutdown: str) -> None:
        """The cluster stops: write down what is in memory, and say nothing more. Returns when it is on disk; at once
        where nothing is kept there. `shutdown`: id of this stop."""
        if getattr(self._running().machine, "stored", False):
            await self._write_down(shutdown)

    async def _write_down(self, shutdown: str) -> None:
        self._running().give(Stop(shutdown))
        await self._stopped.wait()
        self._await_end()

    def _await_end(self) -> None:
        """Who stops the cluster is going to end this process; if nobody does, it ends by itself."""
        if self._left is not None:
            self._left.cancel()
        stop_s = self.office.timing.stop_ms / 1000
        self._left = asyncio.get_running_loop().call_later(stop_s, self._left_over)

    def _left_over(self) -> None:
        """Who stops the cluster has ended in the middle of it. This process has said its last word: only another one in
        its place can go on."""
        log.warning("%(member)s: the stop of the cluster has come to nothing: this process ends", {"member": self.name})
        self._leave()

    async def hush(self) -> None:
        """The cluster stops: whatever is seen of that is no news."""
        if self._fenced:
            self._await_end()
        if self.shell is not None:
            self.shell.hush()

    async def stop(self) -> None:
        """Close all links and listeners. The process lives on until it is ended, or nobody is left who would do so."""
        if self._fenced:
            self._await_end()
        elif self._left is not None:
            self._left.cancel()
        if self.shell is not None:
            await self.shell.stop()
