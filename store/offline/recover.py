"""One store becomes a cluster of one: the way out where the disks of a majority are lost (`durable.md` 4).

The seed's "one recovers, the others are updated from it". In this order, each step durable before the next begins:

0. All is read and shown. Nothing is locked or changed before the operator agrees.
1. All stores in the directory are locked, and as they were when they were read.
2. `store.json` of the survivor: it is being recovered, under the new cluster's id. From here on no broker uses it, so
   the old cluster can never meet what is written next.
3. The others' folders are moved aside, whole: nothing is thrown away.
4. The survivor's logs get what `survivor.py` says, one batch each.
5. `store.json`: it is done.

Run again after a crash anywhere, it finds what is done and does the rest: the id is in `store.json`, folders are moved
or not, a batch is there whole or not at all, and what is written once is not asked for a second time.
"""

from __future__ import annotations

import os
import socket
import time

from ...protocol.errors import STORE_LOCKED, STORE_RECOVERING, STORE_UNUSABLE, StoreError
from ..files import Files, Lock, locked
from ..identity import (
    LOCK,
    StoreDirectory,
    StoreIdentity,
    StoreState,
    check_local,
    look_at_store,
    open_store,
    stores_in,
    unusable,
)
from ..log.recovery import open_log
from .inventory import ASIDE
from .survivor import Survivor, survey_survivor


class StoreRecovery:
    """The recovery of one directory, which is locked from `run` until `close`.

    Attributes:
        survivor: what is kept.
        others: brokers whose stores here are moved aside.
        begun: it was begun before, and is to be finished.
        cluster: the new cluster's id.
    """

    def __init__(self, files: Files, directory: str, broker: str, cluster: str) -> None:
        """Look. Nothing is locked or changed.

        Args:
            files: the file system.
            directory: of the stores on this machine.
            broker: whose store is to go on.
            cluster: id for the new cluster; of a recovery that was begun, its own counts.

        Raises:
            StoreError: see `open_store` and `survey_survivor`; `store-recovering`: another store of the directory is
                being recovered.
        """
        self._files = files
        self._directory = directory
        self._broker = broker
        self._locks: dict[str, Lock] = {}
        self._store: StoreDirectory | None = None
        try:
            self._found = self._look()
            own = look_at_store(files, directory, broker, recover=True)
            if own.counts_as_empty:
                raise StoreError(STORE_UNUSABLE, f"{directory}/{broker} is empty: name a store that has something")
            self.begun = own.status is StoreState.RECOVERING
            self.cluster = own.cluster if self.begun else cluster
            self.others = tuple(other for other in self._found if other != broker)
            for other in self.others:
                path = f"{directory}/{other}/{LOCK}"
                if held_by := files.holder(path):
                    raise _in_use(locked(path, held_by))
            self.survivor: Survivor = survey_survivor(files, f"{directory}/{broker}", own)
        except OSError as error:
            raise unusable(error, directory) from error

    def _look(self) -> dict[str, StoreIdentity | str]:
        """The stores of the directory: what each says of itself, or is refused for."""
        files, directory, broker = self._files, self._directory, self._broker
        check_local(files, directory)
        found = stores_in(files, directory) if files.exists(directory) else {}
        if broker not in found:
            here = f"stores of {', '.join(found)}" if found else "no store"
            raise StoreError(STORE_UNUSABLE, f"{directory} has {here}, and none of {broker}: name one that is there")
        for other, said in found.items():
            if other != broker and getattr(said, "status", None) is StoreState.RECOVERING:
                text = f"a recovery from {other} was begun in {directory}: finish it, with --from {other}"
                raise StoreError(STORE_RECOVERING, text)
        return {name: said.text if isinstance(said, StoreError) else said for name, said in found.items()}

    def _lock(self) -> StoreDirectory:
        """Lock all.

        Raises:
            StoreError: `store-locked`: another process has one, or has used one since it was read.
        """
        files, directory, broker = self._files, self._directory, self._broker
        store = self._store = open_store(files, directory, broker, recover=True)
        holder = f"mantamq store recover, process {os.getpid()} on {socket.gethostname()}"
        for other in self.others:
            try:
                self._locks[other] = files.lock(f"{directory}/{other}/{LOCK}", holder)
            except StoreError as error:
                raise _in_use(error) from None
        if self._look() != self._found:
            raise StoreError(STORE_LOCKED, f"a store in {directory} was used since it was read: run this again")
        return store

    def aside(self, broker: str) -> str:
        """Where a store is moved to."""
        return f"{self._directory}/{ASIDE}/{self.cluster}/{broker}"

    def run(self) -> None:
        """Lock all, and do it, or the rest of it.

        Raises:
            StoreError: `store-locked`: another process has a store, or has used one since. Nothing was changed.
            OSError: of the disk: mend it, and run it again.
        """
        files, store = self._files, self._lock()
        if not self.begun:
            store.recovering(self.cluster)
        if self.others:
            files.make_folder(f"{self._directory}/{ASIDE}/{self.cluster}")
        for broker in self.others:
            files.rename(f"{self._directory}/{broker}", self.aside(broker))
        if self.others:
            files.sync_folder(f"{self._directory}/{ASIDE}/{self.cluster}")
        files.sync_folder(self._directory)
        for log, records in self.survivor.records.items():
            opened, found = open_log(files, f"{store.folder}/{log}")
            for _ in found:
                pass
            opened.write([(kind, stream, [payload]) for kind, stream, payload in records], time.time_ns() // 1000)
            opened.sync()
            opened.close()
        store.recovered()

    def close(self) -> None:
        """Let all stores go."""
        for lock in self._locks.values():
            lock.release()
        if self._store is not None:
            self._store.release()


def _in_use(error: StoreError) -> StoreError:
    return StoreError(STORE_LOCKED, f"{error.text}. The cluster must be down (mantamq down)")
