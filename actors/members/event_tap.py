"""The tap: keeps the event table. Brokers and queue replicas dial it, and do not wait for it.

Its newest rows are Arrow blocks in Ray's object store, the older ones parts in a directory. When it dies, the next one
goes on behind the last part: what was told since is still with those who told it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from ...protocol.capture.event_table import NOTES, Row
from ...protocol.capture.newest_rows import NewestRows
from ...protocol.capture.tap import TapMachine
from ...protocol.errors import LocalError
from ...protocol.machine import Kept
from ...protocol.status.machines import TapStatus
from ...store.events.event_folders import forget_folders, own_folder
from ...store.events.event_parts import EventWriter, WriterLimits
from ..config import TapConfig
from .member import MemberActor

log = logging.getLogger(__name__)

TAKE_S = 0.1
FORGET_S = 600.0
AGAIN_S = 5.0
LEFT_S = 2.0
WAITING_ROWS = 500_000
"""At this number of rows that cannot be written no more are taken: members drop facts they cannot keep, and count."""


class EventTap(MemberActor):
    _writer: EventWriter | None = None
    _task: asyncio.Task[None] | None = None
    _error = ""
    _waiting_rows = WAITING_ROWS

    async def start(self, config: TapConfig) -> dict[str, str]:
        """Listen, and go on where the parts in the cluster's folder end.

        Returns:
            ``{"peers": "host:port"}``.

        Raises:
            LocalError: nothing can be written there.
        """
        events = self._events = config.events
        self._limits = WriterLimits(keep_s=events.keep_s, keep_bytes=events.keep_bytes)
        try:
            folder = await asyncio.to_thread(own_folder, config.folder)
            self._writer = await asyncio.to_thread(EventWriter, folder, self._limits, _put)
        except (OSError, ImportError) as error:
            raise LocalError(f"events cannot be kept in {events.directory}: {error}; give another --events") from None
        self._lock = asyncio.Lock()
        self._few_facts = config.member.limits.facts_kept // 2
        self._newest = NewestRows()
        told = {stream: place for stream, place in self._writer.resume.items() if not stream.startswith(NOTES)}
        self._machine = TapMachine(told, config.member.timing)
        self._run(self._machine, config.member)
        await self._open(config.member)
        self._task = asyncio.get_running_loop().create_task(self._work(), name="event tap")
        return self.addresses

    async def tail(self) -> tuple[str, int, int, list[Any]]:
        """The newest rows: see `event_table.Tail`."""
        if self._writer is None:
            raise LocalError(f"{self!r} has not been started yet")
        async with self._lock:
            self._take(self._writer)
            tail = await asyncio.to_thread(self._writer.tail)
            return tail.directory, tail.row_first, tail.row_last, tail.blocks

    async def newest(self, kinds: list[str], queue: str, count: int) -> list[dict[str, Any]]:
        """The newest rows since this tap began, the newest first: see `NewestRows.find`."""
        if self._writer is None:
            raise LocalError(f"{self!r} has not been started yet")
        return self._newest.find(kinds, queue, count)

    async def note(self, stream: str, first: int, rows: list[list[Any]]) -> int:
        """Take rows that no member tells of; what has been taken is passed over. While nothing can be written, none
        are taken.

        Args:
            stream: of these rows, in which they have places.
            first: the place of the first of them.
            rows: the columns of each.

        Returns:
            The place up to which the stream's rows are on disk.
        """
        if self._writer is None:
            raise LocalError(f"{self!r} has not been started yet")
        async with self._lock:
            if self._writer.waiting < self._waiting_rows:
                for place, row in enumerate(rows, first):
                    self._append(self._writer, stream, place, [Row(*row)])
            return self._writer.written.get(stream, 0)

    async def roll(self) -> int:
        """Write all rows that wait now; returns the number of the last row that is in a part."""
        if self._writer is None:
            raise LocalError(f"{self!r} has not been started yet")
        async with self._lock:
            self._take(self._writer)
            await asyncio.to_thread(self._writer.roll)
            self._told_kept(self._writer)
            return self._writer.next_row - 1

    def _take(self, writer: EventWriter) -> bool:
        made, self._machine.rows = self._machine.rows, []
        for stream, upto, rows in made:
            self._append(writer, stream, upto, rows)
        return bool(made)

    def _append(self, writer: EventWriter, stream: str, upto: int, rows: list[Row]) -> None:
        number = writer.next_row
        writer.append(stream, upto, rows)
        if writer.next_row > number:
            self._newest.add(number, rows)

    def _told_kept(self, writer: EventWriter) -> None:
        self._running().give(Kept(dict(writer.written)))

    async def _work(self) -> None:
        forgot = 0.0
        while True:
            await asyncio.sleep(TAKE_S)
            writer = self._writer
            assert writer is not None
            try:
                async with self._lock:
                    if writer.waiting < self._waiting_rows and self._take(writer):
                        self._running().give(Kept({}))
                    now_us = time.time_ns() // 1000
                    part = await asyncio.to_thread(writer.work, now_us)
                    if part is None and self._machine.unwritten > self._few_facts:
                        part = await asyncio.to_thread(writer.roll)
                    if part is not None:
                        self._told_kept(writer)
                    if time.monotonic() - forgot > FORGET_S:
                        forgot = time.monotonic()
                        where = self._events.directory, writer.directory
                        await asyncio.to_thread(forget_folders, *where, self._limits, now_us)
                if self._error:
                    log.info(
                        "%(member)s keeps events in %(directory)s again",
                        {"member": self.name, "directory": writer.directory},
                    )
                self._error = ""
            except Exception as error:
                if self._error != str(error):
                    log.exception(
                        "%(member)s cannot keep events in %(directory)s",
                        {"member": self.name, "directory": writer.directory},
                    )
                self._error = str(error)
                await asyncio.sleep(AGAIN_S)

    def _report(self, machine: TapMachine) -> TapStatus:
        status = machine.report()
        if self._writer is not None:
            status.directory, status.error = self._writer.directory, self._error
            status.rows, status.unwritten = self._writer.next_row - 1, self._writer.waiting
        return status

    async def stop(self) -> None:
        """Take what is still on its way, write it, and close."""
        shell, writer = self.shell, self._writer
        if shell is not None and writer is not None and self._task is not None:
            until = time.monotonic() + LEFT_S
            while shell.links and time.monotonic() < until:
                await asyncio.sleep(0.01)
            self._task.cancel()
            async with self._lock:
                self._take(writer)
                try:
                    await asyncio.to_thread(writer.roll)
                except Exception as error:
                    log.warning(
                        "%(member)s could not write the last events: %(reason)s",
                        {"member": self.name, "reason": error},
                    )
        await super().stop()


def _put(block: bytes) -> Any:
    import ray

    return ray.put(block)
