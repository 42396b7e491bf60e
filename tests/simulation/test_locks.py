"""Consume locks under cuts of the Ownership on duty: they move on soon, and never have two owners."""

from __future__ import annotations

from collections import Counter

import pytest

from . import mutants_locks
from .locks import play_locks
from .model import Violation

SEEDS = 12
BUDGET = 20


def test_locks_move_on_when_the_ownership_on_duty_is_cut_off() -> None:
    counts: Counter[str] = Counter()
    for seed in range(1, SEEDS + 1):
        counts.update(play_locks(seed).counts)
    assert len(counts) == 6, counts


@pytest.mark.parametrize("name", sorted(mutants_locks.ALL))
def test_planted_bugs_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutants_locks.ALL[name](monkeypatch)
    with pytest.raises(Violation):
        for seed in range(1, BUDGET + 1):
            play_locks(seed)
