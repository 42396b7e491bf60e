"""Replaces what dies: the Supervisor's watch over the actors.

A call that never returns waits at every actor, so that its death is heard of at once; every second the brokers are
asked whether this is the supervisor still, and the sequencers how they are. What all that means, who is dead, who is to
be ended and whether anything may be done at all, is decided in `protocol/supervisor/supervision.py`; this is its shell.
What comes in the place of whoever has gone is `replacer.py`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from ...protocol.errors import LocalError
from ...protocol.machine import EVENTS, Tick, is_ownership, is_sequencer
from ...protocol.supervisor.office import Commission
from ...protocol.supervisor.supervision import (
    Answered,
    Ask,
    Began,
    Confirmed,
    Died,
    Elected,
    End,
    Ended,
    Gone,
    Kill,
    Known,
    Launched,
    Led,
    Refused,
    Replace,
    Resign,
    Silent,
    Spared,
    Stand,
    TellEnd,
)
from ...protocol.supervisor.turns import Turns
from ..ray_control.placement import alive_nodes
from ..ray_control.ray_handles import ActorDied, ActorGone
from . import tap_life
from .address_book import broker_of
from .plan import number_of

if TYPE_CHECKING:
    from .supervisor import Supervisor

log = logging.getLogger(__name__)

LOOK_S = 1.0
ASK_S = 2.0
CONFIRM_S = 1.0
CONFIRMED_S = 5.0
"""What needs the brokers' word waits so long for it, and is tried again later."""
AGAIN_S = 1.0
BROKER = "broker"


class LeftAlone(LocalError):
    """A process is not ended: the cluster does not hold it for gone."""


