"""The two logs of a broker's store on their disk: what the effects of its machine come to. Blocks; knows no loop.

    open: lock -> store.json -> both logs recovered
    begin: a life begins, the store is dirty, a new one gets its logs

Nothing of this happens before it is decided that the store is used (`store_look.py`). A new one is *joining* until it
has caught up, or, where a cluster begins with it, *founding* until the first record: a start that came to nothing
before that leaves stores that count as empty. Any other that has a life and no logs has lost them, and is refused.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator

from ...protocol.errors import STORE_LOCKED, StoreError
from ...protocol.status.stores import StoreStatus
from ...protocol.store.host import TX, Advance, Commit, Committed, DiskSpace, FoundLog, Rotten
from ...protocol.store.index import LogIndex
from ...protocol.wire.events import CLUSTER
from ...store.files import Files
from ...store.identity import StoreDirectory, StoreState, open_store
from ...store.log.aside import copy_aside
from ...store.log.containers import container_name, container_numbers
from ...store.log.log import Log
from ...store.log.recovery import open_log
from ...store.log.scrub import scrub
from ..config import StoreConfig
from .store_look import LOGS, StorePlace, check_is_empty, damage_in_words, has_log, indexed, made

logger = logging.getLogger(__name__)

ASIDE = "aside"
"""The folder for copies of damaged containers, one below it for each log."""


class StoreLogs:
    """A store's directory, locked, and its logs.

    Attributes:
        found: log -> how it was found; none in a new store before `begin`.
        read_us: how long it took to read both.
    """

    def __init__(
        self, files: Files, chosen: StoreConfig, place: StorePlace, looked: tuple[str, int] | None = None
    ) -> None:
        """Lock it, and recover its logs.

        Args:
            looked: id and last life that it had when it was decided to use it; None: nobody has looked.

        Raises:
            StoreError: see `open_store` and `open_log`. `store-locked`: another process has used it since it was looked
                at.
            OSError: of the disk.
        """
        self._files = files
        self._chosen = chosen
        self._place = place
        self._logs: dict[str, Log] = {}
        self._saying = threading.Lock()  # of what `store.json` says
        self._founding = False
        self._times: dict[str, dict[int, int]] = {name: {} for name in LOGS}  # container -> of its first record, us
        self.found: dict[str, FoundLog] = {}
        self.read_us = 0
        self.directory: StoreDirectory = open_store(files, chosen.data, place.broker, cluster=place.cluster)
        try:
            own = self.directory.identity
            if looked is not None and looked != (own.store, own.life):
                text = f"{self.directory.folder} was used by another process since it was looked at: start again"
                raise StoreError(STORE_LOCKED, text)
            if not own.counts_as_empty and (own.status is not StoreState.JOINING or made(files, self.directory.folder)):
                self._open()
        except BaseException:
            self.close()
            raise

    def _folder(self, log: str) -> str:
        return f"{self.directory.folder}/{log}"

    def _open(self) -> None:
        began_ns = time.monotonic_ns()
        for name in LOGS:
            log, found = open_log(self._files, self._folder(name))
            self._logs[name] = log
            index = LogIndex()
            for record in indexed(found, index):
                self._times[name].setdefault(record.lsn // log.container_bytes, record.time_us)
            base = log.base // log.container_bytes * log.container_bytes
            self.found[name] = FoundLog(index, base, log.end, log.container_bytes, log.ballot)
        self.read_us = (time.monotonic_ns() - began_ns) // 1000

    def _damage(self, name: str) -> str:
        """The damage of a log, in words; "" for none."""
        found = self.found.get(name)
        return damage_in_words(found.index) if found is not None else ""

    # ---- a life

    def begin(self, cluster: str, store: str, birth: bool) -> int:
        """A life begins: returns its number.

        Args:
            cluster: the cluster's id.
            store: id for a new store.
            birth: the cluster begins with it: an empty store has a vote.

        Raises:
            StoreError: `not-our-store`. `store-damaged`: it is said to be empty, and is not.
            OSError: of the disk.
        """
        empty = self.directory.identity.counts_as_empty
        if empty:
            check_is_empty(self._files, self.directory.folder)
        clock_ms, new = time.time_ns() // 1_000_000, not self._logs
        # Of an empty one it is known that it never voted; of another without logs it cannot be told: it is blank.
        self._founding = empty and birth
        status = StoreState.FOUNDING if self._founding else StoreState.JOINING if new else StoreState.DIRTY
        life = self.directory.begin(clock_ms, cluster=cluster, store=store, node=self._place.node, status=status)
        if new:
            for name in LOGS:
                if empty:
                    self._remove(name)  # of an earlier start that came to nothing
                if not has_log(self._files, self._folder(name)):
                    self._create(name)
            self._open()
        for name in LOGS:
            if self._damage(name):
                self._copy_aside(name)
        return life

    def _copy_aside(self, name: str) -> None:
        """Keep what is damaged, and what stands behind it, before the log goes on."""
        found, aside = self.found[name], f"{self.directory.folder}/{ASIDE}/{name}"
        hurt = sorted(stream for stream, place in found.index.streams.items() if place.hurt)
        try:
            first = found.index.damage[0][0]
            copied = copy_aside(self._files, self._folder(name), aside, first, found.container_bytes)
        except OSError as error:
            kept = f"It could not be copied aside: {error}"
        else:
            kept = f"Copied aside: {', '.join(copied) or 'nothing new'}"
        logger.critical(
            "%(directory)s: %(damage)s; touched: %(streams)s. %(kept)s",
            {
                "directory": self._folder(name), "damage": self._damage(name), "kept": kept,
                "streams": ", ".join(hurt) or "streams without records",
            },
        )  # fmt: skip

    def joined(self) -> bool:
        """Whether the store is blank no more, by the cluster stream's log; `store.json` says so, too, from then on."""
        with self._saying:
            if self.directory.identity.status is StoreState.JOINING:
                place = self.found[TX].index.streams.get(CLUSTER)
                if place is None or place.blank:
                    return False
                self.directory.joined()
        return True

    def _create(self, name: str) -> None:
        chosen = self._chosen
        Log.create(
            self._files, self._folder(name), container_bytes=chosen.container_bytes, containers=chosen.containers,
            log_id=os.urandom(16),
        ).close()  # fmt: skip

    def _remove(self, name: str) -> None:
        folder = self._folder(name)
        if has_log(self._files, folder):
            for number in container_numbers(self._files.list(folder)):
                self._files.unlink(f"{folder}/{container_name(number)}")
            self._files.sync_folder(folder)

    # ---- effects

    def commit(self, effect: Commit) -> Committed:
        """Write and flush a group.

        Raises:
            OSError: the disk failed, and the process must end.
        """
        if self._founding and any(effect.batches.values()):
            self.directory.founded()
            self._founding = False
        lsns: dict[str, list[int]] = {}
        for name, batch in effect.batches.items():
            log = self._logs[name]
            log.note_ballot(effect.promised)
            lsns[name] = log.write([(kind, stream, [payload]) for kind, stream, payload in batch], effect.time_us)
            if batch:
                self._times[name].setdefault(lsns[name][0] // log.container_bytes, effect.time_us)
            else:
                log.prove()
        for name in lsns:
            self._logs[name].sync()
        return Committed(effect.number, lsns, {name: self._logs[name].end for name in lsns})

    def advance(self, effect: Advance) -> None:
        """Give the containers below the base back."""
        self._logs[effect.log].free_below(effect.lsn)

    # ---- figures

    def describe(self, status: StoreStatus) -> None:
        """Add what the files know to what the machine says of itself."""
        status.folder, status.state = self.directory.folder, self.directory.identity.status.value
        for name, one in status.logs.items():
            log = self._logs.get(name)
            if log is None:
                continue
            times, first = self._times[name], log.base // log.container_bytes
            for container in [number for number in times if number < first]:
                del times[container]
            one.used_bytes, one.spare_bytes = log.used_bytes, log.spares * log.container_bytes
            one.oldest_us = times[min(times)] if times else 0

    # ---- idle time

    def make_spare(self) -> bool:
        """Make one container ahead, of a log that has too few: in any thread. Returns whether one was made."""
        return any(log.make_spare() for log in list(self._logs.values()))

    def scrub(self) -> Iterator[int | Rotten]:
        """Read both logs once, while they are in use; yields bytes read, and what is rotten."""
        for name in LOGS:
            old = set(self.found[name].index.damage)  # known since the store was opened
            for one in scrub(self._files, self._folder(name)):
                if isinstance(one, int):
                    yield one
                elif one not in old:
                    logger.critical(
                        "%(directory)s: rot from %(first)d to %(behind)d, written anew by who keeps it",
                        {"directory": self._folder(name), "first": one[0], "behind": one[1]},
                    )
                    yield Rotten(name, *one)

    def space(self) -> DiskSpace:
        """What may still be written, spares included."""
        spares = sum(log.spares * log.container_bytes for log in list(self._logs.values()))
        return DiskSpace(self._files.free_bytes(self.directory.folder) + spares)

    # ---- the end

    def close_clean(self, shutdown: str) -> None:
        """All streams are closed; nothing comes behind it. A blank store stays blank."""
        if self.joined():
            self.directory.close_clean(shutdown)

    def close(self) -> None:
        """Give the files and the lock back. The store stays as it is."""
        for log in list(self._logs.values()):
            log.close()
        self._logs.clear()
        self.directory.release()
