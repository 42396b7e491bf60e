"""Which brokers the sequencer holds for dead, and when."""

from __future__ import annotations

import pytest
from mantamq.protocol.sequencer.failure_detector import FailureDetector
from mantamq.protocol.timing import BEAT_MS, BROKEN_MS


def test_a_sequencer_that_has_stood_still_evicts_nobody_before_it_has_heard():
    pulse = FailureDetector(["b1", "b2", "b3"], 0)
    for at_ms in (0, BEAT_MS):
        pulse.beat(at_ms)
        for broker in ("b1", "b2"):
            pulse.up(broker, at_ms)
    late_ms = 2 * BEAT_MS + BROKEN_MS
    assert pulse.dead(late_ms, set()) == []
    pulse.beat(late_ms)
    assert pulse.dead(late_ms + BEAT_MS, set()) == ["b3"]


@pytest.mark.parametrize("word_first", [True, False])
def test_a_broker_that_its_replica_has_lost_too_is_out_at_once(word_first):
    pulse = FailureDetector(["b1", "b2", "b3"], None)
    for broker in pulse.members:
        pulse.up(broker, 1000)
    steps = [lambda: pulse.orphaned("b3", 1100), lambda: pulse.down("b3", 1100)]
    for step in steps if word_first else steps[::-1]:
        assert pulse.dead(1100, set()) == []
        step()
    assert pulse.due_ms <= 1100
    assert pulse.dead(1100, set()) == ["b3"]
    pulse.up("b3", 1200)
    assert pulse.dead(1200, set()) == []


def test_an_old_word_of_a_replica_does_not_shorten_a_broken_links_time():
    pulse = FailureDetector(["b1", "b2", "b3"], None)
    for broker in pulse.members:
        pulse.up(broker, 1000)
    pulse.orphaned("b3", 1000)
    late_ms = 1000 + BROKEN_MS + 1
    pulse.down("b3", late_ms)
    assert pulse.due_ms in (0, late_ms + BROKEN_MS + 1) and pulse.dead(late_ms, set()) == []
    assert pulse.dead(late_ms + BROKEN_MS + 1, set()) == ["b3"]
