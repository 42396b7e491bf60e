"""What a candidate makes of promises and log reports."""

from __future__ import annotations

import pytest
from made_up_logs import ONE, TWO
from mantamq.protocol.sequencer.election import PREPARING, Election
from mantamq.protocol.sequencer.stream import Stream
from mantamq.protocol.wire.log_frames import LogReport, Promise


def test_an_older_incarnation_does_not_speak_for_a_voter_that_has_rejoined():
    reign = Election(["b1", "b2", "b3"], PREPARING)
    stream = Stream("q#1")
    stream.reports["b1"] = ("b1.r0", LogReport("q#1", "b1", 9, ONE, TWO, log_inc=1))
    for known in ({"incs": {"b1": 2}}, {"uncommitted_incs": {"b1": 2}}):
        stream.reports["b2"] = ("b2.r0", LogReport("q#1", "b2", 5, ONE, TWO, log_inc=1, **known))
        assert list(reign.logs(stream)) == ["b2"]


@pytest.mark.parametrize(("blank", "count"), [(False, 1), (True, 0)])
def test_a_broker_that_has_lost_its_log_does_not_say_that_a_queue_is_empty(blank, count):
    reign = Election(["b1", "b2", "b3"], PREPARING)
    reign.promises["b1"] = Promise(TWO, "b1", 1, blank, [])
    assert len(reign.empty(Stream("q#1"), {})) == count
