"""Real Ray clusters for tests: few and slow, each with a time-out, none leaving a process behind."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import ray
from mantamq.actors.cluster import Cluster, start_cluster
from mantamq.actors.local_ray import wait_gone

TEST_S = 60
GONE_S = 10.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_S))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three brokers on a fresh local Ray, shared by the tests of a module."""
    assert not ray.is_initialized(), "an earlier test left Ray running"
    with start_cluster(brokers=3) as cluster:
        pids = list(cluster.actor_pids().values())
        yield cluster
    assert wait_gone(pids, GONE_S) == []
    assert ray_children() == []


def ray_children() -> list[str]:
    """Ray processes below this one, after giving them a moment to leave."""
    until = time.monotonic() + GONE_S
    while True:
        left = [
            f"{child.pid} {child.name()}"
            for child in psutil.Process().children(recursive=True)
            if child.status() != psutil.STATUS_ZOMBIE and ("ray" in child.name() or "gcs" in child.name())
        ]
        if not left or time.monotonic() > until:
            return left
        time.sleep(0.05)
