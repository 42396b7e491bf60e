"""A broker's store: the one process of its group that touches the disk. Its broker and their replicas dial it.

Write and flush are done in this process's own loop: while a flush blocks, the next group gathers in the sockets (group
commit). A failed one ends the process at once, with nothing answered, and with it the whole group (`durable.md` 6).
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from ...protocol.errors import STORE_LOCKED, LocalError, StoreError
from ...protocol.status.stores import StoreStatus
from ...protocol.store.host import TX, Advance, Cataloged, Commit, Committed, DiskSpace, Overdue, Recovered, Rotten
from ...protocol.store.machine import StoreMachine
from ...protocol.store.news import SLOW_US
from ...store.files import Files
from ...store.identity import unusable
from ...store.shadow_files import system_files
from ..config import StoreConfig, StoreNodeConfig
from .flush_meter import FlushMeter
from .member import MemberActor
from .shell import DiskFailed
from .store_catalog import CatalogWriter, check_catalog, opened
from .store_logs import StoreLogs
from .store_look import StorePlace, look_at, refused_word

if TYPE_CHECKING:
    from ...store.catalog.catalog import Catalog

log = logging.getLogger(__name__)

LOCK_S = 2.0
IDLE_S = 0.25
"""How often it is looked whether a container is to be made ahead, and how much room there is."""


SCRUB_BYTES = 1024 * 1024
SCRUB_S = 0.25
"""A running store's logs are read at so many bytes in this time: 4 MiB a second."""
SCRUB_REST_S = 600.0
"""From one reading of all to the next."""


def read_on(turn: Iterator[int | Rotten]) -> list[Rotten] | None:
    """Read the next `SCRUB_BYTES`; what is rotten, or None when all is read."""
    read, found = 0, list[Rotten]()
    for one in turn:
        if isinstance(one, Rotten):
            found.append(one)
        else:
            read += one
        if read >= SCRUB_BYTES or found:
            return found
    return None


def look_after(logs: StoreLogs) -> tuple[bool, DiskSpace]:
    """What a store does when there is time; returns whether a container was made, of which more may be wanted, and the
    space that is left."""
    logs.joined()
    return logs.make_spare(), logs.space()


class StoreInUse(LocalError):
    """The process that had a store may not be gone yet."""


class StoreRefused(LocalError):
    """A store cannot be used as it is."""


