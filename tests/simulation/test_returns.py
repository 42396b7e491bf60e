"""Brokers come back with their disks (`disks.py`), and with old copies of them; nothing else changes in the rules."""

from __future__ import annotations

from collections import Counter

import pytest
from mantamq.protocol.broker.machine import BrokerMachine
from mantamq.protocol.wire.events import Entry, Return, decode_event
from mantamq.protocol.wire.log_frames import Evicted

from . import alternates, faults
from .checkers import Watcher
from .faults import Faults
from .workload import Story, play

SEEDS = 8


@pytest.mark.parametrize("kinds", [faults.RETURNS, faults.OLD])
@pytest.mark.parametrize("seed", range(1, SEEDS + 1))
def test_a_broker_that_comes_back_with_its_log_breaks_no_rule(seed, kinds, monkeypatch):
    monkeypatch.setattr(faults, "KINDS", faults.KINDS + kinds)
    monkeypatch.setattr(alternates, "DECLARED", alternates.DURABLE)
    monkeypatch.setattr(BrokerMachine, "stored", True)
    played = play(seed, faulty=True)
    assert not played.wrong, "\n".join([*played.tail, played.wrong])


def test_such_stories_have_what_they_are_told_for(monkeypatch):
    """Returns in the cluster stream and in queues, and copies that are refused."""
    monkeypatch.setattr(faults, "KINDS", faults.OLD)
    monkeypatch.setattr(faults, "RATE", 0.15)
    monkeypatch.setattr(alternates, "DECLARED", alternates.DURABLE)
    monkeypatch.setattr(BrokerMachine, "stored", True)
    seen: Counter[str] = Counter()
    commit, init = Watcher._commit, Faults.__init__

    def counted(self: Watcher, stream: str, index: int, entry: Entry) -> None:
        if isinstance(decode_event(entry.event), Return):
            seen["cluster" if "#" not in stream else "queue"] += 1
        commit(self, stream, index, entry)

    def watched(self: Faults, world: object) -> None:
        init(self, world)  # type: ignore[arg-type]
        self.world.watch(sent={Evicted: lambda source, target, frame: seen.update(old="old copy" in frame.reason)})

    monkeypatch.setattr(Watcher, "_commit", counted)
    monkeypatch.setattr(Faults, "__init__", watched)
    for seed in range(1, 20):
        Story(seed, None, True).run()
        if seen["cluster"] and seen["queue"] and seen["old"]:
            return
    raise AssertionError(f"they have only {seen}")
