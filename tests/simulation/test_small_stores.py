"""Small worlds with stores: the clean ones are clean, and each planted bug is found by the shortest way."""

from __future__ import annotations

import pytest

from . import mutants_store
from .model import Violation
from .small_stores import STORIES, StoredExplorer

STATES = 4_000
PLANTED = {
    "ack_before_flush": (0, 6),
    "reported_before_flush": (1, 10),
    "promise_in_memory_only": (0, 1),
    "pledge_before_flush": (2, 3),
    "a_restarted_log_counts_as_empty": (0, 1),
    "a_restarted_log_counts_as_blank": (0, 1),
    "apply_before_flush": (3, 12),
}
"""Bug -> (story in which it is looked for, steps of the shortest way there)."""


@pytest.mark.parametrize("story", range(len(STORIES)))
def test_every_order_with_stores(story):
    assert list(StoredExplorer(STORIES[story]).run(STATES))[-1] >= STATES


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found_by_the_shortest_way(bug, monkeypatch):
    story, steps = PLANTED[bug]
    mutants_store.ALL[bug](monkeypatch)
    with pytest.raises(Violation) as found:
        list(StoredExplorer(STORIES[story]).run(20_000))
    assert len(str(found.value).splitlines()) - 1 == steps, str(found.value)
