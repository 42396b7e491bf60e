"""One store becomes a cluster of one: the way out where the disks of a majority are lost (`durable.md` 4).

The seed's "one recovers, the others are updated from it". In this order, each step durable before the next begins:

1. All stores in the directory are locked. Nothing was changed so far.
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
from ..files import Files, Lock
from ..identity import LOCK, StoreDirectory, StoreState, check_local, open_store, stores_in, unusable
from ..log.recovery import open_log
from .inventory import ASIDE
from .survivor import Survivor, survey_survivor


class StoreRecovery:
    """The recovery of one directory, which is locked until `close`.

    Attributes:
        survivor: what is kept.
        others: brokers whose stores here are moved aside.
        begun: it was begun before, and is to be finished.
        cluster: the new cluster's id.
    """

    def __init__(self, files: Files, directory: str, broker: str, cluster: str) -> None:
        """Lock all, and look. Nothing is changed.

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
        self._locks: dict[str, Lock] = {}
        self._store: StoreDirectory | None = None
        try:
            self._take(broker)
            store = self._kept()
            self.begun = store.identity.status is StoreState.RECOVERING
            self.cluster = store.identity.cluster if self.begun else cluster
            self.others = tuple(self._locks)
            self.survivor: Survivor = survey_survivor(files, store.folder, store.identity)
        except OSError as error:
            self.close()
            raise unusable(error, directory) from error
        except BaseException:
            self.close()
            raise

    def _kept(self) -> StoreDirectory:
        assert self._store is not None
        return self._store

    def _take(self, broker: str) -> None:
        files, directory = self._files, self._directory
        check_local(files, directory)
        found = stores_in(files, directory) if files.exists(directory) else {}
        if broker not in found:
            here = f"stores of {', '.join(found)}" if found else "no store"
            raise StoreError(STORE_UNUSABLE, f"{directory} has {here}, and none of {broker}: name one that is there")
        for other, said in found.items():
            if other != broker and getattr(said, "status", None) is StoreState.RECOVERING:
                text = f"a recovery from {other} was begun in {directory}: finish it, with --from {other}"
                raise StoreError(STORE_RECOVERING, text)
        self._store = open_store(files, directory, broker, recover=True)
        if self._store.identity.status is StoreState.EMPTY:
            raise StoreError(STORE_UNUSABLE, f"{directory}/{broker} is empty: name a store that has something")
        for other in found:
            if other != broker:
                self._locks[other] = self._lock(other)

    def _lock(self, broker: str) -> Lock:
        """The lock of a store that is moved aside, whatever else is wrong with it."""
        holder = f"mantamq store recover, process {os.getpid()} on {socket.gethostname()}"
        try:
            return self._files.lock(f"{self._directory}/{broker}/{LOCK}", holder)
        except StoreError as error:
            raise StoreError(STORE_LOCKED, f"{error.text}. The cluster must be down (mantamq down)") from None

    def aside(self, broker: str) -> str:
        """Where a store is moved to."""
        return f"{self._directory}/{ASIDE}/{self.cluster}/{broker}"

    def run(self) -> None:
        """Do it, or the rest of it.

        Raises:
            OSError: of the disk: mend it, and run it again.
        """
        files, store = self._files, self._kept()
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
