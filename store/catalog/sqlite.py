"""The catalogue as a SQLite file: WAL, every commit flushed, foreign keys checked, looked through when it is opened."""

from __future__ import annotations

import os
import sqlite3
from urllib.parse import quote

from sqlalchemy import Connection, Engine, NullPool, create_engine, event, text
from sqlalchemy.exc import DBAPIError

from ...protocol.errors import StoreError
from .refusals import damaged, first_line, unavailable

LOCK_WAIT_S = 1.0
"""For another program that looks into the file and writes, which it should not."""

DO = {
    "SQLITE_BUSY": "another program has it locked: end that one (sqlite3 in a transaction?)",
    "SQLITE_LOCKED": "another program has it locked: end that one (sqlite3 in a transaction?)",
    "SQLITE_FULL": "make room on its disk",
    "SQLITE_READONLY": "let this user write the file and its folder",
    "SQLITE_CANTOPEN": "let this user read and write the file and its folder",
    "SQLITE_PERM": "let this user read and write the file and its folder",
    "SQLITE_AUTH": "let this user read and write the file and its folder",
}
DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB")


class SqliteDatabase:
    """Args:
    path: of the file, absolute.

    Attributes:
        where: how it is called in a refusal.
        schema: SQLite has none.
    """

    schema: str | None = None

    def __init__(self, path: str) -> None:
        self.path = path
        self.where = f"the catalogue {path}"

    def engine(self, mode: str) -> Engine:
        """Makes connections, for `mode` "ro", "rw", or "rwc", which makes the file."""
        uri = f"file:{quote(self.path)}?mode={mode}"
        if mode == "ro" and self._still():
            uri += "&immutable=1"  # else SQLite would make files beside it, for readers and a writer to agree by

        def connect() -> sqlite3.Connection:
            # Transactions begin where we say so: the driver's own ones leave out statements that make tables.
            return sqlite3.connect(uri, LOCK_WAIT_S, uri=True, isolation_level=None, check_same_thread=False)

        engine = create_engine("sqlite://", creator=connect, poolclass=NullPool)
        event.listen(engine, "connect", _set_up)
        begin = "BEGIN" if mode == "ro" else "BEGIN IMMEDIATE"
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql(begin))
        return engine

    def _still(self) -> bool:
        """Nobody can write it, since its disk is mounted read-only, and all that was written is in the file. Where only
        this user may not write, another one may be writing."""
        try:
            if not os.statvfs(os.path.dirname(self.path)).f_flag & os.ST_RDONLY:
                return False
            return not os.path.getsize(f"{self.path}-wal")
        except FileNotFoundError:
            return True

    def there(self) -> bool:
        """Whether it may be looked into: SQLite would take an empty file for an empty database."""
        try:
            return os.path.getsize(self.path) > 0
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self.refusal(error) from None

    def check(self, connection: Connection) -> None:
        """Raises:
        StoreError: the file is damaged.
        """
        found = connection.execute(text("PRAGMA quick_check(1)")).scalar_one()
        if found != "ok":
            raise damaged(self.where, found)

    def make_room(self, connection: Connection) -> None:
        """Tables lie in the file itself."""

    def settle(self, connection: Connection) -> None:
        """The file is ours: from now on, readers and the writer do not wait for each other, and its name is durable."""
        connection.connection.cursor().execute("PRAGMA journal_mode = WAL").fetchone()
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def refusal(self, error: Exception) -> StoreError:
        """Why the database, or the file system, has not done what was asked."""
        cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
        name = str(getattr(cause, "sqlite_errorname", ""))
        if name.startswith(DAMAGED):
            return damaged(self.where, first_line(cause))
        do = next((do for code, do in DO.items() if name.startswith(code)), "see to its disk")
        return unavailable(self.where, first_line(cause), do)


def _set_up(connection: sqlite3.Connection, record: object) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
