"""All processes die at once, and what no flush had covered is lost: what was complete in durable queues is there again."""

from __future__ import annotations

import pytest

from tests.chaos.run import Settings, run
from tests.cluster.shared import ray_children

CUTS = 3
CALM_S = (6.0, 8.0)
"""Browsers need a while to see anything whole. Queues of kinds need longer than this test may take to show enough to be
judged by: `make chaos FAULTS=durable` has them."""


@pytest.mark.timeout(300)
def test_nothing_complete_is_lost_by_power_cuts(tmp_path):
    said: list[str] = []
    settings = Settings(
        minutes=0.1, faults=("power",), seed=15, keep=str(tmp_path), least=CUTS, calm_s=CALM_S, healthy_s=60.0,
        kinds=(), takers=0,
    )  # fmt: skip
    outcome = run(settings, said.append)
    assert outcome.violations == [], "\n".join([*said, *map(str, outcome.violations)])
    assert outcome.counts["transfers completed"] > 100
    assert outcome.kills["power"] >= CUTS
    assert ray_children() == []
