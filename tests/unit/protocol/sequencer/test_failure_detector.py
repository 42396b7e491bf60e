"""Which brokers the sequencer holds for dead, and when."""

from __future__ import annotations

import pytest
from mantamq.protocol.sequencer.failure_detector import FailureDetector
from mantamq.protocol.timing import DEFAULT_TIMING

BEAT_MS, BROKEN_MS = DEFAULT_TIMING.heartbeat_ms, DEFAULT_TIMING.broken_ms


def test_a_sequencer_that_has_stood_still_evicts_nobody_before_it_has_heard():
    detector = FailureDetector(["b1", "b2", "b3"], 0)
    for at_ms in (0, BEAT_MS):
        detector.beat(at_ms)
        for broker in ("b1", "b2"):
            detector.up(broker, at_ms)
    late_ms = 2 * BEAT_MS + BROKEN_MS
    assert detector.dead(late_ms, set()) == []
    detector.beat(late_ms)
    assert detector.dead(late_ms + BEAT_MS, set()) == ["b3"]


@pytest.mark.parametrize("word_first", [True, False])
def test_a_broker_that_its_replica_has_lost_too_is_out_at_once(word_first):
    detector = FailureDetector(["b1", "b2", "b3"], None)
    for broker in detector.members:
        detector.up(broker, 1000)
    steps = [lambda: detector.orphaned("b3", 1100), lambda: detector.down("b3", 1100)]
    for step in steps if word_first else steps[::-1]:
        assert detector.dead(1100, set()) == []
        step()
    assert detector.due_ms <= 1100
    assert detector.dead(1100, set()) == ["b3"]
    detector.up("b3", 1200)
    assert detector.dead(1200, set()) == []


def test_an_old_word_of_a_replica_does_not_shorten_a_broken_links_time():
    detector = FailureDetector(["b1", "b2", "b3"], None)
    for broker in detector.members:
        detector.up(broker, 1000)
    detector.orphaned("b3", 1000)
    late_ms = 1000 + BROKEN_MS + 1
    detector.down("b3", late_ms)
    assert detector.due_ms in (0, late_ms + BROKEN_MS + 1) and detector.dead(late_ms, set()) == []
    assert detector.dead(late_ms + BROKEN_MS + 1, set()) == ["b3"]
