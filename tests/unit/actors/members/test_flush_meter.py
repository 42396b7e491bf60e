"""Flushes per second, and how long the slow ones take, of the last seconds."""

from __future__ import annotations

from random import Random

import pytest
from mantamq.actors.members.flush_meter import SPAN_NS, FlushMeter

MS = 1_000_000


def test_nothing_was_flushed() -> None:
    assert FlushMeter().figures(5 * SPAN_NS) == (0.0, 0.0)


@pytest.mark.parametrize("seed", range(5))
def test_the_99th_percentile_is_within_a_bucket(seed: int) -> None:
    random, meter = Random(seed), FlushMeter()
    took = [int(10 ** random.uniform(3.5, 9)) for _ in range(3000)]
    for one in took:
        meter.note(SPAN_NS, SPAN_NS + one)
    true_ms = sorted(took)[int(len(took) * 0.99) - 1] / MS
    assert true_ms <= meter.figures(SPAN_NS)[1] * 1.001 and meter.figures(SPAN_NS)[1] <= true_ms * 1.43


def test_the_rate_is_of_the_last_spans_and_old_ones_are_forgotten() -> None:
    meter, now = FlushMeter(), 100 * SPAN_NS
    for _ in range(400):
        now += SPAN_NS // 100
        meter.note(now - MS, now)
    per_s, p99_ms = meter.figures(now)
    assert per_s == pytest.approx(10, rel=0.11) and 0.99 <= p99_ms <= 1.42
    assert meter.figures(now + 3 * SPAN_NS) == (0.0, 0.0)