class StoreNode(MemberActor):
    measures = True
    _logs: StoreLogs | None = None
    _looked: tuple[str, int] | None = None
    _idle: asyncio.Task[None] | None = None
    _catalog: CatalogWriter | None = None
    _scrubbing: asyncio.Task[None] | None = None

    def __init__(self, name: str, fenced: bool = False, files: Files | None = None) -> None:
        super().__init__(name, fenced)
        self._meter = FlushMeter()
        self._files = files if files is not None else system_files()

    async def look(self, config: StoreNodeConfig) -> dict[str, Any]:
        """Say what is there (`StoreWord`), also where it is refused. Nothing is locked or changed."""
        self._log_as(config.member)
        place, chosen = StorePlace(config.broker, config.node, config.member.credentials.cluster), config.store
        try:
            word = await asyncio.to_thread(look_at, self._files, chosen, place)
            await asyncio.to_thread(check_catalog, chosen.catalog, word.directory, word.store, chosen.catalog_name)
        except (StoreError, OSError) as found:
            error = unusable(found, chosen.data) if isinstance(found, OSError) else found
            word = refused_word(place, f"{chosen.data}/{config.broker}", error)
        self._looked = (word.store, word.life)
        return msgspec.to_builtins(word)

    async def _opened(self, config: StoreNodeConfig) -> StoreLogs:
        if self._logs is None:
            place = StorePlace(config.broker, config.node, config.member.credentials.cluster)
            self._logs = await asyncio.to_thread(StoreLogs, self._files, config.store, place, self._looked)
        return self._logs

    async def _unlocked(self, config: StoreNodeConfig) -> StoreLogs:
        """Opened; a process that was killed may hold the lock for a moment."""
        until_s = time.monotonic() + LOCK_S
        while True:
            try:
                return await self._opened(config)
            except StoreError as error:
                if error.code != STORE_LOCKED or time.monotonic() > until_s:
                    raise
            await asyncio.sleep(0.05)

    async def start(self, config: StoreNodeConfig) -> dict[str, str]:
        """A life of the store begins: listen.

        Returns:
            ``{"peers": "host:port", "life": number}``: the life of its broker, which is above all earlier ones.

        Raises:
            StoreInUse: another process has its lock.
            StoreRefused: it cannot be used, and why.
        """
        member, chosen = config.member, config.store
        self._log_as(member)
        try:
            logs = await self._unlocked(config)
            cluster = member.credentials.cluster
            life = await asyncio.to_thread(logs.begin, cluster, str(uuid.uuid4()), config.birth)
        except StoreError as error:
            raise (StoreInUse if error.code == STORE_LOCKED else StoreRefused)(error.text) from None
        except OSError as error:
            raise StoreRefused(f"{unusable(error, chosen.data).text} (errno {error.errno})") from None
        catalog = await self._open_catalog(chosen, logs)
        machine = StoreMachine(self.name, member.timing, chosen.gather_bytes, chosen.reserve_bytes)
        deeds = {Commit: self._commit, Advance: self._advance}
        shell = self._run(machine, member, deeds=deeds, alone_frames=0, admits=self._admits)  # type: ignore[arg-type]
        shell.give(Recovered(logs.found, logs.read_us))  # type: ignore[arg-type]
        if catalog is not None:
            self._catalog = self._writer(catalog, logs)
        self._idle = asyncio.get_running_loop().create_task(self._work(logs), name="store's idle time")
        self._scrubbing = asyncio.get_running_loop().create_task(self._scrub(logs), name="store's scrub")
        return await self._open(member) | {"life": str(life)}

    def _admits(self, peer: str) -> bool:
        """Its own group's processes."""
        broker = self.name.partition(".")[0]
        return peer == broker or peer.startswith(f"{broker}.")

    # ---- the catalogue

    async def _open_catalog(self, chosen: StoreConfig, logs: StoreLogs) -> Catalog | None:
        """None where the wiring is kept in the log alone."""
        if not chosen.catalogued:
            return None
        own = logs.directory
        try:
            return await asyncio.to_thread(opened, chosen.catalog, own.folder, own.identity.store, chosen.catalog_name)
        except StoreError as error:
            raise StoreRefused(error.text) from None

    def _writer(self, catalog: Catalog, logs: StoreLogs) -> CatalogWriter:
        loop, shell = asyncio.get_running_loop(), self._running()

        def saved(low: int) -> None:
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(shell.give, Cataloged(low))  # type: ignore[arg-type]

        shell.give(Cataloged(logs.found[TX].base))  # type: ignore[arg-type]
        return CatalogWriter(catalog, saved)

    # ---- effects

    def _commit(self, effect: Commit) -> Committed:
        began_ns = time.monotonic_ns()
        try:
            committed = self._running_logs().commit(effect)
        except OSError as error:
            raise self._failed(error) from error
        ended_ns = time.monotonic_ns()
        self._meter.note(began_ns, ended_ns)
        if (took_us := (ended_ns - began_ns) // 1000) >= SLOW_US:
            committed = msgspec.structs.replace(committed, took_us=took_us)
        if self._catalog is not None:
            for lsn, record in zip(committed.lsns.get(TX, ()), effect.batches.get(TX, ()), strict=True):
                self._catalog.note(*record, lsn)
        return committed

    def _advance(self, effect: Advance) -> None:
        try:
            self._running_logs().advance(effect)
        except OSError as error:
            raise self._failed(error) from error

    def _running_logs(self) -> StoreLogs:
        if self._logs is None:
            raise LocalError(f"{self!r} has not been started yet")
        return self._logs

    def _failed(self, error: OSError) -> DiskFailed:
        return DiskFailed(
            f"{self._running_logs().directory.folder}: {error}: look after the disk (errno {error.errno})"
        )

    async def _scrub(self, logs: StoreLogs) -> None:
        """Read the logs over and over, slowly: rot is found while what it hides is still in memory."""
        turn = iter(logs.scrub())
        while True:
            try:
                found = await asyncio.to_thread(read_on, turn)
            except OSError as error:
                self._running().fail(self._failed(error))
                return
            for one in found or ():
                self._running().give(one)  # type: ignore[arg-type]
            if found is None:
                turn = iter(logs.scrub())
            await asyncio.sleep(SCRUB_S if found is not None else SCRUB_REST_S)

    async def _work(self, logs: StoreLogs) -> None:
        """Containers are made ahead, and the room that is left is told."""
        while True:
            try:
                made, space = await asyncio.to_thread(look_after, logs)
            except OSError as error:
                self._running().fail(self._failed(error))
                return
            self._running().give(space)  # type: ignore[arg-type]
            if self._catalog is not None and self._catalog.lacks_checkpoint(time.monotonic()):
                self._running().give(Overdue())  # type: ignore[arg-type]
            if not made:
                await asyncio.sleep(IDLE_S)

    def _report(self, machine: StoreMachine) -> StoreStatus:
        status = machine.report()
        if self._logs is not None:
            self._logs.describe(status)
        status.flushes_per_s, status.flush_p99_ms = self._meter.figures(time.monotonic_ns())
        if self._catalog is not None:
            status.catalog, status.catalog_index = self._catalog.trouble, self._catalog.index
        return status

    async def places(self, nodes: dict[str, str]) -> None:
        """Keep where brokers are: broker -> host."""
        await asyncio.to_thread(self._running_logs().directory.note_nodes, nodes)

    # ---- the end

    async def leave(self) -> None:
        """Its broker has left the cluster: this store is not to come back."""
        await asyncio.to_thread(self._running_logs().directory.leave)

    async def close(self, shutdown: str) -> None:
        """The whole cluster stops, and its keepers have stopped: the logs end here, and the store is clean."""
        await self._write_down(shutdown)
        await asyncio.to_thread(self._running_logs().close_clean, shutdown)
        log.info("%(member)s is closed clean", {"member": self.name, "shutdown": shutdown})

    async def stop(self) -> None:
        """Close all, and give the lock back. The store stays as it is: dirty, if it was not closed."""
        await super().stop()
        for task in (self._idle, self._scrubbing):
            if task is not None:
                task.cancel()
                await asyncio.wait([task])
        if self._catalog is not None:
            catalog, self._catalog = self._catalog, None
            await asyncio.to_thread(catalog.close)
        if self._logs is not None:
            logs, self._logs = self._logs, None
            await asyncio.to_thread(logs.close)
