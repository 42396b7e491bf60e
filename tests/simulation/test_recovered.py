"""What comes back from disks is compared in stories that have it, and often enough."""

from __future__ import annotations

from collections import Counter

from . import disk_stories, faults, losses
from .disk_faults import KINDS
from .workload import Story

LEAST = {"checkpoints": 50, "queues": 50, "entries": 100, "quorums": 50, "recovered": 10, "wirings": 5, "votes": 20}
"""What was compared -> how often, at the least, in all these stories together."""


def test_stories_with_stores_compare_what_comes_back(monkeypatch):
    monkeypatch.setattr(faults, "RATE", 0.1)
    monkeypatch.setattr(faults, "KINDS", [*KINDS, "link", "sequencer"])
    monkeypatch.setattr(disk_stories, "LASTING", 1.0)
    monkeypatch.setattr(disk_stories, "DURABLE", 1.0)
    compared: Counter[str] = Counter()
    for seed in range(1, 20):
        story = Story(seed, None, True, stored=True)
        story.run()
        assert story.recovered is not None
        compared += story.recovered.counts
        if all(compared[what] >= least for what, least in LEAST.items()):
            return
    raise AssertionError(f"they have compared only {compared}, wanted {LEAST}")


def test_blackouts_compare_what_comes_back():
    compared: Counter[str] = Counter()
    for seed in range(1, 12):
        story = losses.Loss(seed, stored=True)
        story.run()
        assert story.recovered is not None
        compared += story.recovered.counts
    assert min(compared[what] for what in ("entries", "quorums", "wirings")) > 20, compared
