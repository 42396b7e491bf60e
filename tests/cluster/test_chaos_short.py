"""The short form of `python -m tests.chaos`, for every run of the tests; the long ones are run by hand and at night."""

from __future__ import annotations

import pytest

from tests.chaos import kinds
from tests.chaos.run import Settings, run
from tests.cluster.shared import ray_children

FAULTS = (
    "kill-broker",
    "kill-owner",
    "kill-sequencer",
    "kill-replica",
    "kill-ownership",
    "kill-supervisor",
    "pause-owner",
    "close-connection",
)
"""Names from tests/chaos/faults.py."""
SECONDS = 40


@pytest.mark.timeout(240)
def test_nothing_completed_is_lost(tmp_path):
    said: list[str] = []
    settings = Settings(
        minutes=SECONDS / 60, faults=FAULTS, seed=7, keep=str(tmp_path), senders=3, receivers=3, kinds=kinds.SHORT, takers=2
    )  # fmt: skip
    outcome = run(settings, said.append)
    assert outcome.violations == [], "\n".join([*said, *map(str, outcome.violations)])
    assert outcome.counts["transfers completed"] > 1000
    assert outcome.kills.total() >= 4
    assert ray_children() == []
