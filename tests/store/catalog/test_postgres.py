"""The catalogue in PostgreSQL, on a real server: refusals, and a server that goes away and comes back."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID, uuid4

import psycopg
import pytest
from mantamq.protocol.errors import StoreError
from mantamq.store.catalog.catalog import open_catalog
from mantamq.store.catalog.refusals import (
    CATALOG_DAMAGED,
    CATALOG_MISSING,
    CATALOG_OUSTED,
    CATALOG_UNAVAILABLE,
    CATALOG_URL,
    NOT_OUR_STORE,
    STORE_FORMAT,
)
from mantamq.store.catalog.schema import ROWS, VERSION
from mantamq.store.catalog.sql import SqlCatalog

from tests.store.catalog.servers import PASSWORD, Server
from tests.store.catalog.wirings import exactly, numbered

ROOT = Path(__file__).parents[3]


class Store:
    """A store of a test's own, with its schema on the server."""

    def __init__(self, server: Server, store: UUID | None = None) -> None:
        self.server, self.id = server, store or uuid4()
        self.schema = f"manta_{self.id.hex}"

    def open(self, new: bool = False, url: str = "", catalog: str = "") -> SqlCatalog:
        made = open_catalog(url or self.server.url(), "/nowhere", self.id, new=new, catalog=catalog)
        assert isinstance(made, SqlCatalog)
        return made

    def saved(self, number: int = 1) -> None:
        catalog = self.open(new=True)
        catalog.save(numbered(number))
        catalog.close()

    def everything(self) -> dict[str, Any]:
        """All rows of its schema, whoever made them."""
        tables = self.server.ask("SELECT tablename FROM pg_tables WHERE schemaname = %s ORDER BY 1", self.schema)
        return {name: self.server.ask(f'SELECT * FROM "{self.schema}"."{name}" ORDER BY 1') for (name,) in tables}

    def refused(self, new: bool = False, url: str = "") -> StoreError:
        """Why it is not opened; and that this changes nothing."""
        before = self.everything()
        with pytest.raises(StoreError) as error:
            self.open(new, url)
        assert self.everything() == before
        assert PASSWORD not in str(error.value) and "s3cret" not in str(error.value)
        return error.value


@pytest.fixture
def store(running: Server) -> Store:
    return Store(running)


@pytest.fixture
def own() -> Iterator[Server]:
    """A server that a test may end."""
    server = Server()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture(autouse=True)
def _skipped_without(running: Server) -> None:
    """Those with a server of their own need one that can be started, too."""


# ---- what is refused when it is opened


def test_a_wrong_password_is_refused(store: Store) -> None:
    error = store.refused(True, store.server.url(password="wr0ng"))
    assert error.code == CATALOG_UNAVAILABLE
    assert "password authentication failed" in error.text and "~/.pgpass" in error.text and "wr0ng" not in error.text


def test_a_server_that_is_not_there_is_refused(store: Store, tmp_path: Path) -> None:
    error = store.refused(True, f"postgresql://manta:x@/postgres?host={tmp_path}")
    assert error.code == CATALOG_UNAVAILABLE and "see that the server runs" in error.text


def test_a_database_that_is_not_there_is_refused(store: Store) -> None:
    error = store.refused(True, store.server.url(database="nothere"))
    assert error.code == CATALOG_UNAVAILABLE and '"nothere" does not exist' in error.text and "make that" in error.text


def test_a_user_who_may_make_no_schema_is_refused_unless_it_is_made_for_them(store: Store) -> None:
    user = f"guest_{store.id.hex[:8]}"
    store.server.ask(f"CREATE ROLE {user} LOGIN PASSWORD 'x'")
    url = store.server.url(user=user, password="x")
    error = store.refused(True, url)
    assert error.code == CATALOG_UNAVAILABLE and "permission denied" in error.text and "GRANT CREATE" in error.text
    store.server.ask(f"CREATE SCHEMA {store.schema} AUTHORIZATION {user}")
    store.open(True, url).save(numbered(1))
    assert exactly(store.open(url=url).load()) == exactly(numbered(1))


