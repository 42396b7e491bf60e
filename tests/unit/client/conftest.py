"""A cluster in memory and a connection to it, for tests of the client that bring none of their own."""

from __future__ import annotations

import pytest
from fake_broker import FakeBroker
from mantamq.client import connect

PATIENT_MS = 2000
"""Heartbeats so rare that a busy machine makes no client reconnect: it would get anew what it has not acknowledged."""


@pytest.fixture
def cluster():
    with FakeBroker(2) as cluster:
        yield cluster


@pytest.fixture
def connection(cluster):
    with connect(cluster.address, reconnect_s=10, heartbeat_ms=PATIENT_MS) as connection:
        yield connection
