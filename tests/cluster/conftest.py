"""Real Ray clusters for tests: few and slow, each with a time-out, none leaving a process behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mantamq.actors.cluster import Cluster

from tests.cluster.shared import Shared

TEST_S = 60


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        "hurts(for_good=False): the test has processes of the shared cluster die, or stand still. One that heals is used "
        "on by other such tests.",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A time-out for each. And those that share a cluster come one after another, who hurts it last: every order is as
    good, and this one starts the fewest clusters."""
    here = Path(__file__).parent
    mine = [item for item in items if here in item.path.parents]
    for item in mine:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_S))
    if mine:
        first = items.index(mine[0])
        others = [item for item in items if here not in item.path.parents]
        items[:] = [*others[:first], *sorted(mine, key=turn), *others[first:]]


def turn(item: pytest.Item) -> int:
    if not shares(item):
        return 3
    hurts = item.get_closest_marker("hurts")
    return 0 if hurts is None else 2 if hurts.kwargs.get("for_good") else 1


def shares(item: pytest.Item) -> bool:
    return "cluster" in getattr(item, "fixturenames", ())


@pytest.fixture(scope="session")
def shared() -> Iterator[Shared]:
    found = Shared()
    yield found
    found.stop()


@pytest.fixture(autouse=True)
def alone(request: pytest.FixtureRequest, shared: Shared) -> None:
    """A test that does not ask for the shared cluster has the machine to itself."""
    if not shares(request.node):
        shared.stop()


@pytest.fixture
def cluster(shared: Shared, request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """Three brokers, whole and without a queue, which other tests use as well. A test that costs them a process is marked
    ``hurts``; after one that fails the next has fresh ones."""
    hurts = request.node.get_closest_marker("hurts")
    before = request.session.testsfailed
    yield shared.get(healed=hurts is not None)
    if request.session.testsfailed > before or (hurts is not None and hurts.kwargs.get("for_good")):
        shared.stop()
    else:
        shared.clean(hurt=hurts is not None)
