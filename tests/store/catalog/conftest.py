"""One PostgreSQL server for all tests here that want one; where there is none they are skipped, and say why."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.store.catalog.servers import MUST, Server, why_not


@pytest.fixture(scope="session")
def running() -> Iterator[Server]:
    reason = why_not()
    if reason:
        if os.environ.get(MUST):
            pytest.fail(f"{MUST} is set, and {reason}")
        pytest.skip(reason)
    server = Server()
    try:
        yield server
    finally:
        server.close()
