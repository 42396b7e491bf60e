"""The catalogue in SQL: rows that differ are written in one transaction, and a fence keeps earlier openers out.

Each opening counts `meta.opened` on, and a save asks for the count of its own opening: a process that was taken for
dead and wakes has no effect any more. After a failed save nothing is known of the connection, nor whether the
transaction was committed; so the next save begins with a new connection and with the rows that it finds there.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Protocol, Self

from sqlalchemy import Connection, Engine, bindparam, inspect, select
from sqlalchemy.exc import SQLAlchemyError

from ...protocol.errors import PeerError, StoreError
from ...protocol.wire.records import CheckpointRecord
from .refusals import damaged, foreign, missing, ousted, too_new
from .rows import Row, Rows, TableContents, from_tables, to_tables
from .schema import META, ROWS, VERSION, create, upgrade


class Database(Protocol):
    """What SQLite and PostgreSQL do differently."""

    where: str
    schema: str | None

    def engine(self, mode: str) -> Engine: ...
    def there(self) -> bool: ...
    def check(self, connection: Connection) -> None: ...
    def make_room(self, connection: Connection) -> None: ...
    def settle(self, connection: Connection) -> None: ...
    def refusal(self, error: Exception) -> StoreError: ...


class SqlCatalog:
    """As `Catalog`; made by `open`."""

    def __init__(self, database: Database, store: str, mode: str) -> None:
        self._database = database
        self._store = store
        self._engine = database.engine(mode)
        self._opened = 0
        self._connection: Connection | None = None
        self._rows: Rows | None = None  # as they are there; None: not known

    @classmethod
    def open(cls, database: Database, store: str, new: bool) -> Self:
        """As `open_catalog`."""
        if not new and not database.there():
            raise missing(database.where)
        catalog = cls(database, store, "rwc" if new else "rw")
        try:
            with catalog._transaction() as connection:
                database.check(connection)
                catalog._opened = _take_over(connection, database, store, new)
            with catalog._refusals():
                database.settle(catalog._connected())
        except BaseException:
            catalog.close()
            raise
        catalog._engine = database.engine("rw")  # what vanishes while we run is not made anew
        return catalog

    @classmethod
    def read(cls, database: Database, store: str) -> CheckpointRecord | None:
        """As `read_catalog`."""
        if not database.there():
            raise missing(database.where)
        catalog = cls(database, store, "ro")
        try:
            with catalog._transaction() as connection:
                database.check(connection)
                if _version(connection, database, store) is None:
                    raise missing(database.where)
                return _read(connection, database.where)
        finally:
            catalog.close()

    def load(self) -> CheckpointRecord | None:
        """As `Catalog.load`."""
        with self._transaction() as connection:
            return _read(connection, self._database.where)

    def save(self, checkpoint: CheckpointRecord) -> None:
        """As `Catalog.save`."""
        kept = to_tables(checkpoint)
        with self._transaction() as connection:
            mine = META.update().where(META.c.opened == self._opened, META.c.store == self._store)
            values = {"wiring_index": kept.wiring_index, "digest": kept.digest}
            done = connection.execute(mine.values(**values, stream=kept.stream, rest=kept.rest))
            if done.rowcount != 1:
                raise ousted(self._database.where)
            _write(connection, self._rows if self._rows is not None else _rows(connection), kept.rows)
        self._rows = kept.rows

    def close(self) -> None:
        """As `Catalog.close`."""
        self._rows = None
        if self._connection is not None:
            with suppress(SQLAlchemyError):
                self._connection.close()
            self._connection = None

    # ---- the connection

    def _connected(self) -> Connection:
        if self._connection is None:
            self._connection = self._engine.connect()
        return self._connection

    @contextmanager
    def _transaction(self) -> Generator[Connection]:
        """A transaction that is committed at the end; after an error the connection is given up."""
        with self._refusals():
            try:
                connection = self._connected()
                with connection.begin():
                    yield connection
            except BaseException:
                self.close()
                raise

    @contextmanager
    def _refusals(self) -> Generator[None]:
        try:
            yield
        except (SQLAlchemyError, OSError) as error:
            raise self._database.refusal(error) from error
        except ValueError as error:  # text that is no text: the database does not check what it hands out
            raise damaged(self._database.where, str(error)) from error


def _take_over(connection: Connection, database: Database, store: str, new: bool) -> int:
    """Make the tables or find them as they should be; returns the count of this opening."""
    version = _version(connection, database, store)
    if version is None:
        if not new:
            raise missing(database.where)
        database.make_room(connection)
        create(connection)
        connection.execute(META.insert().values(id=1, version=VERSION, store=store, opened=0))
    else:
        upgrade(connection, version)
    connection.execute(META.update().values(opened=META.c.opened + 1))
    return connection.execute(select(META.c.opened)).scalar_one()


def _version(connection: Connection, database: Database, store: str) -> int | None:
    """The version of the tables that are there, of this store and no newer than ours; None if there is no table."""
    where, there = database.where, inspect(connection)
    tables = set(there.get_table_names(schema=database.schema))
    if not tables:
        return None
    columns = {one["name"] for one in there.get_columns("meta", schema=database.schema)} if "meta" in tables else set()
    if not columns >= {"version", "store"}:
        raise foreign(where, f"another program, which has {', '.join(sorted(tables))} there")
    found = connection.execute(select(META.c.version, META.c.store)).all()
    if len(found) != 1:
        raise damaged(where, f"its table meta has {len(found)} rows")
    version, owner = found[0]
    if owner != store:
        raise foreign(where, f"store {owner}, and this is store {store}")
    if version > VERSION:
        raise too_new(where, version, VERSION)
    return version


def _rows(connection: Connection) -> Rows:
    return {name: {row[0]: tuple(row) for row in connection.execute(select(table))} for name, table in ROWS.items()}


def _read(connection: Connection, where: str) -> CheckpointRecord | None:
    columns = select(META.c.wiring_index, META.c.digest, META.c.stream, META.c.rest)
    index, digest, stream, rest = connection.execute(columns).one()
    if index is None:
        return None
    kept = TableContents(index, _rows(connection), bytes(stream), bytes(rest))
    if digest not in (None, kept.digest):
        raise damaged(where, "what its rows say is not what was saved")
    try:
        return from_tables(kept)
    except (ValueError, PeerError) as error:
        raise damaged(where, str(error)) from error


def _write(connection: Connection, there: Rows, wanted: Rows) -> None:
    """Make rows that are `there` those that are `wanted`: first what goes, since names are used again."""
    for name, table in reversed(ROWS.items()):
        gone = [{"gone": key} for key in there[name] if key not in wanted[name]]
        if gone:
            connection.execute(table.delete().where(table.c[0] == bindparam("gone")), gone)
    for name, table in ROWS.items():
        news: list[Row] = []
        changed: list[Row] = []
        for key, row in wanted[name].items():
            had = there[name].get(key)
            if had is None:
                news.append(row)
            elif had != row:
                changed.append(row)
        columns = [column.name for column in table.columns]
        if news:
            connection.execute(table.insert(), [dict(zip(columns, row, strict=True)) for row in news])
        if changed:
            names = [f"new_{column}" for column in columns]
            update = table.update().where(table.c[0] == bindparam(names[0]))
            update = update.values({column: bindparam(f"new_{column}") for column in columns[1:]})
            connection.execute(update, [dict(zip(names, row, strict=True)) for row in changed])
