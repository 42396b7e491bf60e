"""`make bench-recovery`: how long after a kill the next message is complete, and the next one is delivered.

A sender sends one message after another, each confirmed, and a receiver takes them, in processes of their own. Then
something is killed, without warning (SIGKILL), and the clock runs until a message *sent after the kill* is confirmed,
and until one is delivered. What is killed is started again, and made whole, before the next kill.

A client whose broker is gone goes to the next one at once, and so does a client that has waited `TRY_S`; all systems
alike. Manta's client may find another broker by itself; then it has nothing left to do here.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import json
import logging
import multiprocessing
import random
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from .killing import SYSTEMS, VICTIMS, Killable
from .results import LATEST, Collection, Figure, write

RESULTS = LATEST.with_name("recovery.json")
STAMP = struct.Struct("!d")
KILLS = 20
BETWEEN_S = 0.005
TRY_S = 2.0
FLOWING_S = 0.5
LIMIT_S = 60.0
WHOLE_S = 120.0
COMPLETION, DELIVERY = "kill_to_completion_ms", "kill_to_delivery_ms"


# ---- the clients


def serve(role: str, module: str, pipe: Pipe) -> None:
    """A client process: told `(addresses, index)` it uses that broker; tells `(sent, known)`, two monotonic times."""
    logging.disable(logging.CRITICAL)  # what the clients say of servers that are killed on purpose
    asyncio.run(_Worker(role, importlib.import_module(module), pipe).run())


class _Worker:
    def __init__(self, role: str, module: Any, pipe: Pipe) -> None:
        self._make = module.Sender if role == "sender" else module.Receiver
        self._once = self._send if role == "sender" else self._receive
        self._pipe = pipe
        self._door: Any = None
        self._addresses: list[str] = []
        self._at = 0

    async def run(self) -> None:
        while True:
            if self._pipe.poll():
                told = self._pipe.recv()
                if told is None:
                    await self._leave()
                    return
                self._addresses, self._at = told
                await self._leave()
            if self._addresses:
                await self._once()
            else:
                await asyncio.sleep(BETWEEN_S)

    async def _send(self) -> None:
        """One message, until it is confirmed."""
        sent = time.monotonic()
        while not self._pipe.poll():
            door = await self._enter()
            try:
                if door is not None:
                    await asyncio.wait_for(door.send(STAMP.pack(sent)), TRY_S)
                    self._pipe.send((sent, time.monotonic()))
                    await asyncio.sleep(BETWEEN_S)
                    return
            except Exception:
                await self._next()

    async def _receive(self) -> None:
        door = await self._enter()
        try:
            if door is not None:
                body = await asyncio.wait_for(door.receive(), TRY_S)
                self._pipe.send((STAMP.unpack(body)[0], time.monotonic()))
        except Exception:
            await self._next()

    async def _enter(self) -> Any:
        if self._door is None:
            door = self._make()
            try:
                await asyncio.wait_for(door.open(self._addresses[self._at % len(self._addresses)]), TRY_S)
            except Exception:
                await self._next()
                return None
            self._door = door
        return self._door

    async def _next(self) -> None:
        await self._leave()
        self._at += 1
        await asyncio.sleep(0.01)

    async def _leave(self) -> None:
        door, self._door = self._door, None
        if door is not None:
            try:
                await asyncio.wait_for(door.close(), 0.5)
            except Exception:
                pass


class Pair:
    """A sender and a receiver, in processes of their own."""

    def __init__(self, module: str) -> None:
        spawn = multiprocessing.get_context("spawn")
        self._pipes: list[Pipe] = []
        self._processes: list[Any] = []
        for role in ("sender", "receiver"):
            mine, theirs = spawn.Pipe()
            process = spawn.Process(target=serve, args=(role, module, theirs), daemon=True)
            process.start()
            self._pipes.append(mine)
            self._processes.append(process)

    def use(self, addresses: list[str], sender: int, receiver: int) -> None:
        """Connect to these brokers, and wait until messages flow through them.

        Raises:
            RuntimeError: they do not.
        """
        began = time.monotonic()
        for pipe, index in zip(self._pipes, (sender, receiver), strict=True):
            pipe.send((list(addresses), index))
        self.after(began)
        self.after(time.monotonic() + FLOWING_S)

    def after(self, moment: float) -> tuple[float, float]:
        """When a message sent after `moment` was first confirmed, and first delivered.

        Raises:
            RuntimeError: neither within the limit.
        """
        found: list[float] = []
        until = max(moment, time.monotonic()) + LIMIT_S
        for pipe, what in zip(self._pipes, ("confirmed", "delivered"), strict=True):
            while True:
                if not pipe.poll(max(0.0, until - time.monotonic())):
                    raise RuntimeError(f"no message was {what} for {LIMIT_S:g} s")
                sent, known = pipe.recv()
                if sent > moment:
                    found.append(known)
                    break
        return found[0], found[1]

    def stop(self) -> None:
        for pipe in self._pipes:
            try:
                pipe.send(None)
            except OSError:
                pass
        for process in self._processes:
            process.join(2)
            process.kill()
            process.join()


# ---- the kills


def measure(
    name: str, system: Killable, kills: int, chance: random.Random, into: Collection, say: Callable[[str], None]
) -> None:
    """Kill each victim `kills` times.

    Raises:
        RuntimeError: the system did not come back.
    """
    pair = Pair(system.module)
    try:
        for number in range(kills):
            for victim in VICTIMS:
                system.until_whole(WHOLE_S)
                sender, receiver = system.places()
                pair.use(system.addresses, sender, receiver)
                time.sleep(chance.uniform(0, 0.2))  # anywhere in a heartbeat
                killed, who = system.kill(victim, sender, receiver)
                completed, delivered = pair.after(killed)
                into.add(name, victim, COMPLETION, "ms", (completed - killed) * 1e3)
                into.add(name, victim, DELIVERY, "ms", (delivered - killed) * 1e3)
                say(
                    f"{name}: kill {number + 1} of the {victim} ({who}): completed after "
                    f"{(completed - killed) * 1e3:.0f} ms, delivered after {(delivered - killed) * 1e3:.0f} ms"
                )
        system.until_whole(WHOLE_S)
    finally:
        pair.stop()


def show(console: Console, figures: list[Figure], missing: dict[str, str]) -> None:
    table = Table(title="From the kill to the next message sent after it")
    table.add_column("killed")
    table.add_column("system")
    for title in ("completed p50", "max", "delivered p50", "max", "kills"):
        table.add_column(title, justify="right")
    found = {(f.workload, f.system, f.metric): f for f in figures}
    for victim in VICTIMS:
        for system in SYSTEMS:
            done, got = found.get((victim, system, COMPLETION)), found.get((victim, system, DELIVERY))
            if done is not None and got is not None:
                times = (f"{value:,.0f} ms" for value in (done.median, done.max, got.median, got.max))
                table.add_row(victim, system, *times, str(done.rounds))
    console.print(table)
    for system, why in missing.items():
        console.print(f"{system}: {why}", markup=False)


def main() -> int:
    """Exit code 1 when a system that is here could not be measured to the end."""
    parser = argparse.ArgumentParser(prog="make bench-recovery", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=KILLS, help="of each victim, in each system")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="with commas")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", default=str(RESULTS), help="where the figures go")
    parser.add_argument("--json", action="store_true", help="figures as JSON instead of the table")
    arguments = parser.parse_args()
    console = Console(stderr=arguments.json)
    into, missing, failed = Collection(), dict[str, str](), False
    with console.status("recovery") as status:

        def say(text: str) -> None:
            status.update(text)
            if not console.is_terminal:
                console.print(text, markup=False)

        for name in arguments.systems.split(","):
            start, lacks = SYSTEMS[name]
            if why := lacks():
                missing[name] = f"not measured, {why}"
                continue
            say(f"{name}: starting")
            try:
                with start() as system:
                    measure(name, system, arguments.kills, random.Random(arguments.seed), into, say)
            except RuntimeError as error:
                missing[name] = f"not measured to the end: {error}"
                failed = True
    figures = into.figures()
    write(figures, Path(arguments.out))
    if arguments.json:
        print(json.dumps([asdict(figure) for figure in figures]))
    else:
        show(Console(width=120 if not console.is_terminal else None), figures, missing)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
