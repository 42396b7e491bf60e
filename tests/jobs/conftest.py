"""One Spark for all tests here; without PySpark or Java they are skipped."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mantamq.jobs import events as job_events
from mantamq.jobs import session as sessions
from mantamq.jobs.session import Session
from mantamq.protocol.capture.event_table import Row

from tests.quick_java import OPTIONS

for name, value in OPTIONS.items():
    os.environ.setdefault(name, value)


@pytest.fixture(scope="session")
def spark() -> Iterator[Session]:
    pytest.importorskip("pyspark")
    with sessions.start("local", memory="1g") as session:
        yield session


@pytest.fixture(scope="module")
def frames(spark: Session, tmp_path_factory: pytest.TempPathFactory) -> Callable:
    """Turns rows into a DataFrame, by way of a part; for what several tests of a module ask about."""
    return maker(spark, tmp_path_factory.mktemp("frames"))


@pytest.fixture
def frame(spark: Session, tmp_path: Path) -> Callable:
    """The same, for one test."""
    return maker(spark, tmp_path)


def maker(spark: Session, directory: Path) -> Callable:
    from mantamq.store.events.event_parts import list_parts, to_table, write_part

    count = 0

    def make(rows: list[Row]):
        nonlocal count
        count += 1
        here = str(directory / f"frame-{count}")
        if not rows:
            return job_events.history(spark, here, [])
        write_part(here, to_table(rows), {})
        return job_events.history(spark, here, list_parts(here).parts)

    return make
