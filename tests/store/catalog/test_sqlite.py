"""The catalogue as a SQLite file: killed writers, rotten bytes, and everything else that a file may be."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID

import pytest
from mantamq.protocol.errors import StoreError
from mantamq.store.catalog.catalog import FILE, open_catalog, read_catalog
from mantamq.store.catalog.refusals import (
    CATALOG_DAMAGED,
    CATALOG_MISSING,
    CATALOG_OUSTED,
    CATALOG_UNAVAILABLE,
    CATALOG_URL,
    NOT_OUR_STORE,
    STORE_FORMAT,
)
from mantamq.store.catalog.schema import VERSION
from mantamq.store.catalog.sql import SqlCatalog
from mantamq.store.catalog.sqlite import SqliteDatabase
from sqlalchemy import Connection, event
from sqlalchemy.exc import OperationalError

from tests.store.catalog.wirings import exactly, numbered

ROOT = Path(__file__).parents[3]
STORE, OTHER = UUID(int=1), UUID(int=2)
NOBODY = 65534


def opened(folder: Path, new: bool = False, store: UUID = STORE) -> SqlCatalog:
    catalog = open_catalog("", str(folder), store, new=new)
    assert isinstance(catalog, SqlCatalog)
    return catalog


def saved(folder: Path, number: int = 1) -> Path:
    """A closed catalogue; returns its file."""
    catalog = opened(folder, new=True)
    catalog.save(numbered(number))
    catalog.close()
    return folder / FILE


def change(file: Path, *statements: str) -> None:
    """What another program does to the file."""
    with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def refused(folder: Path, new: bool = False, store: UUID = STORE) -> StoreError:
    """Why it is not opened; and that this changes nothing."""
    before = bytes_of(folder)
    with pytest.raises(StoreError) as error:
        opened(folder, new, store)
    assert bytes_of(folder) == before
    return error.value


# ---- what is refused when it is opened


def test_one_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    """An empty catalogue under a log whose first entries are gone would be another wiring."""
    error = refused(tmp_path)
    assert error.code == CATALOG_MISSING and str(tmp_path / FILE) in error.text and "put it back" in error.text


def test_an_empty_file_is_one_that_is_gone(tmp_path: Path) -> None:
    saved(tmp_path).write_bytes(b"")
    assert refused(tmp_path).code == CATALOG_MISSING


def test_a_database_without_tables_is_one_that_is_gone(tmp_path: Path) -> None:
    change(tmp_path / FILE, "PRAGMA user_version = 1")
    assert refused(tmp_path).code == CATALOG_MISSING


def test_that_of_another_store_is_refused(tmp_path: Path) -> None:
    saved(tmp_path)
    for new in (False, True):
        error = refused(tmp_path, new, store=OTHER)
        assert error.code == NOT_OUR_STORE
        assert str(STORE) in error.text and str(OTHER) in error.text


@pytest.mark.parametrize("statement", ["CREATE TABLE shop (id INTEGER)", "CREATE TABLE meta (key TEXT, value TEXT)"])
def test_that_of_another_program_is_refused(tmp_path: Path, statement: str) -> None:
    change(tmp_path / FILE, statement)
    for new in (False, True):
        error = refused(tmp_path, new)
        assert error.code == NOT_OUR_STORE and "another program" in error.text


def test_that_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    file = saved(tmp_path)
    change(file, f"UPDATE meta SET version = {VERSION + 1}", "ALTER TABLE meta DROP COLUMN opened")
    for new in (False, True):
        error = refused(tmp_path, new)
        assert error.code == STORE_FORMAT and f"version {VERSION + 1}" in error.text and "newer" in error.text


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"notes of mine\n" * 1000)
    for new in (False, True):
        error = refused(tmp_path, new)
        assert error.code == CATALOG_DAMAGED and "empty the store's directory" in error.text


def test_a_row_that_was_changed_by_hand_is_refused(tmp_path: Path) -> None:
    """Members that know different wirings route differently."""
    file = saved(tmp_path)
    change(file, "UPDATE queues SET durable = NOT durable WHERE name = 'queue 5'")
    catalog = opened(tmp_path)
    with pytest.raises(StoreError) as error:
        catalog.load()
    assert error.value.code == CATALOG_DAMAGED


def test_a_flipped_bit_is_never_read_as_something_else(tmp_path: Path) -> None:
    """Wherever it is: what is loaded is what was saved, or there is a refusal."""
    whole = bytearray(saved(tmp_path).read_bytes())
    chance = random.Random(15)
    refusals = 0
    rounds = 160
    for number in range(rounds):
        folder = tmp_path / str(number)
        folder.mkdir()
        place, bit = chance.randrange(len(whole)), 1 << chance.randrange(8)
        whole[place] ^= bit
        (folder / FILE).write_bytes(whole)
        whole[place] ^= bit
        try:
            catalog = opened(folder)
            assert exactly(catalog.load()) == exactly(numbered(1)), f"bit {bit} of byte {place}"
            catalog.close()
        except StoreError as error:
            assert error.code in (CATALOG_DAMAGED, NOT_OUR_STORE, STORE_FORMAT, CATALOG_MISSING, CATALOG_UNAVAILABLE)
            refusals += 1
        shutil.rmtree(folder)
    assert 5 < refusals < rounds - 5  # many pages are mostly empty


def test_a_file_that_is_cut_off_is_never_read_as_something_else(tmp_path: Path) -> None:
    whole = saved(tmp_path).read_bytes()
    for size in [*range(0, len(whole), 1024), len(whole) - 1]:
        (tmp_path / FILE).write_bytes(whole[:size])
        try:
            catalog = opened(tmp_path)
            assert exactly(catalog.load()) == exactly(numbered(1)) and size == len(whole) - 1
            catalog.close()
        except StoreError as error:
            assert error.code in (CATALOG_DAMAGED, CATALOG_MISSING), size


def test_a_url_that_means_no_catalogue_is_refused(tmp_path: Path) -> None:
    for connect in ("mysql://root:secret@host/db", "sqlite:////tmp/shared.db", "what?", "postgres://a/b"):
        with pytest.raises(StoreError) as error:
            open_catalog(connect, str(tmp_path), STORE, new=True)
        assert error.value.code == CATALOG_URL and "postgresql://" in error.value.text
        assert "secret" not in error.value.text
    with pytest.raises(StoreError) as error:
        open_catalog("log", str(tmp_path), STORE, new=True)
    assert error.value.code == CATALOG_URL
    assert list(tmp_path.iterdir()) == []


# ---- what fails while it runs


def test_a_locked_file_is_unavailable_and_then_saved(tmp_path: Path) -> None:
    catalog = opened(tmp_path, new=True)
    catalog.save(numbered(1))
    with contextlib.closing(sqlite3.connect(tmp_path / FILE, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError) as error:
            catalog.save(numbered(2))
        assert error.value.code == CATALOG_UNAVAILABLE and "locked" in error.value.text
        with pytest.raises(StoreError) as error:
            opened(tmp_path)
        assert error.value.code == CATALOG_UNAVAILABLE and "locked" in error.value.text
        assert exactly(read_catalog("", str(tmp_path), STORE)) == exactly(numbered(1))
        other.execute("ROLLBACK")
    catalog.save(numbered(2))
    assert exactly(catalog.load()) == exactly(numbered(2))


@contextlib.contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """No file of this process grows beyond `size` bytes: as on a disk without room."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_write_that_fails_anywhere_leaves_what_was_there(tmp_path: Path) -> None:
    """The disk has no room after so many bytes, for every number of pages that a save may need."""
    catalog = opened(tmp_path, new=True)
    catalog.save(numbered(1))
    failed = 0
    for number in range(2, 40):
        wal = (tmp_path / f"{FILE}-wal").stat().st_size
        last = catalog.load()
        assert last is not None
        try:
            with files_no_larger_than(wal + 4096 * (number - 2)):
                catalog.save(numbered(number))
        except StoreError as error:
            assert error.code == CATALOG_UNAVAILABLE and str(tmp_path) in error.text
            failed += 1
            assert exactly(catalog.load()) == exactly(last)
            catalog.save(numbered(number))
        assert exactly(catalog.load()) == exactly(numbered(number))
    assert failed > 5


