"""Voters with stores lose power, and keep what they said; planted bugs are found."""

from __future__ import annotations

import pytest

from . import mutants_store
from .model import Violation
from .stored_voters import VotersStory

SEEDS = 12


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_voters_with_stores_break_no_rule(seed):
    story = VotersStory(seed)
    story.run()
    assert story.checker.counts["acks"] and story.checker.counts["reports"] and story.checker.counts["written"]


@pytest.mark.parametrize("bug", [bug for bug in mutants_store.ALL if bug not in mutants_store.OF_SMALL_WORLDS])
def test_a_planted_bug_is_found(bug, monkeypatch):
    mutants_store.ALL[bug](monkeypatch)
    for seed in range(1, 60):
        try:
            VotersStory(seed).run()
        except (Violation, AssertionError):
            return
    raise AssertionError(f"{bug} is not found")


def test_a_log_that_goes_on_below_its_end_is_found():
    """A copy of a disk that is put back behind everybody's back: its LSNs were used before (I26)."""
    story = VotersStory(1)
    story.world.run_for(300_000)
    files = story.stores.disks["b2"]
    image = files.image()
    for _ in range(20):
        story.asker.ask(30)
        story.world.run_for(300_000)
    story.stores.power("b2")
    files.put_back(image)
    with pytest.raises(Violation, match="I26"):
        story.world.run_for(10_000_000)


def test_two_owners_of_a_stream_are_found():
    """Records of a life behind those of a later one (I27)."""
    checker = VotersStory(1).checker
    checker._owns("b1", "q#1", 100, 1)
    checker._owns("b1", "q#1", 200, 2)
    checker._owns("b1", "q#1", 150, 1)
    with pytest.raises(Violation, match="I27"):
        checker._owns("b1", "q#1", 300, 1)
