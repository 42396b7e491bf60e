"""The catalogue's tables, as SQLAlchemy makes them in SQLite and in PostgreSQL; `schema.sql` shows them to people.

`VERSION` is the tables' version, kept in `meta`. A change of them is a next version with its statements in `UPGRADES`,
which a program that finds an older catalogue carries out in the transaction in which it takes the catalogue over. A
program that finds a newer one leaves it alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Connection,
    ForeignKey,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)

from .rows import TABLES

VERSION = 1
UPGRADES: Mapping[int, Sequence[str]] = {}
"""Version -> the statements that make it of the one before, in words that both databases know. Statements that change
what rows hold also set `digest` to NULL, which is then made anew with the next save."""

METADATA = MetaData()


def _named(column: str, there: str, nullable: bool = False, index: bool = False) -> Column[str]:
    """A column with the name of an exchange or a queue. It is checked at the end of a transaction, not before."""
    to = ForeignKey(there, deferrable=True, initially="DEFERRED")
    return Column(column, Text, to, nullable=nullable, index=index)


META = Table(
    "meta",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("version", Integer, nullable=False),
    Column("store", Text, nullable=False),
    Column("opened", BigInteger, nullable=False),
    Column("wiring_index", BigInteger),
    Column("digest", BigInteger),
    Column("stream", LargeBinary),
    Column("rest", LargeBinary),
    CheckConstraint("id = 1", name="meta_has_one_row"),
)

ROWS = {
    "exchanges": Table(
        "exchanges",
        METADATA,
        Column("name", Text, primary_key=True),
        Column("type", Text, nullable=False),
        Column("arguments", Text, nullable=False),
        Column("durable", Boolean, nullable=False),
        _named("alternate", "exchanges.name", nullable=True),
    ),
    "queues": Table(
        "queues",
        METADATA,
        Column("id", Text, primary_key=True),
        Column("name", Text, nullable=False, unique=True),
        Column("arguments", Text, nullable=False),
        Column("durable", Boolean, nullable=False),
        _named("alternate", "exchanges.name", nullable=True),
        Column("voters", Text),
    ),
    "bindings": Table(
        "bindings",
        METADATA,
        Column("id", Text, primary_key=True),
        _named("exchange", "exchanges.name", index=True),
        _named("queue", "queues.name", index=True),
        Column("binding_key", Text, nullable=False),
        Column("arguments", Text, nullable=False),
    ),
    "members": Table(
        "members",
        METADATA,
        Column("name", Text, primary_key=True),
        Column("position", Integer),
        Column("incarnation", BigInteger),
        Column("life", BigInteger),
    ),
}
assert tuple(ROWS) == TABLES


def create(connection: Connection) -> None:
    """Make the tables of the newest version, empty."""
    METADATA.create_all(connection, checkfirst=False)


def upgrade(
    connection: Connection, version: int, to: int = VERSION, upgrades: Mapping[int, Sequence[str]] = UPGRADES
) -> None:
    """Bring tables of an older version to the newest one."""
    for step in range(version + 1, to + 1):
        for statement in upgrades[step]:
            connection.execute(text(statement))
        connection.execute(META.update().values(version=step))
