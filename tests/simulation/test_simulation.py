"""The simulator itself: deterministic, quiet on the real machines, loud on planted bugs."""

from __future__ import annotations

import random

import pytest

from . import mutants
from .workload import Story, play

BUDGET = 60


@pytest.mark.parametrize("seed", [1, 10, 20])
def test_a_seed_always_tells_the_same_story(seed):
    def trace() -> int:
        story = Story(seed)
        frames: list[str] = []
        story.world.taps.append(lambda source, target, frame: frames.append(f"{source}>{target} {frame}"))
        story.run()
        return hash("\n".join(frames))

    assert trace() == trace()


def test_chance_has_one_source():
    random.seed(1)
    first = play(5)
    random.seed(2)
    assert play(5) == first


@pytest.mark.parametrize("name", sorted(mutants.ALL))
def test_planted_bugs_are_found(name, monkeypatch):
    mutants.ALL[name](monkeypatch)
    for seed in range(1, BUDGET + 1):
        if play(seed)[2]:
            return
    pytest.fail(f"the planted bug {name} was not found in {BUDGET} seeds: a checker or the workload is too weak")