def test_one_that_is_gone_is_not_made_anew(store: Store) -> None:
    error = store.refused()
    assert error.code == CATALOG_MISSING and store.schema in error.text
    assert store.server.ask("SELECT 1 FROM pg_namespace WHERE nspname = %s", store.schema) == []


def test_that_of_another_store_is_refused(store: Store) -> None:
    store.saved()
    store.server.ask(f"UPDATE {store.schema}.meta SET store = 'another'")
    for new in (False, True):
        error = store.refused(new)
        assert error.code == NOT_OUR_STORE and "store another" in error.text and str(store.id) in error.text


def test_that_of_another_program_is_refused(store: Store) -> None:
    store.server.ask(f"CREATE SCHEMA {store.schema}")
    store.server.ask(f"CREATE TABLE {store.schema}.shop (id INTEGER)")
    error = store.refused(True)
    assert error.code == NOT_OUR_STORE and "shop" in error.text


def test_that_of_a_newer_program_is_refused(store: Store) -> None:
    store.saved()
    store.server.ask(f"UPDATE {store.schema}.meta SET version = {VERSION + 1}")
    store.server.ask(f"ALTER TABLE {store.schema}.meta DROP COLUMN opened")
    for new in (False, True):
        assert store.refused(new).code == STORE_FORMAT


def test_a_row_that_was_changed_by_hand_is_refused(store: Store) -> None:
    store.saved()
    store.server.ask(f"DELETE FROM {store.schema}.bindings WHERE queue = 'queue 5'")
    with pytest.raises(StoreError) as error:
        store.open().load()
    assert error.value.code == CATALOG_DAMAGED


@pytest.mark.parametrize("name", ["Manta", "a b", "1st", "x" * 31, 'a"; DROP SCHEMA public; --'])
def test_a_name_that_is_none_is_refused(store: Store, name: str) -> None:
    with pytest.raises(StoreError) as error:
        store.open(True, catalog=name)
    assert error.value.code == CATALOG_URL and "small letters" in error.value.text


def test_catalogues_of_several_stores_lie_side_by_side(store: Store) -> None:
    other = Store(store.server)
    first, second = store.open(True, catalog="x" * 30), other.open(True, catalog="x" * 30)
    first.save(numbered(1))
    second.save(numbered(2))
    assert exactly(first.load()) == exactly(numbered(1))
    assert exactly(second.load()) == exactly(numbered(2))
    names = store.server.ask("SELECT nspname FROM pg_namespace WHERE nspname LIKE %s ORDER BY 1", "xxx%")
    assert {name for (name,) in names} == {f"{'x' * 30}_{one.id.hex}" for one in (store, other)}


def test_the_tables_are_what_the_page_shows(store: Store) -> None:
    store.saved()
    assert set(store.everything()) == {"meta", *ROWS}
    held = store.server.ask(f"SELECT name, durable, alternate FROM {store.schema}.queues ORDER BY name LIMIT 1")
    assert held == [("queue 1", True, "exchange 1")]


def test_every_commit_is_flushed_whatever_the_server_would_do(store: Store) -> None:
    store.server.ask("ALTER ROLE manta SET synchronous_commit = off")
    try:
        catalog = store.open(new=True)
        with catalog._transaction() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == "on"
    finally:
        store.server.ask("ALTER ROLE manta RESET synchronous_commit")


# ---- what fails while it runs


def test_an_earlier_opener_has_no_effect_any_more(store: Store) -> None:
    first = store.open(new=True)
    first.save(numbered(1))
    second = store.open()
    for _ in range(2):
        with pytest.raises(StoreError) as error:
            first.save(numbered(2))
        assert error.value.code == CATALOG_OUSTED
    second.save(numbered(3))
    assert exactly(store.open().load()) == exactly(numbered(3))


