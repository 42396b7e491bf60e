"""Stories on several hosts: only where this machine lets us make hosts, and each with a time-out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hosts.hosts import Hosts
from tests.hosts.network import why_not

TEST_S = 240


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    mine = [item for item in items if here in item.path.parents]
    reason = why_not() if mine else ""
    for item in mine:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_S))
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    """Hosts of this test's own."""
    with Hosts() as hosts:
        yield hosts
