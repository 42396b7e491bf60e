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


@pytest.fixture
def frame(spark: Session, tmp_path: Path) -> Callable:
    """Turns rows into a DataFrame, by way of a part."""
    from mantamq.store.events.event_parts import list_parts, to_table, write_part

    count = 0

    def make(rows: list[Row]):
        nonlocal count
        count += 1
        directory = str(tmp_path / f"frame-{count}")
        if not rows:
            return job_events.history(spark, directory, [])
        write_part(directory, to_table(rows), {})
        return job_events.history(spark, directory, list_parts(directory).parts)

    return make