def test_a_connection_that_breaks_is_made_anew(store: Store) -> None:
    catalog = store.open(new=True)
    for number in range(1, 6):
        catalog.save(numbered(number))
        store.server.end_connections()
        with pytest.raises(StoreError) as error:
            catalog.save(numbered(number + 1))
        assert error.value.code == CATALOG_UNAVAILABLE
        assert exactly(catalog.load()) == exactly(numbered(number))


def test_tables_that_another_locks_are_unavailable(store: Store) -> None:
    catalog = store.open(new=True)
    catalog.save(numbered(1))
    place = psycopg.connect(store.server.url().replace("postgresql+psycopg", "postgresql"))
    with place as other:
        other.execute(f"LOCK TABLE {store.schema}.meta")
        with pytest.raises(StoreError) as error:
            catalog.save(numbered(2))
        assert error.value.code == CATALOG_UNAVAILABLE and "locked" in error.value.text
        other.rollback()
    catalog.save(numbered(2))


def test_a_server_that_goes_away_and_comes_back(own: Server) -> None:
    store = Store(own)
    catalog = store.open(new=True)
    catalog.save(numbered(1))
    own.stop()
    for _ in range(2):
        with pytest.raises(StoreError) as error:
            catalog.save(numbered(2))
        assert error.value.code == CATALOG_UNAVAILABLE and "server" in error.value.text
        assert "s3cret" not in str(error.value)
    own.start()
    assert exactly(catalog.load()) == exactly(numbered(1))
    catalog.save(numbered(3))
    assert exactly(store.open().load()) == exactly(numbered(3))


def test_a_server_that_dies_in_the_middle_keeps_the_last_save_or_the_next(own: Server) -> None:
    store = Store(own)
    catalog = store.open(new=True)
    chance = random.Random(15)
    number = last = 0
    for _ in range(6):
        ready = [numbered(number + ahead) for ahead in range(1, 41)]
        killer = threading.Timer(chance.random() * 0.3, own.stop)
        killer.start()
        try:
            while True:
                for contents in ready:
                    number = contents.index
                    catalog.save(contents)
                    last = number
        except StoreError as error:
            assert error.code == CATALOG_UNAVAILABLE
        killer.join()
        own.start()
        found = catalog.load()
        assert (found is None and last == 0) or (found is not None and found.index in (last, number))
        if found is not None:
            assert exactly(found) == exactly(numbered(found.index))
            last = found.index
    catalog.save(numbered(1))
    assert exactly(store.open().load()) == exactly(numbered(1))


def test_a_server_put_back_from_an_earlier_copy_is_not_taken_for_ours(store: Store) -> None:
    store.saved()
    earlier = store.server.ask(f"SELECT opened FROM {store.schema}.meta")[0][0]
    catalog = store.open()
    store.server.ask(f"UPDATE {store.schema}.meta SET opened = {earlier}")
    with pytest.raises(StoreError) as error:
        catalog.save(numbered(2))
    assert error.value.code == CATALOG_OUSTED and "copy" in error.value.text


# ---- the tests' own server

KEEPER = """
import time
from tests.store.catalog.servers import Server
server = Server()
print(server._process.pid, server.folder, flush=True)
time.sleep(600)
"""


def test_the_server_ends_with_the_tests_however_they_end() -> None:
    keeper = subprocess.Popen([sys.executable, "-c", KEEPER], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert keeper.stdout is not None
    pid, folder = keeper.stdout.readline().split()
    with open(f"/proc/{pid}/cmdline", "rb") as handle:  # that process's, also when its number is used again
        assert folder.encode() in handle.read()
        keeper.send_signal(signal.SIGKILL)
        keeper.wait()
        assert _ended(handle)
    subprocess.run(["rm", "-rf", folder], check=True)


def _ended(handle: BinaryIO) -> bool:
    """Wait until the process of that command line is gone."""
    for _ in range(600):
        try:
            handle.seek(0)
            if not handle.read():
                return True
        except ProcessLookupError:
            return True
        threading.Event().wait(0.1)
    return False
