"""The catalogue of a store that runs: the wiring's checkpoints are saved behind, in a thread beside the store's loop.

No completion waits for it. A checkpoint of the cluster stream that is on disk is saved, at most once a second; where
the stream has gone on and no checkpoint came, its keeper is asked for one. The transaction log keeps what the catalogue
lacks, so one that fails costs room there and a warning in the status, and nothing stops (`durable.md` 2).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING
from uuid import UUID

from ...protocol.errors import PeerError, StoreError
from ...protocol.wire.events import CLUSTER
from ...protocol.wire.records import CHECKPOINT, CheckpointRecord, EntriesRecord, decode_record
from ...store.catalog.refusals import CATALOG_MISSING

if TYPE_CHECKING:
    from ...store.catalog.catalog import Catalog

log = logging.getLogger(__name__)

PACE_S = 1.0
"""The least time between two saves."""
SHARE = 20
"""A save that takes long is made so much more seldom: one part in so many of the store's interpreter, at most."""
ASK_S = 60.0
"""A keeper that cannot get further is asked for a checkpoint no more often than this, in the end."""


def opened(connect: str, folder: str, store: str, catalog: str) -> Catalog:
    """The catalogue of a store, made where there is none: the transaction log has the whole wiring.

    Raises:
        StoreError: it cannot be used as it is.
    """
    from ...store.catalog.catalog import open_catalog  # SQL, which no other process and no other store must pay for

    try:
        return open_catalog(connect, folder, UUID(store), new=False, catalog=catalog)
    except StoreError as error:
        if error.code != CATALOG_MISSING:
            raise
    log.info("the catalogue of store %(store)s is made: there was none", {"store": store, "directory": folder})
    return open_catalog(connect, folder, UUID(store), new=True, catalog=catalog)


def check_catalog(connect: str, folder: str, store: str, catalog: str) -> None:
    """Look whether the catalogue of a store could be opened now, on its server. Changes nothing. One in a file of the
    store's own is looked through when it is opened: SQLite makes files beside one that it reads.

    Args:
        store: id of the store, "" for a new one.

    Raises:
        StoreError: it cannot be used as it is.
    """
    if connect in ("", "sqlite", "log"):
        return
    from ...store.catalog.catalog import read_catalog

    try:
        read_catalog(connect, folder, UUID(store) if store else UUID(int=0), catalog)
    except StoreError as error:
        if error.code != CATALOG_MISSING:
            raise


class CatalogWriter:
    """Saves what it is shown, in a thread of its own.

    Args:
        saved: called in that thread: all of the cluster stream from this LSN on must stay in the log; what is before it
            is in the catalogue.

    Attributes:
        trouble: why the last save failed, "" if it did not.
        index: of the cluster stream, as saved.
    """

    def __init__(self, catalog: Catalog, saved: Callable[[int], None], pace_s: float = PACE_S) -> None:
        self.trouble = ""
        self.index = 0
        self._catalog = catalog
        self._saved = saved
        self._pace_s = pace_s
        self._change = threading.Condition()
        self._next: tuple[int, bytes] | None = None  # LSN and payload of a checkpoint that is to be saved
        self._ended = False
        self._end = 0  # up to where the cluster stream's log goes
        self._covered = 0  # up to where the last checkpoint goes
        self._asked = 0, 0.0, pace_s  # when a checkpoint was asked for last: `_covered` then, the time, the next wait
        self._thread = threading.Thread(target=self._run, name="catalogue", daemon=True)
        self._thread.start()

    # ---- in the store's loop

    def note(self, kind: int, stream: str, payload: bytes, lsn: int) -> None:
        """A record of the transaction log is on disk."""
        if stream != CLUSTER:
            return
        record = decode_record(kind, payload)
        if isinstance(record, EntriesRecord):
            self._end = record.first + len(record.entries) - 1
        elif isinstance(record, CheckpointRecord):
            self._covered = record.index
            self._end = max(self._end, record.index)
            with self._change:
                self._next = min(record.low or lsn, lsn), payload
                self._change.notify()

    def lacks_checkpoint(self, now_s: float) -> bool:
        """Whether the keeper of the cluster stream is to be asked for one now."""
        covered, at_s, wait_s = self._asked
        if self._end <= self._covered or now_s < at_s + wait_s:
            return False
        stuck = covered == self._covered and at_s > 0
        self._asked = self._covered, now_s, min(2 * wait_s, ASK_S) if stuck else self._pace_s
        return True

    def close(self) -> None:
        """Save what is left to be saved, once, and let go of the catalogue."""
        with self._change:
            self._ended = True
            self._change.notify()
        self._thread.join()

    # ---- in the writer's thread

    def _run(self) -> None:
        try:
            while True:
                with self._change:
                    self._change.wait_for(lambda: self._next is not None or self._ended)
                    work, self._next = self._next, None
                    last = self._ended
                took_s = self._save(*work) if work is not None else 0.0
                if last:
                    return
                with self._change:
                    self._change.wait_for(lambda: self._ended, max(self._pace_s, SHARE * took_s))
        finally:
            self._catalog.close()

    def _save(self, low: int, payload: bytes) -> float:
        """Save a checkpoint; what fails is tried again, unless there is a later one then. Returns the seconds."""
        begun_s = time.monotonic()
        try:
            record = decode_record(CHECKPOINT, payload)
            assert isinstance(record, CheckpointRecord)
            self._catalog.save(record)
        except (StoreError, PeerError) as error:
            if error.text != self.trouble:
                log.warning(
                    "the catalogue was not saved, and the transaction log keeps what it lacks: %(reason)s",
                    {"reason": error.text},
                )
            self.trouble = error.text
            with self._change:
                self._next = self._next or (low, payload)
        else:
            if self.trouble:
                log.info("the catalogue is saved again", {"index": record.index})
            self.trouble, self.index = "", record.index
            self._saved(low)
        return time.monotonic() - begun_s
