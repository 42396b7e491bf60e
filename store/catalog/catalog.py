"""The interface of the catalogue, and which of its forms a URL means.

It keeps the checkpoint of the cluster stream, a `CheckpointRecord` whose outline is a `ClusterOutline`, and is written
behind: no completion waits for it. The transaction log keeps every entry of that stream until a save that has it has
returned, so a catalogue that fails costs room in that log and nothing else, and one that is older than it might be is
whole and costs some entries more at the next start (`durable.md` 2).
"""

from __future__ import annotations

import re
from typing import Protocol
from uuid import UUID

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from ...protocol.errors import StoreError
from ...protocol.wire.records import CheckpointRecord
from .log_form import LogCatalog, RecordLog
from .postgres import PostgresDatabase
from .refusals import CATALOG_URL
from .sql import SqlCatalog
from .sqlite import SqliteDatabase

FILE = "catalogue.db"
IN_LOG = "log"
PREFIX = "manta"
PREFIX_FORM = re.compile(r"[a-z_][a-z0-9_]{0,29}")
"""With an underscore and the 32 digits of a store id behind it: as long as a name may be in PostgreSQL."""


class Catalog(Protocol):
    """A catalogue, opened by the one store that it belongs to, and used by one thread at a time."""

    def load(self) -> CheckpointRecord | None:
        """What was saved last; None before the first save.

        Raises:
            StoreError: it cannot be read, or is damaged.
        """
        ...

    def save(self, checkpoint: CheckpointRecord) -> None:
        """Replace what is there, in one transaction: when this returns, it survives a power cut.

        Only rows that differ from those saved last are written.

        Raises:
            StoreError: it was not saved, or that is not known; what is there is whole either way. Of code
                `catalog-unavailable` the cause may pass: save again, the same or later contents.
        """
        ...

    def close(self) -> None:
        """Let go of the file or the connection. A second time does nothing."""
        ...


def open_catalog(
    connect: str, folder: str, store_id: UUID, *, new: bool, catalog: str = "", log: RecordLog | None = None
) -> Catalog:
    """Open the catalogue of a store, or make it.

    Args:
        connect: "" for SQLite in the store's folder; ``postgresql://user@host/database``; "log".
        folder: the store's own.
        store_id: the store's; a catalogue of another one is refused.
        new: the store has never saved its wiring: the catalogue is made. Otherwise it must be there.
        catalog: the first part of the schema's name in PostgreSQL, ahead of the store's id.
        log: for "log", where its records go.

    Raises:
        StoreError: it cannot be used as it is; nothing in it was changed.
    """
    if connect == IN_LOG:
        if log is None:
            raise StoreError(CATALOG_URL, "a catalogue in the transaction log needs that log")
        return LogCatalog(log)
    database = database_of(connect, folder, store_id, catalog)
    return SqlCatalog.open(database, str(store_id), new)


def read_catalog(connect: str, folder: str, store_id: UUID, catalog: str = "") -> CheckpointRecord | None:
    """What a catalogue in SQL holds, for people, also while its store uses it: nothing in it is changed.

    Raises:
        StoreError: as `open_catalog`.
    """
    return SqlCatalog.read(database_of(connect, folder, store_id, catalog), str(store_id))


def database_of(connect: str, folder: str, store_id: UUID, catalog: str = "") -> SqliteDatabase | PostgresDatabase:
    """The database that `connect` means.

    Raises:
        StoreError: `catalog-url`, it means none.
    """
    if connect in ("", "sqlite"):
        return SqliteDatabase(f"{folder}/{FILE}")
    prefix = catalog or PREFIX
    if not PREFIX_FORM.fullmatch(prefix):
        text = "has 1 to 30 small letters, digits and underscores, and begins with no digit"
        raise StoreError(CATALOG_URL, f"the name of a catalogue {text}, not {catalog!r}")
    return PostgresDatabase(_url(connect), f"{prefix}_{store_id.hex}")


def _url(connect: str) -> URL:
    try:
        url = make_url(connect)
    except ArgumentError:
        url = None
    if url is None or url.get_backend_name() != "postgresql":
        given = url.render_as_string() if url is not None else "something else"  # which may have a password in it
        text = "a catalogue is in SQLite (leave the URL out), in postgresql://USER@HOST/DATABASE, or in the log (log)"
        raise StoreError(CATALOG_URL, f"{text}, not in {given}")
    return url.set(drivername="postgresql+psycopg")
