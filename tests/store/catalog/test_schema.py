"""The tables: what people read is what is made, every field has its column, older versions are brought up."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mantamq.protocol.wiring.definitions import Binding, ExchangeDefinition, QueueDefinition
from mantamq.protocol.wiring.snapshot import WiringSnapshot
from mantamq.store import catalog
from mantamq.store.catalog.rows import TableContents
from mantamq.store.catalog.schema import META, METADATA, ROWS, UPGRADES, VERSION, upgrade
from sqlalchemy import Connection, Dialect, create_engine, select, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.schema import CreateIndex, CreateTable

PAGE = Path(str(catalog.__file__)).parent / "schema.sql"


def statements(sql: str) -> list[str]:
    """Without comments, each in one line."""
    return [" ".join(one.split()) for one in re.sub(r"--.*", "", sql).split(";") if one.strip()]


def made(dialect: Dialect) -> list[str]:
    tables = METADATA.sorted_tables
    indexes = sorted((index for table in tables for index in table.indexes), key=lambda index: str(index.name))
    elements = [*map(CreateTable, tables), *map(CreateIndex, indexes)]
    return statements(";".join(str(one.compile(dialect=dialect)) for one in elements))


def test_the_page_shows_what_sqlalchemy_makes() -> None:
    assert statements(PAGE.read_text("utf-8")) == made(sqlite.dialect())


def test_postgresql_has_the_same_but_for_bytes() -> None:
    assert [one.replace(" BYTEA", " BLOB") for one in made(postgresql.dialect())] == made(sqlite.dialect())


def test_the_page_says_which_version_it_shows() -> None:
    assert f"Version {VERSION}." in PAGE.read_text("utf-8")


def fields(struct: type) -> list[str]:
    return list(struct.__struct_fields__)  # type: ignore[attr-defined]


def columns(table: str) -> list[str]:
    return [column.name for column in ROWS[table].columns]


def test_every_field_has_its_column() -> None:
    """A field that is appended to a definition needs a column, and so a next version; or a place beside the rows, as the
    client has that a queue is exclusive to, and what policies have made of a queue."""
    beside = ["client", "own", "own_alternate", "changed", "first", "first_alternate", "judged", "since", "brokers"]
    assert fields(QueueDefinition) == [*columns("queues")[:-1], *beside] and columns("queues")[-1] == "voters"
    assert fields(ExchangeDefinition) == columns("exchanges")
    assert ["id", *(name if name != "key" else "binding_key" for name in fields(Binding))] == columns("bindings")
    in_rows = fields(WiringSnapshot)[:3]
    assert in_rows == ["queues", "exchanges", "bindings"]
    assert {name for name in TableContents._fields if name != "rows"} < {column.name for column in META.columns}


OLD = ("CREATE TABLE meta (id INTEGER PRIMARY KEY, version INTEGER, old TEXT)", "INSERT INTO meta VALUES (1, 1, 'x')")
STEPS = {
    2: ("ALTER TABLE meta ADD COLUMN second TEXT", "UPDATE meta SET second = old || 'y'"),
    3: ("ALTER TABLE meta ADD COLUMN third TEXT", "UPDATE meta SET third = second || 'z'"),
}


@pytest.fixture
def old(tmp_path: Path):
    engine = create_engine(f"sqlite:///{tmp_path}/old.db")
    with engine.begin() as connection:
        for statement in OLD:
            connection.execute(text(statement))
        yield connection
    engine.dispose()


def test_upgrades_are_done_one_after_the_other(old: Connection) -> None:
    upgrade(old, 1, 3, STEPS)
    assert tuple(old.execute(text("SELECT version, old, second, third FROM meta")).one()) == (3, "x", "xy", "xyz")
    upgrade(old, 3, 3, STEPS)
    assert old.execute(select(META.c.version)).scalar_one() == 3


def test_every_version_has_its_upgrade() -> None:
    assert sorted(UPGRADES) == list(range(2, VERSION + 1))
