"""How long a broker may serve."""

from __future__ import annotations

from mantamq.protocol.broker.lease import Lease
from mantamq.protocol.timing import DEFAULT_TIMING


def test_the_first_beat_begins_the_lease():
    lease = Lease()
    assert not lease.expired(1000)
    lease.heard(1, 0, 1000)
    assert [lease.expired(1000 + DEFAULT_TIMING.lease_ms + late_ms) for late_ms in (0, 1)] == [False, True]
