"""What the sequencer knows of one stream's log."""

from __future__ import annotations

from made_up_logs import ONE
from mantamq.protocol.sequencer.stream import Stream
from mantamq.protocol.wire.events import Entry


def test_of_a_request_that_was_cut_in_two_the_rest_is_still_to_come():
    stream = Stream("q#1")
    stream.put(Entry(ONE, 1, "b1.r0", 1, 5, b"first"))
    assert [stream.parts_held("b1.r0", 1, number) for number in (5, 6)] == [1, 0]
    stream.put(Entry(ONE, 2, "b1.r0", 1, 5, b"second"))
    assert stream.parts_held("b1.r0", 1, 5) == 2
    assert stream.parts_held("b1.r0", 1, 4) > 2  # all of it, however many there were