def test_a_file_that_vanishes_is_reported_and_not_made_anew(tmp_path: Path) -> None:
    catalog = opened(tmp_path, new=True)
    catalog.save(numbered(1))
    catalog.close()  # as after an error
    (tmp_path / FILE).unlink()
    with pytest.raises(StoreError) as error:
        catalog.save(numbered(2))
    assert error.value.code == CATALOG_UNAVAILABLE
    assert not (tmp_path / FILE).exists()


def test_an_earlier_opener_has_no_effect_any_more(tmp_path: Path) -> None:
    first = opened(tmp_path, new=True)
    first.save(numbered(1))
    second = opened(tmp_path)
    for _ in range(2):
        with pytest.raises(StoreError) as error:
            first.save(numbered(2))
        assert error.value.code == CATALOG_OUSTED
    assert exactly(second.load()) == exactly(numbered(1))
    second.save(numbered(3))
    assert exactly(opened(tmp_path).load()) == exactly(numbered(3))


def test_every_commit_is_flushed(tmp_path: Path) -> None:
    catalog = opened(tmp_path, new=True)
    for _ in range(2):
        with catalog._transaction() as connection:
            asked = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in ("synchronous", "foreign_keys")]
            assert asked == [2, 1]
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        catalog.close()


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A folder, and this process as a user who may do nothing in it that others may not."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    folder = Path(tempfile.mkdtemp(prefix="manta-catalog-", dir="/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        os.seteuid(0)
        shutil.rmtree(folder)