class Healer:
    """Attributes:
    numbers: kind of actor -> how many names of it were given so far.
    turns: who is to be replaced.
    """

    def __init__(self, supervisor: Supervisor) -> None:
        self.numbers: dict[str, int] = {}
        self._supervisor = supervisor
        self._minders: dict[str, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self.turns = Turns()
        self._polling = False
        self._elected = asyncio.Event()
        self._unready: set[str] = set()  # began badly, so nobody has to hold them for gone
        self._endings: dict[str, asyncio.Future[None]] = {}
        self._seen: dict[str, frozenset[str]] = {}  # broker -> whom it had links to when it was asked last

    def begin(self) -> None:
        book = self._supervisor.book
        for name in book:
            self.mind(name)
        for broker in book.of("BrokerNode"):
            if not book[broker].serving:
                self.serve_when_joined(broker)
        self._spawn(self._heal_all())
        self._spawn(self._look())

    async def elected(self, timeout_s: float) -> None:
        """Wait until a majority of the brokers takes this one for the supervisor.

        Raises:
            LocalError: it does not.
        """
        until = time.monotonic() + timeout_s
        while not self._elected.is_set():
            if self._supervisor.supervision.resigned or time.monotonic() > until:
                raise LocalError(f"not the supervisor: {self._supervisor.supervision.resigned or 'nobody answers'}")
            await self._poll()
            await asyncio.sleep(0.1)

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
        """What is being replaced, and why nothing is."""
        leaves = self._supervisor.joiner.leaves
        names = [name for name in self.turns.names() if name != EVENTS and not leaves(name)]
        found = [f"{name} has died and is being replaced" for name in names]
        if self._supervisor.stage_now == "running" and not self._supervisor.supervision.in_office(_now_ms()):
            found.append("no majority of the brokers confirms the supervisor: nothing is replaced until one does")
        return found

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # ---- the machine's shell

    def _give(self, input: Any) -> None:
        supervisor = self._supervisor
        machine = supervisor.supervision
        if supervisor.stage_now == "stopped":
            return
        book = supervisor.book
        known = Known({name: entry.inc for name, entry in book.items()}, book.of("BrokerNode"), supervisor.changing())
        for one in (Tick(_now_ms()), known, input):
            for deed in machine.step(one):
                self._carry_out(deed)

    def _carry_out(self, deed: Any) -> None:
        kind = type(deed)
        if kind is Ask:
            self._spawn(self._poll())
        elif kind is Stand:
            self._spawn(self._confirm(False))
        elif kind is Elected:
            self._elected.set()
        elif kind is Resign:
            self._supervisor.resign(deed.reason)
        elif kind is Replace:
            log.warning("%s %s: replacing it", deed.name, deed.why)
            self.turns.add(deed.name)
        elif kind is TellEnd:
            self._spawn(self._tell_end(deed.name, deed.outside))
        elif kind is Kill:
            self._kill(deed.name)
        elif kind is Gone:
            self._finish(deed.name, None)
        elif kind is Spared:
            log.warning("%s is left alone: %s", deed.name, deed.why)
            self.turns.drop(deed.name)
            self._finish(deed.name, LeftAlone(f"{deed.name} is not ended: {deed.why}"))

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
        """Ask for confirmation, and find processes that stand still."""
        while True:
            try:
                await self._poll()
            except Exception:
                log.exception("looking after the cluster failed")
            await asyncio.sleep(LOOK_S)

    async def _poll(self) -> None:
        if self._polling:
            return
        self._polling = True
        try:
            await asyncio.gather(self._confirm(self._supervisor.supervision.elected), self._watch())
            self._give(Tick(_now_ms()))
        finally:
            self._polling = False

    async def confirmed(self) -> None:
        """Wait until a majority of the brokers has just said that this is the supervisor.

        Raises:
            LocalError: it does not: this may be the one that is cut off.
        """
        until = time.monotonic() + CONFIRMED_S
        while True:
            self._give(Tick(_now_ms()))
            if self._supervisor.supervision.may_act():
                return
            if time.monotonic() > until:
                raise LocalError("no majority of the brokers confirms this supervisor: it does nothing until one does")
            await self._confirm(True)
            await asyncio.sleep(0.05)

    async def _confirm(self, elected: bool) -> None:
        book = self._supervisor.book
        await asyncio.gather(*(self._confirm_at(b, elected) for b in book.of("BrokerNode") if book[b].inc))

    async def _confirm_at(self, broker: str, elected: bool) -> None:
        supervisor = self._supervisor
        asked_ms, handle, node = _now_ms(), supervisor.book[broker].handle, supervisor.book[broker].node
        try:
            giver = tuple(supervisor.supervision.commission)
            found = await handle.call("confirm", giver, elected, timeout_s=CONFIRM_S)
        except ActorDied:
            await self._died(broker, handle.id)
            return
        except LocalError:
            self._give(Silent(broker, asked_ms))
            return
        supervisor.reach.heard(node)
        linked = self._seen[broker] = frozenset(found["linked"])
        holder = Commission(*found["holder"])
        self._give(Confirmed(broker, asked_ms, holder, found["settled"], linked, tuple(found["ballot"])))

    async def _watch(self) -> None:
        """Ask those who are watched how they are: sequencers, Ownership, the tap, and replicas that their broker has no
        link to: it has given them up, or they are about to begin or to end."""
        book = self._supervisor.book
        parted = [n for n in book.replicas() if n not in self._seen.get(broker_of(n), (n,))]
        watched = [*book.of("Sequencer"), *book.of("Ownership"), *book.of(tap_life.ROLE), *parted]
        await asyncio.gather(*(self._watch_one(name) for name in watched if book[name].inc))

    async def _watch_one(self, name: str) -> None:
        entry = self._supervisor.book[name]
        asked_ms, handle = _now_ms(), entry.handle
        try:
            answer = await handle.call("status", timeout_s=ASK_S)
        except ActorDied:
            await self._died(name, handle.id)
            return
        except LocalError:
            self._give(Silent(name, asked_ms))
            return
        self._supervisor.reach.heard(entry.node)
        self._give(Answered(name))
        machine = answer.get("machine", {})
        if machine.get("standing") == "leading":
            absent, linked = frozenset(machine["absent"]), frozenset(answer["peers"])
            self._give(Led(asked_ms, tuple(machine["ballot"]), dict(machine["out"]), absent, linked))

    # ---- hearing of deaths

    def mind(self, name: str) -> None:
        """Hear of the death of this actor."""
        old = self._minders.pop(name, None)
        if old is not None:
            old.cancel()
        self._minders[name] = asyncio.get_running_loop().create_task(self._mind(name), name=f"mind {name}")

    async def _mind(self, name: str) -> None:
        handle = self._supervisor.book[name].handle
        while True:
            try:
                await handle.call("linger", timeout_s=float("inf"))
                raise ActorDied(f"{name} has ended")
            except ActorDied as error:
                log.warning("%s has died: %s", name, str(error).splitlines()[0])
                await self._died(name, handle.id)
                return
            except ActorGone:
                await asyncio.sleep(LOOK_S)  # it is out of reach, or we are: nobody knows
            except Exception as error:
                log.warning("cannot watch %s: %r", name, error)
                return

    async def _died(self, name: str, id: str) -> None:
        entry = self._supervisor.book.get(name)
        if entry is None or entry.handle.id != id:
            return
        surely = False
        try:
            surely = entry.node in {node.id for node in await asyncio.to_thread(alive_nodes)}
        except Exception as error:
            log.warning("Ray does not say which nodes live: %r", error)
        self._give(Died(name, surely))

    def launched(self, name: str) -> None:
        """Another process of this name waits to begin. Said at once: what became of the last one is forgotten then."""
        self._give(Launched(name))

    def began(self, name: str) -> None:
        """This broker is about to begin."""
        self._give(Began(name))

    def dead(self, name: str) -> None:
        """Replace this actor: it did not begin as it should, whoever it is linked to."""
        self._unready.add(name)
        self.turns.add(name)

    # ---- replacing

    async def _heal_all(self) -> None:
        """Whoever waits is replaced, everybody at once whose turn it is. What failed is tried again in the next round,
        between which others may start processes."""
        while True:
            if not self.turns:
                await asyncio.sleep(0.05)
                continue
            async with self._supervisor.starting:
                tried: set[str] = set()
                under_way: set[asyncio.Task[None]] = set()
                while (names := self.turns.take(tried)) or under_way:
                    tried.update(names)
                    under_way.update(self._spawn(self._replace(name)) for name in names)
                    _, under_way = await asyncio.wait(under_way, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)

    async def _replace(self, name: str) -> None:
        try:
            await self.confirmed()
            await self._heal(name)
            self._unready.discard(name)
        except LeftAlone as error:
            self._unready.discard(name)
            log.warning("%s: it is looked at again", error)
            await asyncio.sleep(AGAIN_S)
            if self._supervisor.supervision.gone(name):
                self.turns.add(name)
            elif name in self._supervisor.book.of("BrokerNode"):
                self.serve_when_joined(name)
        except Exception:
            log.exception("%s could not be replaced yet", name)
            await asyncio.sleep(AGAIN_S)
            self.turns.add(name)
        finally:
            self.turns.done(name)

    async def _heal(self, name: str) -> None:
        supervisor = self._supervisor
        joiner, replacer = supervisor.joiner, supervisor.replacer
        if joiner.leaves(name) and not await joiner.must_return(name):
            return
        if is_sequencer(name):
            await replacer.sequencer(name)
        elif is_ownership(name):
            await replacer.ownership(name)
        elif name == EVENTS:
            await replacer.events()
        elif name not in supervisor.book:
            return
        elif "." not in name:
            await replacer.broker(name)
        else:
            await replacer.replica(name)

    def serve_when_joined(self, broker: str) -> None:
        """Tell clients of a broker that has come back when it has rejoined."""
        self._spawn(self._serve_when_joined(broker))

    async def _serve_when_joined(self, broker: str) -> None:
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

    # ---- ending

    async def end(self, name: str, outside: bool = False) -> None:
        """Make sure that the process is gone, if the cluster holds it for gone as well; who stands still hears no
        request to end itself.

        Args:
            outside: it is no member by the cluster's own word: it has left, or it never began.

        Raises:
            LeftAlone: it is not ended, and why.
        """
        minder = self._minders.pop(name, None)
        if minder is not None:
            minder.cancel()
        entry = self._supervisor.book.get(name)
        if entry is None:
            return
        outside = outside or broker_of(name) in self._unready
        waits = self._endings[name] = asyncio.get_running_loop().create_future()
        self._give(End(name, outside))
        try:
            while True:
                done, _ = await asyncio.wait([waits], timeout=0.1)
                if done:
                    waits.result()
                    break
                self._give(Tick(_now_ms()))
            await entry.handle.end(ASK_S)  # who ends by itself does so now, and Ray gives its name back
        except BaseException:
            if name in self._supervisor.book:
                self.mind(name)
            raise

    async def _tell_end(self, name: str, outside: bool) -> None:
        entry = self._supervisor.book.get(name)
        if entry is None:
            return
        try:
            why = await self._supervisor.order_to(entry.handle, "end", outside, timeout_s=ASK_S)
        except ActorDied:
            await self._died(name, entry.handle.id)
        except LocalError as error:
            log.warning("%s does not end by itself: %s", name, error)
        else:
            self._give(Refused(name, why) if why else Ended(name))

    def _kill(self, name: str) -> None:
        entry = self._supervisor.book.get(name)
        if entry is not None:
            entry.handle.kill()
            if entry.pid:
                self._spawn(self._kill_process(entry.node, entry.pid))

    async def _kill_process(self, node: str, pid: int) -> None:
        """One that stands still does not hear Ray."""
        if node == (await self._supervisor.place())["node"]:
            try:
                os.kill(pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        elif node in {one.id for one in await asyncio.to_thread(alive_nodes)}:
            await asyncio.to_thread(self._supervisor.placement.kill_process, node, pid)


def _now_ms() -> int:
    return int(time.monotonic() * 1000)
