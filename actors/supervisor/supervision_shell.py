"""The shell of `../../protocol/supervisor/supervision.py`: hears of deaths, asks which actors live, ends those that
are held for gone.

A call that never returns waits at every actor, so that its death is heard of at once; twice a second the brokers are
asked whether this is the supervisor still, and once the sequencers how they are, one after the other (`Rounds`). The
machine decides which actor is dead, which is to be ended, and whether anything may be done at all. An actor that is to
be replaced waits in `Turns`, for `healer.py`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Callable
from typing import Any

from ...protocol.errors import LocalError
from ...protocol.machine import Tick, store_of
from ...protocol.sequencer.election import LEADING
from ...protocol.status.machines import SequencerStatus
from ...protocol.status.members import read_member
from ...protocol.supervisor.office import Commission
from ...protocol.supervisor.rounds import Rounds
from ...protocol.supervisor.supervision import Supervision
from ...protocol.supervisor.supervision_deeds import (
    Answered,
    Ask,
    Began,
    Confirmed,
    Died,
    Elected,
    End,
    Ended,
    EndRefused,
    Kill,
    Known,
    Launched,
    Led,
    ProcessGone,
    Replace,
    Resign,
    Silent,
    Spared,
    Stand,
    TellEnd,
)
from ...protocol.supervisor.turns import Turns
from ..ray_control.placement import Placement, alive_nodes, current_place
from ..ray_control.ray_handles import ActorDied, ActorGone
from . import management_life, tap_life
from .address_book import broker_of, is_broker
from .orders import Orders
from .reach import Reach
from .record import ClusterRecord
from .tasks import Tasks

log = logging.getLogger(__name__)

LOOK_S, SOON_S = 1.0, 0.1
ASK_S = 2.0
CONFIRM_S = 1.0


class LeftAlone(LocalError):
    """A process is not ended: the cluster does not hold it for gone."""


class SupervisionShell:
    """Attributes:
    unready: actors that began badly: they are ended though the cluster does not hold them for gone.
    """

    def __init__(
        self,
        record: ClusterRecord,
        supervision: Supervision,
        placement: Placement,
        orders: Orders,
        turns: Turns,
        reach: Reach,
        resign: Callable[[str], None],
    ) -> None:
        self.unready: set[str] = set()
        self._record = record
        self._supervision = supervision
        self._placement = placement
        self._orders = orders
        self._turns = turns
        self._reach = reach
        self._resign = resign
        self._minders: dict[str, asyncio.Task[None]] = {}
        self._tasks = Tasks()
        self._rounds = Rounds()
        self._asking: set[str] = set()
        self._polling = False
        self._elected = asyncio.Event()
        self._endings: dict[str, asyncio.Future[None]] = {}
        self._heard: dict[str, str] = {}  # actor -> how it has died, by Ray
        self._seen: dict[str, frozenset[str]] = {}  # broker -> whom it had links to when it was asked last

    def begin(self) -> None:
        self._rounds = Rounds(often_ms=self._supervision.timing.supervisor_round_ms)  # the cluster's, known by now
        self._tasks.spawn(self._look())

    async def elected(self, timeout_s: float) -> None:
        """Wait until a majority of the brokers takes this one for the supervisor.

        Raises:
            LocalError: it does not.
        """
        until = time.monotonic() + timeout_s
        while not self._elected.is_set():
            if self._supervision.resigned or time.monotonic() > until:
                raise LocalError(f"not the supervisor: {self._supervision.resigned or 'nobody answers'}")
            await self._poll()
            await asyncio.sleep(0.1)

    def close(self) -> None:
        for task in self._minders.values():
            task.cancel()
        self._tasks.close()

    # ---- the machine's shell

    def _give(self, input: Any) -> None:
        record = self._record
        if record.stage == "stopped":
            return
        book = record.book
        known = Known({name: entry.inc for name, entry in book.items()}, book.of("BrokerNode"), record.changing())
        for one in (Tick(_now_ms()), known, input):
            for deed in self._supervision.step(one):
                self._carry_out(deed)

    def _carry_out(self, deed: Any) -> None:
        kind = type(deed)
        if kind is Ask:
            self._tasks.spawn(self._poll())
        elif kind is Stand:
            self._tasks.spawn(self._confirm(False))
        elif kind is Elected:
            self._elected.set()
        elif kind is Resign:
            self._resign(deed.reason)
        elif kind is Replace:
            self._tell_loss(deed.name, deed.why)
            self._turns.add(deed.name)
        elif kind is TellEnd:
            self._tasks.spawn(self._tell_end(deed.name, deed.outside))
        elif kind is Kill:
            self._kill(deed.name)
        elif kind is ProcessGone:
            self._finish(deed.name, None)
        elif kind is Spared:
            log.warning("%(member)s is left alone: %(reason)s", {"member": deed.name, "reason": deed.why})
            self._turns.drop(deed.name)
            self._finish(deed.name, LeftAlone(f"{deed.name} is not ended: {deed.why}"))

    def _tell_loss(self, name: str, why: str) -> None:
        entry, heard = self._record.book.get(name), self._heard.pop(name, "")
        if self._record.leaves(name):
            log.info("%(member)s %(reason)s, as its broker leaves", {"member": name, "reason": why})
            return
        host = entry.host if entry is not None else ""
        log.warning(
            "%(member)s %(reason)s: replacing it",
            {"member": name, "reason": why, "ray_says": heard, "member_host": host},
        )

    def _finish(self, name: str, error: Exception | None) -> None:
        waits = self._endings.pop(name, None)
        if waits is None or waits.done():
            return
        if error is None:
            waits.set_result(None)
        else:
            waits.set_exception(error)

    # ---- asking

    async def _look(self) -> None:
        """Ask for confirmation, and find processes that stand still: one after the other, but all at once at first."""
        while True:
            try:
                for name in self._rounds.due(self._asked(), _now_ms(), self._record.book.of("BrokerNode")):
                    if name not in self._asking:
                        self._tasks.spawn(self._ask(name))
                self._give(Tick(_now_ms()))
            except Exception:
                log.exception("looking after the cluster failed")
            await asyncio.sleep(self._rounds.wait_ms(_now_ms()) / 1000)

    async def _ask(self, name: str) -> None:
        self._asking.add(name)
        try:
            if is_broker(name):
                await self._confirm_at(name, self._supervision.elected)
            else:
                await self._watch_one(name)
        except Exception:
            log.exception("asking %(member)s failed", {"member": name})
        finally:
            self._asking.discard(name)

    async def _poll(self) -> None:
        """Ask all at once: something waits for their answers."""
        if self._polling:
            return
        self._polling = True
        try:
            await asyncio.gather(*map(self._ask, self._asked()))
            self._give(Tick(_now_ms()))
        finally:
            self._polling = False

    async def confirmed(self) -> None:
        """Wait until a majority of the brokers has just said that this is the supervisor.

        Raises:
            LocalError: it does not: this may be the one that is cut off.
        """
        until = time.monotonic() + self._supervision.timing.confirmed_ms / 1000
        while True:
            self._give(Tick(_now_ms()))
            if self._supervision.may_act():
                return
            if time.monotonic() > until:
                raise LocalError("no majority of the brokers confirms this supervisor: it does nothing until one does")
            await self._confirm(True)
            await asyncio.sleep(0.05)

    async def _confirm(self, elected: bool) -> None:
        book = self._record.book
        await asyncio.gather(*(self._confirm_at(b, elected) for b in book.of("BrokerNode") if book[b].inc))

    async def _confirm_at(self, broker: str, elected: bool) -> None:
        entry = self._record.book[broker]
        asked_ms, handle = _now_ms(), entry.handle
        try:
            giver = tuple(self._supervision.commission)
            found = await handle.call("confirm", giver, elected, timeout_s=CONFIRM_S)
        except ActorDied as error:
            await self._died(broker, handle.id, error)
            return
        except LocalError:
            self._give(Silent(broker, asked_ms))
            return
        self._reach.heard(entry.node)
        linked = self._seen[broker] = frozenset(found["linked"])
        holder = Commission(*found["holder"])
        self._give(Confirmed(broker, asked_ms, holder, found["settled"], linked, tuple(found["ballot"])))

    def _asked(self) -> list[str]:
        """All that are asked: brokers for confirmation; sequencers, Ownerships, tap, page, replicas without a link to
        their broker how they are: such a replica was given up by its broker, or is about to begin or to end."""
        book = self._record.book
        parted = [n for n in book.replicas() if n not in self._seen.get(broker_of(n), (n,))]
        roles = ("BrokerNode", "Sequencer", "Ownership", tap_life.ROLE, management_life.ROLE)
        return [name for name in [*(n for role in roles for n in book.of(role)), *parted] if book[name].inc]

    async def _watch_one(self, name: str) -> None:
        entry = self._record.book[name]
        asked_ms, handle = _now_ms(), entry.handle
        try:
            answer = await handle.call("status", timeout_s=ASK_S)
        except ActorDied as error:
            await self._died(name, handle.id, error)
            return
        except LocalError:
            self._give(Silent(name, asked_ms))
            return
        self._reach.heard(entry.node)
        self._give(Answered(name))
        status = read_member(answer)
        if isinstance(status.machine, SequencerStatus) and status.machine.role == LEADING:
            term, number = status.machine.ballot
            absent, linked = frozenset(status.machine.absent), frozenset(status.peers or ())
            self._give(Led(asked_ms, (term, number), dict(status.machine.out), absent, linked))

    # ---- hearing of deaths

    def mind(self, name: str) -> None:
        """Hear of the death of this actor."""
        old = self._minders.pop(name, None)
        if old is not None:
            old.cancel()
        self._minders[name] = asyncio.get_running_loop().create_task(self._mind(name), name=f"mind {name}")

    async def _mind(self, name: str) -> None:
        handle = self._record.book[name].handle
        pause_s = SOON_S
        while True:
            try:
                failed = await handle.call("linger", timeout_s=float("inf"))
                if failed:
                    self._disk_failed(broker_of(name), failed)
                raise ActorDied(f"{name} has ended")
            except ActorDied as error:
                await self._died(name, handle.id, error)
                return
            except ActorGone:
                await asyncio.sleep(pause_s)  # it is out of reach, or this process is, or it is ending
                pause_s = LOOK_S
            except Exception as error:
                log.warning("cannot watch %(member)s: %(reason)r", {"member": name, "reason": error})
                return

    def _disk_failed(self, broker: str, why: str) -> None:
        """One of its processes has said so with its last word."""
        record = self._record
        log.critical("broker %(broker)s: %(reason)s", {"broker": broker, "reason": why})
        store = record.book.get(store_of(broker))
        if store is not None:
            record.store_failures.note(broker, store.handle.id, _now_ms(), why)

    async def _died(self, name: str, id: str, how: ActorDied) -> None:
        entry = self._record.book.get(name)
        if entry is None or entry.handle.id != id:
            return
        self._heard[name] = (str(how).splitlines() or [""])[0]
        surely = False
        try:
            surely = entry.node in {node.id for node in await asyncio.to_thread(alive_nodes)}
        except Exception as error:
            log.warning("Ray does not say which nodes live: %(reason)r", {"reason": error})
        # Several hear of one death; while Ray was asked, another process may have taken the place of the dead one.
        entry = self._record.book.get(name)
        if entry is not None and entry.handle.id == id:
            self._give(Died(name, surely))

    def launched(self, name: str) -> None:
        """Another process of this name waits to begin. The machine forgets what became of the last one."""
        self._give(Launched(name))

    def began(self, name: str) -> None:
        """This broker is about to begin."""
        self._give(Began(name))

    def dead(self, name: str) -> None:
        """Replace this actor: it did not begin as it should, whichever links it has."""
        self.unready.add(name)
        self._turns.add(name)

    # ---- ending

    async def end(self, name: str, outside: bool = False) -> None:
        """Make sure that the process is gone, if the cluster holds it for gone as well. A process that stands still
        hears no request to end itself.

        Args:
            outside: it is no member by the cluster's own word: it has left, or it never began.

        Raises:
            LeftAlone: it is not ended, and why.
        """
        minder = self._minders.pop(name, None)
        if minder is not None:
            minder.cancel()
        entry = self._record.book.get(name)
        if entry is None:
            return
        outside = outside or broker_of(name) in self.unready
        waits = self._endings[name] = asyncio.get_running_loop().create_future()
        self._give(End(name, outside))
        try:
            while True:
                done, _ = await asyncio.wait([waits], timeout=0.1)
                if done:
                    waits.result()
                    break
                self._give(Tick(_now_ms()))
            await entry.handle.end()  # a process that ends by itself does so now, and Ray gives its name back
        except BaseException:
            if name in self._record.book:
                self.mind(name)
            raise

    async def _tell_end(self, name: str, outside: bool) -> None:
        entry = self._record.book.get(name)
        if entry is None:
            return
        try:
            why = await self._orders.give_to(entry.handle, "end", outside, timeout_s=ASK_S)
        except ActorDied as error:
            await self._died(name, entry.handle.id, error)
        except LocalError as error:
            log.warning("%(member)s does not end by itself: %(reason)s", {"member": name, "reason": error})
        else:
            self._give(EndRefused(name, why) if why else Ended(name))

    def _kill(self, name: str) -> None:
        entry = self._record.book.get(name)
        if entry is not None:
            entry.handle.kill()
            if entry.pid:
                self._tasks.spawn(self._kill_process(entry.node, entry.pid))

    async def _kill_process(self, node: str, pid: int) -> None:
        """A process that stands still does not hear Ray."""
        if node == current_place()["node"]:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        elif node in {one.id for one in await asyncio.to_thread(alive_nodes)}:
            await asyncio.to_thread(self._placement.kill_process, node, pid)


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
