"""The oracle: a log that is a table of SQLite, with the promises of the log and none of its cleverness.

A group that is written is a transaction, which `sync` commits. A crash rolls back what was not committed. Places are row
numbers.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence


class SqliteLog:
    """As `Log`, without files. `recovered` is what a recovery has to find."""

    def __init__(self) -> None:
        self._database = sqlite3.connect(":memory:", isolation_level=None)
        self._database.execute("create table log (lsn integer primary key autoincrement, kind, stream, payload, undo)")
        self._database.execute("create table base (lsn integer)")
        self._database.execute("insert into base values (0)")
        self._database.execute("begin")

    def write(self, records: Sequence[tuple[int, str, Sequence[bytes]]]) -> list[int]:
        self.sync()
        newest = "select coalesce(max(lsn), 0) from log where stream = ?"
        insert = f"insert into log (kind, stream, payload, undo) values (?, ?, ?, ({newest}))"
        return [
            self._database.execute(insert, (kind, stream, b"".join(payload), stream)).lastrowid or 0
            for kind, stream, payload in records
        ]

    def sync(self) -> None:
        self._database.execute("commit")
        self._database.execute("begin")

    def free_below(self, lsn: int) -> None:
        self.sync()
        self._database.execute("update base set lsn = max(lsn, ?)", (lsn,))
        self.sync()

    def crash(self, kept: bool) -> None:
        """What was not committed is gone; or kept: that is for the disk to say, and for the log only as a whole."""
        self._database.execute("commit" if kept else "rollback")
        self._database.execute("begin")

    def recovered(self) -> list[tuple[int, int, str, bytes, int]]:
        """Place, kind, stream, payload, undo of each record from the base on."""
        found = "select lsn, kind, stream, payload, undo from log where lsn >= (select lsn from base) order by lsn"
        return list(self._database.execute(found))
