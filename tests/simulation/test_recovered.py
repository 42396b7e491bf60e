"""What comes back from disks is compared in stories that have it, and often enough."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from mantamq.protocol.wire import events

from . import disk_stories, faults, losses
from .disk_faults import KINDS
from .disk_parser import StreamOnDisk
from .model import ModelQueue, Violation
from .recovered import Recovered
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


# ---- who may recover, while the voters change

LEAVES = events.encode_event(events.Member("b3", 1, False))


def recovers(ends: dict[str, int], committed: int, change: int = 0, deposed: str = "") -> int:
    """Compare the quorums of a queue of five voters; how many were compared.

    Args:
        ends: broker -> up to where its disk has the log.
        change: where in the log b3 leaves the voters; 0: nowhere.
        deposed: who has b3 leave instead of the last entry, as a leader said that was deposed meanwhile.
    """
    log: dict[int, events.Entry] = {}
    for index in range(1, committed + 1):
        event = LEAVES if index == change else events.encode_event(events.Expire(index, []))
        origin, term = "" if index == change else "b1.r0", 3 if index == committed else 1
        log[index] = events.Entry((term, 1), index, origin, 1, index, event)
    disks = {
        broker: StreamOnDisk(entries={at: (log[at].ballot, at, log[at].event) for at in range(1, end + 1)})
        for broker, end in ends.items()
    }
    if deposed:
        disks[deposed].entries[committed] = ((2, 2), committed, LEAVES)
    recovered: Any = Recovered.__new__(Recovered)
    recovered.counts = Counter()
    recovered.watch = SimpleNamespace(
        logs={"q#1": log},
        commits={"q#1": committed},
        gone=set(),
        births={"q#1": ["b1", "b2", "b3", "b4", "b5"]},
        _own={"q#1": [change]},
    )
    recovered._lasting = lambda stream: True
    recovered._counting = lambda stream, voters: {voter: disks[voter] for voter in voters if voter in disks}
    recovered._compare_quorums("q#1")
    return recovered.counts["quorums"]


def test_a_voter_leaves_by_a_majority_of_those_before_and_who_has_not_heard_of_it_recovers_by_these_too():
    assert recovers({"b1": 4, "b2": 4, "b3": 4, "b4": 3, "b5": 3}, 4, change=4)


def test_what_is_behind_a_change_is_found_by_every_quorum_of_those_after_it():
    assert recovers({"b1": 5, "b2": 5, "b3": 4, "b4": 5, "b5": 3}, 5, change=4)


def test_what_too_few_of_those_after_a_change_have_is_missed_by_a_quorum_of_them():
    with pytest.raises(Violation, match="I23"):
        recovers({"b1": 5, "b2": 5, "b3": 5, "b4": 4, "b5": 4}, 5, change=4)


def test_a_change_that_too_few_of_those_before_it_have_is_missed_by_a_quorum_of_them():
    with pytest.raises(Violation, match="I23"):
        recovers({"b1": 4, "b2": 4, "b3": 3, "b4": 3, "b5": 3}, 4, change=4)


def test_a_log_with_a_change_that_is_not_committed_recovers_by_quorums_of_both():
    assert recovers({"b1": 3, "b2": 3, "b3": 3, "b4": 3, "b5": 2}, 3, deposed="b4")


def test_an_emptied_disk_counts_for_no_queue_that_has_begun_also_where_nothing_is_known_as_committed_yet():
    recovered: Any = Recovered.__new__(Recovered)
    recovered._replaced, recovered._checked, recovered._old = {}, {}, {}
    recovered.world = SimpleNamespace(life=lambda broker: 1)
    recovered.disks = SimpleNamespace(log=lambda broker, name: (None, {}))
    recovered.watch = SimpleNamespace(births={"q#1": ["b1", "b2"]}, commits={"cluster": 3})
    recovered._put_back("b1")
    assert recovered._old == {("b1", "q#1"): (0, 0), ("b1", "cluster"): (0, 0)}


# ---- what a disk is compared with


@pytest.mark.parametrize(("led", "numbers"), [(True, [7]), (False, [7, 6])])
def test_of_a_redirected_queue_what_comes_behind_what_came_after_is_on_no_disk(led, numbers):
    sent = [events.Enqueue("u1/1", [number, number], [b"%d" % number], at_ms=1) for number in (7, 6)]
    log = {at: events.Entry((1, 1), at, "b1", 1, at, events.encode_event(event)) for at, event in enumerate(sent, 1)}
    recovered: Any = Recovered.__new__(Recovered)
    recovered._models = {}
    recovered.watch = SimpleNamespace(logs={"tr1#1": log}, models={"tr1#1": ModelQueue("tr1#1", False, led=led)})
    model = recovered._model("b1", "tr1#1", len(log))
    assert list(model.live.values()) == [b"%d" % number for number in numbers]
