"""Each planted bug is found, within a budget of stories."""

from __future__ import annotations

from random import Random

import pytest

from ..disks import Fault
from . import planted
from .rot import Rest, some_harm
from .test_every_call import fail_at

BUDGET = 1500
GROUPS = 40


def find_failing(budget: int = BUDGET) -> str:
    """Look for a story that goes wrong where a call fails: which one, or ""."""
    random = Random(1)
    for story in range(budget):
        seed, call, fault = random.randrange(50), random.randrange(500), random.choice(list(Fault))
        try:
            fail_at(seed, call, fault, GROUPS)
        except Exception as error:
            return f"story {story}: seed {seed}, call {call}, {fault.name}: {type(error).__name__}: {error}"
    return ""


def find_rotten(budget: int = 100) -> str:
    """Look for a log at rest that goes wrong when it is hurt."""
    for seed in range(budget):
        random = Random(seed)
        try:
            rest = Rest.after(seed, 20, True)
            for _ in range(15):
                rest.judge(lambda files, random=random: some_harm(random, files))
        except Exception as error:
            return f"seed {seed}: {type(error).__name__}: {error}"
    return ""


@pytest.mark.parametrize("name", sorted(planted.FAILING))
def test_planted_bugs_are_found_where_calls_fail(name, monkeypatch):
    planted.FAILING[name](monkeypatch)
    assert find_failing(), f"{name} was not found: the judge or the story is too weak"


@pytest.mark.parametrize("name", sorted(planted.ROTTEN))
def test_planted_bugs_are_found_where_logs_rot(name, monkeypatch):
    planted.ROTTEN[name](monkeypatch)
    assert find_rotten(), f"{name} was not found: the judge or the harm is too weak"
