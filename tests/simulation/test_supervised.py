"""Supervisors under cuts, deaths and pauses: one is in office, and nobody ends who is needed."""

from __future__ import annotations

from collections import Counter

import pytest

from . import mutants_supervision
from .model import Violation
from .supervised import play_supervised

SEEDS = 40
BUDGET = 60


def test_who_is_cut_off_ends_nobody_and_one_is_in_office_in_the_end() -> None:
    counts: Counter[str] = Counter()
    for seed in range(1, SEEDS + 1):
        counts.update(play_supervised(seed).counts)
    assert min(counts[what] for what in ("cut", "elected", "resigned", "ended", "killed", "started")) > 5, counts


@pytest.mark.parametrize("name", sorted(mutants_supervision.ALL))
def test_planted_bugs_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutants_supervision.ALL[name](monkeypatch)
    with pytest.raises(Violation):
        for seed in range(1, BUDGET + 1):
            play_supervised(seed)