def test_a_file_that_may_not_be_written_is_refused(as_nobody: Path) -> None:
    file = saved(as_nobody)
    os.seteuid(NOBODY)
    error = refused(as_nobody)
    assert error.code == CATALOG_UNAVAILABLE and "let this user" in error.text
    os.seteuid(0)
    file.chmod(0o600)
    os.seteuid(NOBODY)
    with pytest.raises(StoreError) as hidden:
        opened(as_nobody)
    assert hidden.value.code == CATALOG_UNAVAILABLE and "let this user" in hidden.value.text


def test_who_may_not_write_reads_as_beside_a_writer(as_nobody: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`immutable` would have SQLite read a file that another user writes as one that nobody does."""
    made, uris, connect = SqliteDatabase(str(saved(as_nobody))), list[str](), sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda name, *more, **options: uris.append(name) or connect(name))

    def look() -> str:
        with contextlib.suppress(OperationalError, sqlite3.OperationalError):
            made.engine("ro").connect().close()
        return uris.pop()

    os.seteuid(NOBODY)
    assert "immutable" not in look()
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_RDONLY))
    assert "immutable" in look()


def test_a_folder_that_may_not_be_written_is_refused(as_nobody: Path) -> None:
    os.seteuid(NOBODY)
    error = refused(as_nobody, new=True)
    assert error.code == CATALOG_UNAVAILABLE and "let this user" in error.text
    assert list(as_nobody.iterdir()) == []


# ---- killed in the middle

WRITER = """
import sys
from uuid import UUID
from mantamq.store.catalog.catalog import open_catalog
from tests.store.catalog.wirings import numbered

catalog = open_catalog("", sys.argv[1], UUID(int=1), new=True)
number = int(sys.argv[2])
ready = [numbered(number + ahead) for ahead in range(20)]
print("ready", flush=True)
while True:
    for contents in ready:
        catalog.save(contents)
        print(contents.index, flush=True)
"""


def test_a_writer_that_is_killed_leaves_the_last_save_or_the_next(tmp_path: Path) -> None:
    chance = random.Random(15)
    number = 1
    for _ in range(6):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), str(number)], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
        said = [int(writer.stdout.readline()) for _ in range(chance.randrange(1, 20))]
        with contextlib.suppress(subprocess.TimeoutExpired):
            writer.wait(chance.random() * 0.02)  # somewhere in a save
        writer.send_signal(signal.SIGKILL)
        said += [int(line) for line in writer.stdout if line.endswith("\n")]
        writer.wait()
        catalog = opened(tmp_path)
        found = catalog.load()
        assert found is not None
        later = number + (said[-1] - number + 1) % 20
        assert found.index in (said[-1], later)
        assert exactly(found) == exactly(numbered(found.index))
        catalog.close()
        number = found.index + 1


def test_a_commit_whose_answer_is_lost_is_found_out(tmp_path: Path) -> None:
    """The save has failed for all that its caller knows; the next one goes on from what is there."""
    catalog = opened(tmp_path, new=True)
    catalog.close()  # as after an error: the next connection is one of `_engine`
    catalog.save(numbered(1))

    def committed_and_lost(connection: Connection) -> None:
        connection.connection.cursor().execute("COMMIT")
        raise OperationalError("COMMIT", None, sqlite3.OperationalError("connection lost"))

    event.listen(catalog._engine, "commit", committed_and_lost)
    with pytest.raises(StoreError) as error:
        catalog.save(numbered(2))
    assert error.value.code == CATALOG_UNAVAILABLE
    event.remove(catalog._engine, "commit", committed_and_lost)
    assert exactly(read_catalog("", str(tmp_path), STORE)) == exactly(numbered(2))
    catalog.save(numbered(3))
    assert exactly(catalog.load()) == exactly(numbered(3))
