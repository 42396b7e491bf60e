"""Supervisors under cuts, deaths, pauses and changes of the members: one is in office, and nobody ends who is needed."""

from __future__ import annotations

from collections import Counter

import pytest

from . import mutants_supervision
from .model import Violation
from .supervised import play_supervised, play_together

SEEDS = 40
TOGETHER = 10
BUDGET = 100
WHAT = (
    "cut", "elected", "resigned", "ended", "killed", "started", "lost", "moved", "join", "leave", "went on",
)  # fmt: skip


def test_who_is_cut_off_ends_nobody_and_one_is_in_office_in_the_end() -> None:
    counts: Counter[str] = Counter()
    for seed in range(1, SEEDS + 1):
        counts.update(play_supervised(seed).counts)
    assert min(counts[what] for what in WHAT) > 5, counts


def test_brokers_that_died_together_begin_again_together() -> None:
    for seed in range(1, TOGETHER + 1):
        play_together(seed)


@pytest.mark.parametrize("name", sorted(mutants_supervision.ALL))
def test_planted_bugs_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutants_supervision.ALL[name](monkeypatch)
    with pytest.raises(Violation):
        for seed in range(1, BUDGET + 1):
            mutants_supervision.STORIES.get(name, play_supervised)(seed)
