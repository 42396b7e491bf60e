"""A cluster in memory and a connection to it, for tests of the client that bring none of their own."""

from __future__ import annotations

import pytest
from fake_broker import FakeBroker, passing_time
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


@pytest.fixture
def session(connection):
    """With a queue `q`."""
    connection.declare_queue("q")
    return connection.session()


@pytest.fixture
def lost(connection):
    """An exchange `lost`, of which the queue `dead` has all."""
    connection.declare_exchange("lost", "fanout")
    connection.declare_queue("dead")
    connection.bind("lost", "dead")


@pytest.fixture
def time_passes(cluster):
    """A replica without consumers is told of what is committed a little later."""
    with passing_time(cluster):
        yield
