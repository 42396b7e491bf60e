"""Whole stories with brokers that have stores: disks fail, and come back old, empty or rotten; nothing else changes."""

from __future__ import annotations

from collections import Counter

import pytest
from mantamq.protocol.wire.events import Entry, Rejoin, Return, decode_event

from . import disk_faults, faults
from .checkers import Watcher
from .disk_stories import has_stores
from .stores import STALL_US
from .workload import Story, play

SEEDS = 10
TOLD = (12, 13, 18, 24, 30)
"""Stories that have between them all that such stories are told for; others come behind, where these have become others."""


@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_brokers_with_stores_break_no_rule(seed):
    played = play(seed, faulty=True, stored=True)
    assert not played.wrong, "\n".join([*played.tail, played.wrong])


def test_a_share_of_the_seeds_has_stores():
    assert 20 < sum(has_stores(seed) for seed in range(1, 101)) < 30


class _Reached(Exception):
    """A story has come as far as it is looked at."""


def test_no_flush_begins_to_stand_still_at_rest(monkeypatch):
    """Where nothing else breaks, too: a cluster of one broker answers nothing while its disk stands still."""

    def reached(*arguments: object) -> None:
        raise _Reached

    story = Story(75, None, False, stored=True)
    assert story.faults is None and story.disks is not None
    story.disks.stores.stalls = 0.0005
    monkeypatch.setattr(story, "until", reached)
    with pytest.raises(_Reached):
        story._rest()
    assert story.disks.stores.stalls == 0.0


def test_a_store_is_steady_when_its_long_flush_is_over():
    story = Story(75, None, False, stored=True)
    assert story.disks is not None
    stores = story.disks.stores
    assert stores.steady()
    stores.stall("b1")
    assert stores.flush_us("b1") == STALL_US
    story.world.now_us += STALL_US - 1
    assert not stores.steady()
    story.world.now_us += 1
    assert stores.steady()


def test_such_stories_have_what_they_are_told_for(monkeypatch):
    """Logs that count again, logs that are given up, every fault of a disk, and enough that is compared."""
    monkeypatch.setattr(faults, "RATE", 0.15)
    seen: Counter[str] = Counter()
    compared: Counter[str] = Counter()
    full: Counter[str] = Counter()
    commit = Watcher._commit

    def counted(self: Watcher, stream: str, index: int, entry: Entry) -> None:
        event = decode_event(entry.event)
        if stream == "cluster" and isinstance(event, Return | Rejoin):
            seen[type(event).__name__] += 1
        commit(self, stream, index, entry)

    monkeypatch.setattr(Watcher, "_commit", counted)
    wanted = {"Return", "Rejoin", *disk_faults.KINDS}
    for seed in (*TOLD, *range(1, 10)):
        story = Story(seed, None, True, stored=True)
        story.run()
        assert story.faults is not None and story.disks is not None
        seen.update(story.faults.counts)
        compared.update(story.disks.counts)
        full.update(story.disks.full.counts)
        if wanted <= seen.keys() and full["full"] and full["written"]:
            break
    assert wanted <= seen.keys(), f"they have only {seen}"
    assert min(compared[what] for what in ("acks", "promises", "applied", "written")) > 500, compared
    assert compared["reports"] > 20
    assert full["full"] and full["written"], full
