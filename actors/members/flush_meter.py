"""How long a disk's flushes take, and how many there are: a histogram of the last seconds, two buckets per doubling.

One addition for each flush. Of two spans of ten seconds the one before counts with the one that runs, so that a figure
is never of less than the last ten seconds.
"""

from __future__ import annotations

import itertools

SPAN_NS = 10_000_000_000
_BUCKETS = 80


class FlushMeter:
    """Times are those of one monotonic clock, in nanoseconds."""

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self._before = [0] * _BUCKETS
        self._since_ns = 0
        self._before_ns = 0  # how long the span before was

    def note(self, began_ns: int, ended_ns: int) -> None:
        """A flush has returned."""
        self._turn(ended_ns)
        self._counts[_bucket(ended_ns - began_ns)] += 1

    def _turn(self, now_ns: int) -> None:
        lasted = now_ns - self._since_ns
        if lasted >= SPAN_NS:
            recent = lasted < 2 * SPAN_NS
            self._before = self._counts if recent else [0] * _BUCKETS
            self._before_ns = lasted if recent else SPAN_NS
            self._counts, self._since_ns = [0] * _BUCKETS, now_ns

    def figures(self, now_ns: int) -> tuple[float, float]:
        """Flushes per second, and the 99th percentile of their times in milliseconds, within a factor of 1.4."""
        self._turn(now_ns)
        both = [here + there for here, there in zip(self._counts, self._before, strict=True)]
        count = sum(both)
        if not count:
            return 0.0, 0.0
        sums = list(itertools.accumulate(both))
        bucket = next(number for number, upto in enumerate(sums) if upto >= count * 0.99)
        per_s = count / ((now_ns - self._since_ns + self._before_ns) / 1e9)
        return round(per_s, 1), round(2 ** ((bucket + 1) / 2) / 1000, 3)


def _bucket(took_ns: int) -> int:
    """Bucket `n` has times from 2^(n/2) to 2^((n+1)/2) microseconds."""
    micros = max(1, took_ns // 1000)
    whole = micros.bit_length() - 1
    return min(_BUCKETS - 1, 2 * whole + (micros * micros >= 1 << (2 * whole + 1)))
