"""Supervisors under cuts, deaths, pauses and changes of the members: one is in office, and nobody ends who is needed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest

from . import mutants_supervision
from .model import Violation
from .supervised import play_members, play_return, play_supervised, play_together

SEEDS = 30
MEMBERS = 15
RARE = 10
BUDGET = 100
WHAT = (
    "cut", "elected", "resigned", "ended", "killed", "started", "lost", "moved", "join", "leave", "went on",
)  # fmt: skip


def test_who_is_cut_off_ends_nobody_and_one_is_in_office_in_the_end() -> None:
    counts: Counter[str] = Counter()
    for seed in range(1, SEEDS + 1):
        counts.update(play_supervised(seed).counts)
    for seed in range(1, MEMBERS + 1):
        counts.update(play_members(seed).counts)
    assert min(counts[what] for what in WHAT) > 5, counts


@pytest.mark.parametrize("play", [play_together, play_return])
def test_what_is_rare_in_other_stories(play: Callable[[int], object]) -> None:
    for seed in range(1, RARE + 1):
        play(seed)


@pytest.mark.parametrize("name", sorted(mutants_supervision.ALL))
def test_planted_bugs_are_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mutants_supervision.ALL[name](monkeypatch)
    with pytest.raises(Violation):
        for seed in range(1, BUDGET + 1):
            mutants_supervision.STORIES.get(name, play_supervised)(seed)
