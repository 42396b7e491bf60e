"""A cluster in memory and a connection to it, for tests of the client that bring none of their own."""

from __future__ import annotations

import pytest
from fake_broker import FakeBroker
from mantamq.client import connect


@pytest.fixture
def cluster():
    with FakeBroker(2) as cluster:
        yield cluster


@pytest.fixture
def connection(cluster):
    with connect(cluster.address, reconnect_s=10, heartbeat_ms=200) as connection:
        yield connection
